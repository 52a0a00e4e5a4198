"""Right implementations that the document allows; the cases of each tag alone tell them apart."""

from typing import Final

from mluops_gtest.authoring.roundings import FLUSHED_WRITE

from .mutants import variant

_NAME, _MESSAGE, _WRITE = FLUSHED_WRITE

VARIANTS: Final = {"subnormal": (variant(_NAME, _MESSAGE, write=_WRITE),)}
