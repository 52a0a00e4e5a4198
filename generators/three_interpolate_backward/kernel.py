"""The kernel that the numpy backend runs: §3.1's transposed tiles, contributions sorted by cell, float32 throughout."""

from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, OpCall, Status

from .._shared.interpolation import interpolation_verdict

# Channels that are on the chip at a time.
CHANNELS: Final = 64


def kernel(call: OpCall) -> Status:
    """Check the call, then add up the contributions to every cell."""
    status, computes = interpolation_verdict(call, points="grad_output", cells="grad_features")
    if computes:
        for batch in range(call.tensor("grad_output").dims[0]):
            _accumulate(call, batch)
    return status


def _accumulate(call: OpCall, batch: int) -> None:
    grad, result = call.array("grad_output")[batch], call.array("grad_features")[batch]
    entries = call.array("indices")[batch].reshape(-1)
    by_cell = np.argsort(entries, kind="stable")
    starts = np.flatnonzero(np.diff(entries[by_cell], prepend=-1))
    cells, points = entries[by_cell[starts]], by_cell // 3
    weights = call.array("weights")[batch].reshape(-1)[by_cell, None].astype(np.float32)
    for first in range(0, len(grad), CHANNELS):
        channels = slice(first, first + CHANNELS)
        # §3.1 step 6: points are rows, so that a contribution is one run of memory.
        tile: Array = np.ascontiguousarray(grad[channels].T, dtype=np.float32)
        # Infinite gradients and weights give what IEEE says; a sum beyond the largest half becomes infinite.
        with np.errstate(over="ignore", invalid="ignore"):
            result[channels] = 0
            result[channels, cells] = np.add.reduceat(tile[points] * weights, starts, axis=0).T
