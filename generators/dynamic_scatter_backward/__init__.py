"""dynamic_scatter_backward: hands each voxel's gradient back to the point that the max pooling took its value from."""

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from mluops_gtest.authoring import (
    SIZE_NULL,
    Array,
    Baseline,
    Bound,
    DType,
    EnumSpec,
    OpCall,
    Operator,
    OutputSpec,
    ParamField,
    ParamMessage,
    QueryChecks,
    SizedAxis,
    TensorSpec,
    Theory,
    axis,
    exact,
)
from mluops_gtest.authoring.c_api import (
    ASKED_SIZE,
    HANDLE,
    WORKSPACE,
    WORKSPACE_SIZE,
    CEnum,
    CFunction,
    CSignature,
    descriptor,
    scalar,
    tensor,
)
from mluops_gtest.authoring.checks import (
    arch,
    descriptors,
    dims,
    dtypes,
    empty,
    handle,
    large,
    params,
    pointers,
    ranks,
    require,
    strided,
    workspace,
)
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction
from mluops_gtest.authoring.left_open import find_nonfinite
from mluops_gtest.authoring.rows import native_give
from mluops_gtest.authoring.suspects import Suspect, as_read, with_inputs

from .kernel import kernel

# The ordered parameter checks of dynamic_scatter_backward: §3.8, the limits of §1.4, the released library's order.


REDUCE_MODE_MAX = 2

_TENSORS = (
    "grad_voxel_feats",
    "feats",
    "voxel_feats",
    "point2voxel_map",
    "voxel_points_count",
    "voxel_num",
    "grad_feats",
)


def _fits_nram(call: OpCall) -> bool:
    points, channels = call.tensor("feats").dims
    return call.handle is not None and 5 * points + 20 * channels + 4 <= call.handle.nram_bytes


CHECKS = (
    handle("§3.8 (1)"),
    arch("released"),
    descriptors(doc="§3.8 (1)"),
    strided(doc="§1.4: no strides"),
    dtypes(doc="§1.4: float features, int32 indices"),
    ranks(doc="§1.3"),
    dims("feats.1", "voxel_feats.0", "voxel_feats.1", "point2voxel_map.0", "voxel_points_count.0", doc="§1.3"),
    dims("voxel_num.0", doc="§1.3"),
    dims("grad_feats.0", "grad_feats.1 = feats.1", doc="§1.4: output [N, C]"),
    require(
        "points_below_voxels",
        lambda call: call.tensor("feats").dims[0] >= call.tensor("grad_voxel_feats").dims[0],
        "there must be at least as many points as voxels (N ≥ M)",
        "§1.3",
    ),
    params(doc="§1.4: only max; §3.8 (4)"),
    large(doc="released"),
    require("nram_limit", _fits_nram, "5N + 20C + 4 bytes must fit into the on-chip memory", "§3.1: kernel 1"),
    empty("grad_feats", doc="§1.1: returns at once; §3.8 (2)"),
    # M = 0 with points left is no early return: the tensors of the voxels are empty, all gradients are 0.
    # Integer tensors first: they alone can hold elements beside an empty grad_feats, so they show this order.
    pointers("point2voxel_map", "voxel_points_count", "voxel_num", doc="§3.8 (1)", empty_may_be_null=True),
    pointers("grad_voxel_feats", "feats", "voxel_feats", "grad_feats", doc="§3.8 (1)", empty_may_be_null=True),
    workspace("§3.8 (1)"),
)


def _query(taken: Iterable[str], others: tuple[str, ...]) -> QueryChecks:
    """Of a query that takes these descriptors: nulls and the device; `others` are checks on what it takes, too.

    The document says nothing about its query and the released one refuses no more: what becomes of the others is open.
    """
    nulls = ("handle_null", "arch", *(f"{tensor}_desc_null" for tensor in taken))
    return QueryChecks((*nulls, SIZE_NULL, *others), silent=others, without=("grad_feats_",))


QUERIES = {
    "mluOpGetDynamicPointToVoxelBackwardWorkspaceSize": _query(_TENSORS[:-1], ("… grad_feats_empty",)),
    "mluOpGetDynamicScatterBackwardWorkspaceSize": _query(
        ["feats"], ("feats_strided", "feats_dtype", "feats_rank", "reduce_type", "feats_large", "nram_limit")
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
    "grad_voxel_feats_strided": ("grad_voxel_feats_rank", "voxel_feats_dim1"),
    "feats_strided": ("feats_rank", "points_below_voxels"),
    "voxel_feats_strided": ("voxel_feats_rank", "voxel_feats_dim1"),
    "point2voxel_map_strided": ("point2voxel_map_rank", "voxel_feats_dim1"),
    "voxel_points_count_strided": ("voxel_points_count_rank", "voxel_feats_dim1"),
    "voxel_num_strided": ("voxel_num_rank", "voxel_feats_dim1"),
    "grad_feats_strided": ("grad_feats_rank", "voxel_feats_dim1", "grad_feats_empty"),
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
    "grad_feats_empty": ("grad_voxel_feats_ptr_null", "feats_ptr_null", "voxel_feats_ptr_null", "grad_feats_ptr_null"),
}


# What the document takes for granted about the map of points to voxels.


def precondition(call: OpCall) -> str | None:
    """voxel_num counts voxels that exist, and the map names such or −1 (§1.2)."""
    voxels = call.tensor("voxel_feats").dims[0]
    count = int(call.array("voxel_num")[0])
    if not 0 <= count <= voxels:
        return f"voxel_num is {count}, there are {voxels} voxels"
    names = call.array("point2voxel_map")
    if names.size and (names.min() < -1 or names.max() >= voxels):
        return f"point2voxel_map leaves −1 … {voxels - 1}"
    return None


# What cases are declared for in size, and the map as a kernel sees it that loses one index of it.


def _crowd(call: OpCall) -> Array:
    """The points of the voxel that has the most, ascending."""
    voxel_of = call.array("point2voxel_map")
    crowd: Array = np.flatnonzero(voxel_of == np.bincount(voxel_of[voxel_of >= 0]).argmax())
    return crowd


def _member_lost(call: OpCall, index: int) -> Mapping[str, Array]:
    voxel_of = call.array("point2voxel_map").copy()
    voxel_of[_crowd(call)[index]] = -1
    return {"point2voxel_map": voxel_of}


SIZES: Mapping[str, SizedAxis] = {
    # A map entry of −1 is a point without a voxel.
    "points": SizedAxis("point2voxel_map"),
    "voxels": SizedAxis("grad_voxel_feats", 0),
    "channels": SizedAxis("grad_voxel_feats", 1),
    "points_of_a_voxel": SizedAxis("point2voxel_map", count=lambda call: len(_crowd(call)), without=_member_lost),
}


# The oracle: one point after the other by the native core, else ranked within their voxel, a step per rank.


# Elements handled at once: three float32 blocks of this size stay in the second-level cache.
_BLOCK = 1 << 15
# Voxels with more points are searched one by one: a round per rank would be a loop over single points.
_DEEPEST_ROUND = 32


def reference(call: OpCall) -> Baseline:
    """Each (voxel, channel) gives its gradient to the first point with the voxel's value; the rest is 0."""
    points, channels = call.tensor("feats").dims
    voxel_of = call.array("point2voxel_map")
    # -1 means no voxel (§3.2), and rows at or behind voxel_num[0] are not voxels.
    inside = np.flatnonzero((voxel_of >= 0) & (voxel_of < call.array("voxel_num")[0]))
    grad_feats = np.zeros((points, channels), "<f4")
    arrays = (call.array(name) for name in ("feats", "voxel_feats", "grad_voxel_feats"))
    # IEEE equality: -0 meets +0, NaN meets nothing. What nobody meets is dropped: §3.2's second kernel would write it
    # out of bounds.
    if inside.size and not native_give(grad_feats, inside, voxel_of[inside], *arrays):
        _in_rank_rounds(call, inside, voxel_of, grad_feats)
    return Baseline({"grad_feats": grad_feats})


def _in_rank_rounds(call: OpCall, inside: Array, voxel_of: Array, grad_feats: Array) -> None:
    by_voxel = inside[np.argsort(voxel_of[inside], kind="stable")]
    voxels = voxel_of[by_voxel]
    starts = np.flatnonzero(np.diff(voxels, prepend=-1))
    depths = np.diff(starts, append=len(voxels))

    deep = depths > _DEEPEST_ROUND
    for start, depth in zip(starts[deep], depths[deep], strict=True):
        _search_one_voxel(call, by_voxel[start : start + depth], int(voxels[start]), grad_feats)

    starts, depths = starts[~deep], depths[~deep]
    claimed = np.zeros(call.tensor("voxel_feats").dims, bool)
    for turn in range(depths.max(initial=0)):
        starts, depths = starts[depths > turn], depths[depths > turn]
        _one_round(call, by_voxel[starts + turn], voxel_of, claimed, grad_feats)


def _one_round(call: OpCall, points: Array, voxel_of: Array, claimed: Array, grad_feats: Array) -> None:
    """At most one point per voxel, so no two rows of a step compete."""
    feats, voxel_feats = call.array("feats"), call.array("voxel_feats")
    grad_voxel_feats = call.array("grad_voxel_feats")
    rows = max(1, _BLOCK // feats.shape[1])
    for start in range(0, len(points), rows):
        block = points[start : start + rows]
        voxels = voxel_of[block]
        taken = claimed[voxels]
        hits = (feats[block] == voxel_feats[voxels]) & ~taken
        claimed[voxels] = taken | hits
        gradients = grad_voxel_feats[voxels]
        # On the bit pattern: 0 · NaN would not be 0. A third faster than np.where, whose branches mispredict.
        gradients.view("<u4")[...] *= hits
        grad_feats[block] = gradients


def _search_one_voxel(call: OpCall, points: Array, voxel: int, grad_feats: Array) -> None:
    feats, wanted = call.array("feats"), call.array("voxel_feats")[voxel]
    gradient = call.array("grad_voxel_feats")[voxel]
    rows = max(1, _BLOCK // feats.shape[1])
    still_open = np.arange(feats.shape[1])
    for start in range(0, len(points), rows):
        block = points[start : start + rows]
        hits = feats[block][:, still_open] == wanted[still_open]
        first = hits.argmax(axis=0)
        found = hits[first, np.arange(still_open.size)]
        channels = still_open[found]
        grad_feats[block[first[found]], channels] = gradient[channels]
        still_open = still_open[~found]
        if not still_open.size:
            return


# Mistakes that kernels make about which point gets a gradient.


def _last_match(call: OpCall) -> Mapping[str, Array]:
    backwards = {name: np.ascontiguousarray(call.array(name)[::-1]) for name in ("feats", "point2voxel_map")}
    return {"grad_feats": reference(with_inputs(call, **backwards)).outputs["grad_feats"][::-1]}


def _every_match(call: OpCall) -> Mapping[str, Array]:
    voxel_of = call.array("point2voxel_map")
    result = np.zeros(call.tensor("grad_feats").dims, "<f4")
    inside = np.flatnonzero((voxel_of >= 0) & (voxel_of < call.array("voxel_num")[0]))
    voxels = voxel_of[inside]
    matches = call.array("feats")[inside] == call.array("voxel_feats")[voxels]
    result[inside] = np.where(matches, call.array("grad_voxel_feats")[voxels], 0)
    return {"grad_feats": result}


def _without_voxel_0(call: OpCall) -> OpCall:
    voxel_of = call.array("point2voxel_map")
    return with_inputs(call, point2voxel_map=np.where(voxel_of == 0, voxel_of.dtype.type(-1), voxel_of))


def _all_rows(call: OpCall) -> OpCall:
    rows = call.tensor("voxel_feats").dims[0]
    return with_inputs(call, voxel_num=np.full_like(call.array("voxel_num"), rows))


def _with_gradients(change: Callable[[Array], Array]) -> Suspect:
    return as_read(
        reference,
        lambda call: with_inputs(call, grad_voxel_feats=np.ascontiguousarray(change(call.array("grad_voxel_feats")))),
    )


def _channel_0_decides(call: OpCall) -> OpCall:
    features = {name: call.array(name) for name in ("feats", "voxel_feats")}
    return with_inputs(
        call,
        **{name: np.ascontiguousarray(np.broadcast_to(one[:, :1], one.shape)) for name, one in features.items()},
    )


def _averaged(call: OpCall) -> Mapping[str, Array]:
    voxel_of = call.array("point2voxel_map")
    points = np.bincount(voxel_of[voxel_of >= 0], minlength=1)[np.maximum(voxel_of, 0)]
    return {"grad_feats": reference(call).outputs["grad_feats"] / np.maximum(points, 1)[:, None].astype("<f4")}


SUSPECTS = {
    "the last point with the maximum gets the gradient": _last_match,
    "every point with the maximum gets the gradient": _every_match,
    # §3.2's `offset > 0`.
    "voxel 0 counts as no voxel": as_read(reference, _without_voxel_0),
    "rows at and behind voxel_num count as voxels": as_read(reference, _all_rows),
    "what channel 0 says holds for all": as_read(reference, _channel_0_decides),
    "the gradient is averaged over the points of a voxel": _averaged,
    "the gradient of the next voxel is taken": _with_gradients(lambda gradient: np.roll(gradient, -1, axis=0)),
    "channels of the gradient are counted from the last one": _with_gradients(lambda gradient: gradient[:, ::-1]),
}


# One element of grad_feats as §1.2 and §3.2 define it.


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """The voxel's gradient for the first of its points that has the voxel's value; 0 for all others."""
    feats, voxel_of, voxels = call.array("feats"), call.array("point2voxel_map"), int(call.array("voxel_num")[0])

    def grad_feats(point: int, channel: int) -> Fraction | float:
        voxel = int(voxel_of[point])
        if not 0 <= voxel < voxels:
            return Fraction(0)
        # Only a voxel needs these: where there is none, their pointers may be null.
        wanted, gradient = (call.array(name)[voxel, channel] for name in ("voxel_feats", "grad_voxel_feats"))
        # As numbers: −0 is +0, and NaN is nothing's equal.
        having = np.flatnonzero((voxel_of == voxel) & (feats[:, channel] == wanted))
        is_first = having.size > 0 and having[0] == point
        return fraction(gradient) if is_first else Fraction(0)

    return {"grad_feats": grad_feats}


# With torch: every match takes the gradient; a minimum decides where points share a voxel.


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:  # noqa: ARG001 - all operators are called alike
    """Write grad_feats: each (voxel, channel) gives its gradient to its lowest matching point."""
    import torch

    grad_feats, voxel_of = outputs["grad_feats"].zero_(), inputs["point2voxel_map"]
    # −1 means no voxel, and rows at or behind voxel_num[0] are not voxels (§3.2); voxel 0 is one.
    points = ((voxel_of >= 0) & (voxel_of < inputs["voxel_num"])).nonzero().squeeze(1)
    voxels = voxel_of[points].to(torch.int64)
    # IEEE equality: NaN matches nothing, −0 matches +0. What nobody matches is dropped.
    wins = inputs["feats"].index_select(0, points) == inputs["voxel_feats"].index_select(0, voxels)
    shared = (torch.bincount(voxels)[voxels] > 1).nonzero().squeeze(1)
    wins[shared] &= _is_lowest(points[shared], voxels[shared], wins[shared], inputs["voxel_feats"].shape[0])
    gradients = inputs["grad_voxel_feats"].index_select(0, voxels)
    grad_feats.index_copy_(0, points, torch.where(wins, gradients, 0.0))


def _is_lowest(points: Any, voxels: Any, matches: Any, rows: int) -> Any:
    """[points, C]: no match of a lower point exists in the voxel."""
    import torch

    nobody = torch.iinfo(torch.int32).max
    candidates = torch.where(matches, points.to(torch.int32)[:, None], nobody)
    lowest = torch.full((rows, matches.shape[1]), nobody, dtype=torch.int32, device=points.device)
    lowest.scatter_reduce_(0, voxels[:, None].expand_as(candidates), candidates, "amin")
    return lowest.index_select(0, voxels) == points[:, None]


# The C functions under both names: the released pair first, then the pair that §2.2 of the document prints.


_REDUCE_TYPE = scalar(
    "reduce_type",
    type=CEnum("mluOpReduceMode_t", {"MLUOP_REDUCE_DSUM": 0, "MLUOP_REDUCE_DMEAN": 1, "MLUOP_REDUCE_DMAX": 2}),
)
_INPUTS = ("grad_voxel_feats", "feats", "voxel_feats", "point2voxel_map", "voxel_points_count")
_RESULT = (WORKSPACE, WORKSPACE_SIZE, *tensor("grad_feats"))

C_API = (
    CSignature(
        CFunction(
            "mluOpDynamicPointToVoxelBackward",
            (HANDLE, *_REDUCE_TYPE, *tensor(*_INPUTS), *tensor("voxel_num"), *_RESULT),
        ),
        query=CFunction(
            "mluOpGetDynamicPointToVoxelBackwardWorkspaceSize",
            (HANDLE, *_REDUCE_TYPE, *descriptor(*_INPUTS, "voxel_num"), ASKED_SIZE),
        ),
    ),
    CSignature(
        CFunction(
            "mluOpDynamicScatterBackward",
            (HANDLE, *_REDUCE_TYPE, *tensor(*_INPUTS), *tensor("voxel_num", writable=True), *_RESULT),
        ),
        # The document's query looks at feats alone.
        query=CFunction(
            "mluOpGetDynamicScatterBackwardWorkspaceSize",
            (HANDLE, *_REDUCE_TYPE, *descriptor("feats"), ASKED_SIZE),
        ),
    ),
)


_FLOAT = (DType.FLOAT,)
_INT32 = (DType.INT32,)
_WORD = 4  # bytes of a float and of an int32

_REDUCE_MODE = EnumSpec("ReduceMode", {"REDUCE_MODE_SUM": 0, "REDUCE_MODE_MEAN": 1, "REDUCE_MODE_MAX": 2})


def theory(call: OpCall) -> Theory:
    """One comparison per point and channel; the counts are left out, because the result does not need them."""
    points, channels = call.tensor("feats").dims
    rows = call.tensor("voxel_feats").dims[0]
    floats = 2 * points * channels + 2 * rows * channels
    integers = points + 1
    return Theory(io_bytes=_WORD * (floats + integers), ops=points * channels)


OPERATOR = Operator(
    name="dynamic_scatter_backward",
    # The design document's name; the schema and the released library renamed the operator.
    released_name="dynamic_point_to_voxel_backward",
    op_type=("DYNAMIC_POINT_TO_VOXEL_BACKWARD", 404),
    summary="Sends the gradient of each voxel and channel to the first point that holds the voxel's maximum.",
    inputs=(
        TensorSpec("grad_voxel_feats", "[M, C]", _FLOAT),
        TensorSpec("feats", "[N, C]", _FLOAT),
        TensorSpec("voxel_feats", "[M, C]", _FLOAT),
        TensorSpec("point2voxel_map", "[N]", _INT32),
        TensorSpec("voxel_points_count", "[M]", _INT32),
        TensorSpec("voxel_num", "[1]", _INT32),
    ),
    # §1.5.1: the values are selected, never computed, so the threshold is 0.
    outputs=(OutputSpec("grad_feats", "[N, C]", {DType.FLOAT: exact()}),),
    params=ParamMessage(
        field="dynamic_point_to_voxel_backward_param",
        number=4013,
        message="DynamicPointToVoxelBackwardParam",
        fields=(ParamField("reduce_type", 1, "enum", "required", enum=_REDUCE_MODE, allowed=(REDUCE_MODE_MAX,)),),
    ),
    axes={
        "points": axis("N", of="feats"),
        "voxels": axis("M", of="grad_voxel_feats"),
        "channels": axis("C", of="grad_voxel_feats"),
    },
    checks=CHECKS,
    subsumed={
        "voxel_feats_large": "has the shape of grad_voxel_feats, which is asked first",
        "voxel_points_count_large": "M ≥ 2^31 needs N ≥ 2^31, and point2voxel_map is asked first",
        "voxel_num_large": "has exactly one element",
        "grad_feats_large": "has the shape of feats, which is asked first",
    },
    queries=QUERIES,
    not_together=NOT_TOGETHER,
    answered_anyway=ANSWERED_ANYWAY,
    reference=reference,
    precondition=precondition,
    # §1.4 does not support NaN and Inf. Subnormal numbers are not open: §1.5.1 asks for diff3 = 0, since gradients are
    # copied, and §3.2 compares features by `==`.
    left_open={"undefined": find_nonfinite},
    kernel=kernel,
    suspects=SUSPECTS,
    theory=theory,
    sizes=SIZES,
    bound=Bound.copied("grad_feats"),
    c_api=C_API,
    exact=elements,
    torch_kernel=torch_kernel,
)
