"""What the two operators share that reduce the points of a voxel: the modes, and voxels with few points and many."""

from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Draw, EnumSpec, ParamField
from mluops_gtest.authoring.c_api import CEnum, scalar

MEAN: Final = 1
MAX: Final = 2

REDUCE_ARGUMENT: Final = scalar(
    "reduce_type",
    type=CEnum("mluOpReduceMode_t", {"MLUOP_REDUCE_DSUM": 0, "MLUOP_REDUCE_DMEAN": 1, "MLUOP_REDUCE_DMAX": 2}),
)


def reduce_type(*allowed: int) -> ParamField:
    """The parameter reduce_type, with the modes that the operator allows."""
    modes = EnumSpec("ReduceMode", {"REDUCE_MODE_SUM": 0, "REDUCE_MODE_MEAN": MEAN, "REDUCE_MODE_MAX": MAX})
    return ParamField("reduce_type", 1, "enum", "required", enum=modes, allowed=allowed)


def crowd(voxel_of: Array) -> Array:
    """The points of the voxel that has the most, ascending; −1 is no voxel."""
    points: Array = np.flatnonzero(voxel_of == np.bincount(voxel_of[voxel_of >= 0]).argmax())
    return points


def crowded(draw: Draw, voxels: int, points: int) -> Array:
    """The voxel of each of `points` that are more than one per voxel: low numbers are likelier."""
    # A square makes few crowded voxels and many with one point, as a lidar sweep has.
    drawn: Array = draw.stream("extra").integers(0, max(voxels, 1), points) ** 2 // max(voxels, 1)
    return drawn
