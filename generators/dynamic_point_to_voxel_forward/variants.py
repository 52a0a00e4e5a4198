"""Right implementations that the document allows; the cases of each tag alone tell them apart."""

from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant
from mluops_gtest.authoring.roundings import flushed

from .steps import Steps, sums


def _maxima_with_nan(feats: Array, of_point: Array, rows: int, start: float) -> Array:
    best = np.full((rows, feats.shape[1]), start, np.float32)
    np.maximum.at(best, of_point, feats)
    return best


VARIANTS: Final = {
    "subnormal": (
        Mutant(
            "tiny_flushed",
            "subnormal results become 0",
            Steps(reduced=lambda result, _feats, _placed: flushed(result)).run,
        ),
        Mutant(
            "tiny_ignored_in_sums",
            "subnormal features count as 0 in a mean",
            Steps(sums=lambda feats, *rest: sums(flushed(feats), *rest)).run,
        ),
    ),
    "undefined": (
        Mutant(
            "nan_wins",
            "NaN is the maximum of its voxel, as torch's amax has it",
            Steps(maxima=_maxima_with_nan).run,
        ),
    ),
}
