"""The ordered parameter checks of dynamic_scatter_backward: §3.8, the limits of §1.4, the released library's order."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from mluops_gtest.authoring import SIZE_NULL, Check, DType, OpCall, QueryChecks
from mluops_gtest.authoring.checks import (
    arch_supported,
    contiguous,
    descriptors_present,
    dim,
    dtype,
    handle_present,
    names_before,
    not_empty,
    not_large,
    pointers_present,
    rank,
    require,
    workspace_present,
)

REDUCE_MODE_MAX = 2

_RANKS = {
    "grad_voxel_feats": 2,
    "feats": 2,
    "voxel_feats": 2,
    "point2voxel_map": 1,
    "voxel_points_count": 1,
    "voxel_num": 1,
    "grad_feats": 2,
}
_INTEGERS = ("point2voxel_map", "voxel_points_count", "voxel_num")
_FLOATS = tuple(tensor for tensor in _RANKS if tensor not in _INTEGERS)
_NEVER_LARGE_FIRST = {
    "voxel_feats": "has the shape of grad_voxel_feats, which is asked first",
    "voxel_points_count": "M ≥ 2^31 needs N ≥ 2^31, and point2voxel_map is asked first",
    "voxel_num": "has exactly one element",
    "grad_feats": "has the shape of feats, which is asked first",
}


def _length(tensor: str, axis: int) -> Callable[[OpCall], int]:
    return lambda call: call.tensor(tensor).dims[axis]


def _fits_nram(call: OpCall) -> bool:
    points, channels = call.tensor("feats").dims
    return call.handle is not None and 5 * points + 20 * channels + 4 <= call.handle.nram_bytes


def _large(doc: str) -> Iterator[Check]:
    for tensor, check in zip(_RANKS, not_large(_RANKS, doc), strict=True):
        yield replace(check, subsumed=_NEVER_LARGE_FIRST.get(tensor))


CHECKS = (
    handle_present("§3.8 (1)"),
    arch_supported("released"),
    *descriptors_present(_RANKS, "§3.8 (1)"),
    *contiguous(_RANKS, "§1.4: no strides"),
    *(
        dtype(tensor, (DType.INT32 if tensor in _INTEGERS else DType.FLOAT,), "§1.4: float features, int32 indices")
        for tensor in _RANKS
    ),
    *(rank(tensor, axes, "§1.3") for tensor, axes in _RANKS.items()),
    dim("feats", 1, _length("grad_voxel_feats", 1), "feats must have C channels, like grad_voxel_feats", "§1.3"),
    dim(
        "voxel_feats", 0, _length("grad_voxel_feats", 0), "voxel_feats must have M rows, like grad_voxel_feats", "§1.3"
    ),
    dim("voxel_feats", 1, _length("grad_voxel_feats", 1), "voxel_feats must have C channels", "§1.3"),
    dim("point2voxel_map", 0, _length("feats", 0), "point2voxel_map must have one entry per point", "§1.3"),
    dim("voxel_points_count", 0, _length("grad_voxel_feats", 0), "voxel_points_count must have M entries", "§1.3"),
    dim("voxel_num", 0, 1, "voxel_num must have one entry", "§1.3"),
    dim("grad_feats", 0, _length("feats", 0), "grad_feats must have one row per point", "§1.4: output [N, C]"),
    dim("grad_feats", 1, _length("feats", 1), "grad_feats must have C channels", "§1.4: output [N, C]"),
    require(
        "points_below_voxels",
        lambda call: call.tensor("feats").dims[0] >= call.tensor("grad_voxel_feats").dims[0],
        "there must be at least as many points as voxels (N ≥ M)",
        "§1.3",
    ),
    require(
        "reduce_type",
        lambda call: bool(call.param("reduce_type") == REDUCE_MODE_MAX),
        "reduce_type must be REDUCE_MODE_MAX",
        "§1.4: only max; §3.8 (4)",
    ),
    *_large("released"),
    require("nram_limit", _fits_nram, "5N + 20C + 4 bytes must fit into the on-chip memory", "§3.1: kernel 1"),
    not_empty("grad_feats", "§1.1: returns at once; §3.8 (2)"),
    # M = 0 with points left is no early return: the tensors of the voxels are empty, all gradients are 0.
    # Integer tensors first: they alone can hold elements beside an empty grad_feats, so they show this order.
    *pointers_present(_INTEGERS, "§3.8 (1)", empty_may_be_null=True),
    *pointers_present(_FLOATS, "§3.8 (1)", empty_may_be_null=True),
    workspace_present("§3.8 (1)"),
)


def _query(taken: Iterable[str], others: Iterable[str]) -> QueryChecks:
    """Of a query that takes these descriptors: nulls and the device; `others` are checks on what it takes, too.

    The document says nothing about its query and the released one refuses no more: what becomes of the others is open.
    """
    nulls = ("handle_null", "arch", *(f"{tensor}_desc_null" for tensor in taken))
    open_ones = tuple(name for name in others if name not in nulls)
    return QueryChecks((*nulls, SIZE_NULL, *open_ones), silent=open_ones)


_SEEN = [name for name in names_before("grad_feats_empty", CHECKS) if not name.startswith("grad_feats_")]
QUERIES = {
    "mluOpGetDynamicPointToVoxelBackwardWorkspaceSize": _query([one for one in _RANKS if one != "grad_feats"], _SEEN),
    "mluOpGetDynamicScatterBackwardWorkspaceSize": _query(
        ["feats"], ["feats_strided", "feats_dtype", "feats_rank", "reduce_type", "feats_large", "nram_limit"]
    ),
}

# Without one of these another check answers with the same status.
ANSWERED_ANYWAY = {
    "grad_voxel_feats_large": "voxel_feats has the same shape",
    "feats_large": "grad_feats has the same shape",
}

# Pairs for which a bounded search found no call that breaks both: most exclude each other (a tensor without elements
# is neither strided nor large), the others are not proved to.
NOT_TOGETHER = {
    "arch": ("voxel_feats_dim1",),
    "grad_voxel_feats_strided": (
        "grad_voxel_feats_rank",
        "voxel_feats_dim1",
    ),
    "feats_strided": (
        "feats_rank",
        "points_below_voxels",
    ),
    "voxel_feats_strided": (
        "voxel_feats_rank",
        "voxel_feats_dim1",
    ),
    "point2voxel_map_strided": (
        "point2voxel_map_rank",
        "voxel_feats_dim1",
    ),
    "voxel_points_count_strided": (
        "voxel_points_count_rank",
        "voxel_feats_dim1",
    ),
    "voxel_num_strided": (
        "voxel_num_rank",
        "voxel_feats_dim1",
    ),
    "grad_feats_strided": (
        "grad_feats_rank",
        "voxel_feats_dim1",
        "grad_feats_empty",
    ),
    "grad_feats_dim0": ("point2voxel_map_large",),
    "points_below_voxels": ("point2voxel_map_large",),
    "grad_voxel_feats_large": ("grad_feats_empty",),
    "feats_large": ("grad_feats_empty",),
    "point2voxel_map_large": (
        "grad_voxel_feats_ptr_null",
        "feats_ptr_null",
        "voxel_feats_ptr_null",
        "grad_feats_ptr_null",
    ),
    "grad_feats_empty": (
        "grad_voxel_feats_ptr_null",
        "feats_ptr_null",
        "voxel_feats_ptr_null",
        "grad_feats_ptr_null",
    ),
}
