"""Implementations with one plausible mistake each; the small cases must catch every one."""

from typing import Final

from .._shared.wrong_tin_shift import shift_mutants
from . import OPERATOR, SHIFT

MUTANTS: Final = shift_mutants(OPERATOR, SHIFT)
