"""Implementations with one plausible mistake each; the small cases must catch every one."""

from typing import Final

from .._shared.wrong_psamask import mask_mutants
from . import MASK, OPERATOR

MUTANTS: Final = mask_mutants(OPERATOR, MASK)
