"""Implementations with one plausible mistake each; the small cases must catch every one."""

from typing import Final

from mluops_gtest.authoring import mistakes

from .._shared.wrong_focal_loss import focal_mutants
from . import FOCAL, OPERATOR

MUTANTS: Final = (
    *focal_mutants(OPERATOR, FOCAL),
    *mistakes.suspected(
        OPERATOR,
        {
            "gamma_of_pt": "gamma is the power of pt",
            "without_logarithm": "pt stands for its logarithm",
            "other_logarithm": "the logarithm is that of 1 − pt",
            "derivative": "the result is the derivative",
        },
    ),
)
