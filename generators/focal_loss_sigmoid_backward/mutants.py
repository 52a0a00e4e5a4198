"""Implementations with one plausible mistake each; the small cases must catch every one."""

from typing import Final

from .._shared.wrong_focal_loss import focal_mutants
from . import OPERATOR

MUTANTS: Final = tuple(focal_mutants(OPERATOR, "grad_input"))
