"""Implementations with one plausible mistake each; the small cases must catch every one."""

from functools import partial
from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status
from mluops_gtest.authoring.roundings import FLUSHED_WRITE
from mluops_gtest.authoring.wrong_sums import wrong_sum

from .._shared.wrong_interpolation import interpolation_mutants
from . import DIRECTION, terms

# What kernels cut axes into.
_TILE: Final = 64

variant = partial(wrong_sum, output="output", terms=terms)


def _tile_repeated(output: Array, total: Array) -> None:
    """Every tile of points shows the first one's results."""
    output[...] = total[..., np.arange(total.shape[-1]) % _TILE]


def _dense(call: OpCall) -> Status:
    """A matrix product with a row of zeros for all cells that a point does not name."""
    features, indices, weights = call.arrays("features", "indices", "weights")
    named = (indices[..., None] == np.arange(features.shape[2])) * weights[..., None].astype(np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        call.array("output")[...] = np.einsum("bcm,bntm->bcn", features.astype(np.float32), named)
    return Status.SUCCESS


MUTANTS: Final = (
    *interpolation_mutants(DIRECTION, terms),
    variant("tile_repeated", "writes the first tile of 64 points again and again", write=_tile_repeated),
    Mutant("nan_spread", "multiplies zeros with the cells that a point does not name", _dense),
)


# Right implementations that the document allows; the cases of each tag alone tell them apart.


_NAME, _MESSAGE, _WRITE = FLUSHED_WRITE

VARIANTS: Final = {"subnormal": (variant(_NAME, _MESSAGE, write=_WRITE),)}
