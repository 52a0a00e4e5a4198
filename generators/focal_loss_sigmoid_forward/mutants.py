"""Implementations with one plausible mistake each; the small cases must catch every one."""

from typing import Final

from .._shared.wrong_focal_loss import focal_mutants
from . import FOCAL, OPERATOR, WRONG

# Where columns are split, without weight and with it (§3.3).
_SPLITS: Final = (27296, 23392)
# Not among them: 0^0 = 0, which float meets only where the loss is below 1e-8 and no norm sees it.
MUTANTS: Final = tuple(focal_mutants(OPERATOR, FOCAL, WRONG, _SPLITS))
