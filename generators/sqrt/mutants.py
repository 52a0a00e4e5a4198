"""Implementations with one plausible mistake each; the small cases must catch every one."""

from .._shared.wrong_elementwise import mutants
from . import OPERATOR, WRONG

MUTANTS = mutants(OPERATOR, WRONG, alike=True)
