"""Right implementations that the document allows; the cases of each tag alone tell them apart."""

from typing import Final

from .mutants import LOOP

VARIANTS: Final = {"subnormal": LOOP.flushing()}
