"""The kernel that the numpy backend runs: §3.1's split into tiles of points and channels, float32 throughout."""

from typing import Final

import numpy as np

from mluops_gtest.authoring import OpCall, Status

from .._shared.interpolation import interpolation_verdict

# Points and channels that are on the chip at a time.
POINTS: Final = 4096
CHANNELS: Final = 64


def kernel(call: OpCall) -> Status:
    """Check the call, then interpolate tile by tile."""
    status, computes = interpolation_verdict(call, points="output", cells="features")
    if computes:
        for batch in range(call.tensor("output").dims[0]):
            _interpolate(call, batch)
    return status


def _interpolate(call: OpCall, batch: int) -> None:
    features, output = call.array("features")[batch], call.array("output")[batch]
    indices, weights = call.array("indices")[batch], call.array("weights")[batch].astype(np.float32, copy=False)
    for point in range(0, len(indices), POINTS):
        points = slice(point, point + POINTS)
        for channel in range(0, len(features), CHANNELS):
            channels = slice(channel, channel + CHANNELS)
            tile = features[channels].astype(np.float32, copy=False)
            # Infinite features and weights give what IEEE says; a sum beyond the largest half becomes infinite.
            with np.errstate(over="ignore", invalid="ignore"):
                # §3.1 steps 6 to 9: choose a column per point, scale it, add it; three times.
                total = tile[:, indices[points, 0]] * weights[points, 0]
                for neighbour in (1, 2):
                    total += tile[:, indices[points, neighbour]] * weights[points, neighbour]
                output[channels, points] = total
