"""The ordered parameter checks of dynamic_point_to_voxel_forward: §3.7 in the released library's order."""

from collections.abc import Callable
from dataclasses import replace

from mluops_gtest.authoring import SIZE_NULL, DType, OpCall, QueryChecks
from mluops_gtest.authoring.checks import (
    arch_supported,
    contiguous,
    descriptors_present,
    dim,
    dtype,
    handle_present,
    not_empty,
    not_large,
    pointers_present,
    rank,
    require,
    same_dtype,
    workspace_present,
)

REDUCE_MODE_MEAN, REDUCE_MODE_MAX = 1, 2

_RANKS = {
    "feats": 2,
    "coors": 2,
    "voxel_feats": 2,
    "voxel_coors": 2,
    "point2voxel_map": 1,
    "voxel_points_count": 1,
    "voxel_num": 1,
}


def _length(tensor: str, axis: int) -> Callable[[OpCall], int]:
    return lambda call: call.tensor(tensor).dims[axis]


_TYPES = "§1.4: float features, int32 coordinates"

CHECKS = (
    handle_present("§3.7"),
    arch_supported("released"),
    *descriptors_present(_RANKS, "§3.7"),
    *(rank(tensor, axes, "§1.1") for tensor, axes in _RANKS.items()),
    *contiguous(_RANKS, "§1.4: no strides"),
    dtype("feats", (DType.FLOAT,), "§1.4: float features"),
    dtype("coors", (DType.INT32,), "§1.4: int32 coordinates"),
    dtype("point2voxel_map", (DType.INT32,), "§3.7: int"),
    same_dtype("voxel_feats", "feats", _TYPES),
    same_dtype("voxel_coors", "coors", _TYPES),
    same_dtype("voxel_points_count", "point2voxel_map", _TYPES),
    same_dtype("voxel_num", "point2voxel_map", _TYPES),
    require(
        "reduce_type",
        lambda call: call.param("reduce_type") in (REDUCE_MODE_MEAN, REDUCE_MODE_MAX),
        "reduce_type must be REDUCE_MODE_MEAN or REDUCE_MODE_MAX",
        "§1.1: mean or max",
    ),
    dim("coors", 0, _length("feats", 0), "coors must have one row per point", "§1.4"),
    dim("point2voxel_map", 0, _length("feats", 0), "point2voxel_map must have one entry per point", "§1.4"),
    dim("voxel_coors", 0, _length("voxel_feats", 0), "voxel_coors must have M rows, like voxel_feats", "§1.4"),
    dim("voxel_points_count", 0, _length("voxel_feats", 0), "voxel_points_count must have M entries", "§1.4"),
    # The header says that voxel_num[0] equals voxel_feats[0]; §1.4 is right: there is one number.
    dim("voxel_num", 0, 1, "voxel_num must have one entry", "§1.4"),
    dim("voxel_feats", 1, _length("feats", 1), "voxel_feats must have C channels, like feats", "§1.4"),
    dim("voxel_coors", 1, _length("coors", 1), "voxel_coors must have as many columns as coors", "§1.4"),
    dim("coors", 1, 3, "coors must have three columns", "§1.4"),
    # §3.7, dim check 5 prints num_points ≥ num_feats; §1.4 is right: M ≤ N, and C may be anything.
    require(
        "points_below_voxels",
        lambda call: call.tensor("feats").dims[0] >= call.tensor("voxel_feats").dims[0],
        "there must be at least as many points as rows for voxels (N ≥ M)",
        "§1.4",
    ),
    *not_large(("feats", "coors"), "§3.7: feats and coors alone"),
    not_empty("feats", "§1.1: returns at once"),
    replace(
        not_empty("coors", "§1.1: returns at once"), subsumed="coors has 3·N elements, and N = 0 leaves feats empty too"
    ),
    workspace_present("released"),
    *pointers_present(_RANKS, "§3.7"),
)

# As released: the query sees two descriptors, and refuses nothing else of them.
QUERIES = {
    "mluOpGetDynamicPointToVoxelForwardWorkspaceSize": QueryChecks(
        ("handle_null", "arch", "feats_desc_null", "coors_desc_null", SIZE_NULL)
    )
}

# Pairs for which a bounded search found no call that breaks both: most exclude each other (a tensor without elements
# is neither strided nor large), the others are not proved to.
NOT_TOGETHER = {
    "voxel_num_rank": ("voxel_num_strided",),
    "feats_strided": (
        "points_below_voxels",
        "feats_empty",
    ),
    "points_below_voxels": ("coors_large",),
    "feats_large": ("feats_empty",),
}
