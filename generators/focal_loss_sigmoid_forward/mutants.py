"""Implementations with one plausible mistake each; the small cases must catch every one."""

from typing import Final

from .._shared.wrong_focal_loss import focal_mutants
from . import FOCAL, OPERATOR, WRONG

# Where columns are split, without weight and with it (§3.3).
_SPLITS: Final = (27296, 23392)
MUTANTS: Final = tuple(focal_mutants(OPERATOR, FOCAL, WRONG, _SPLITS))
