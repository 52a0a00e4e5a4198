"""dynamic_scatter_backward: hands each voxel's gradient back to the point that the max pooling took its value from."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from mluops_gtest.authoring import (
    SIZE_NULL,
    Array,
    Baseline,
    Bound,
    DType,
    OpCall,
    Operator,
    OutputSpec,
    ParamMessage,
    QueryChecks,
    SizedAxis,
    Status,
    TensorArg,
    TensorSpec,
    Theory,
    axis,
    c_api,
    checks,
    exact,
)
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction
from mluops_gtest.authoring.left_open import find_nonfinite
from mluops_gtest.authoring.rows import native_give
from mluops_gtest.authoring.suspects import as_read, misread, with_inputs

from .._shared.reduced_voxels import MAX, REDUCE_ARGUMENT, crowd, reduce_type

# What is checked: §3.8 and the limits of §1.4, in the released library's order.


def _fits_nram(call: OpCall) -> bool:
    points, channels = call.tensor("feats").dims
    return call.handle is not None and 5 * points + 20 * channels + 4 <= call.handle.nram_bytes


CHECKS = (
    checks.handle("§3.8 (1)"),
    checks.arch("released"),
    checks.descriptors(doc="§3.8 (1)"),
    checks.strided(doc="§1.4: no strides"),
    checks.dtypes(doc="§1.4: float features, int32 indices"),
    checks.ranks(doc="§1.3"),
    checks.dims("feats.1", "voxel_feats.0", "voxel_feats.1", "point2voxel_map.0", "voxel_points_count.0", doc="§1.3"),
    checks.dims("voxel_num.0", doc="§1.3"),
    checks.dims("grad_feats.0", "grad_feats.1 = feats.1", doc="§1.4: output [N, C]"),
    checks.require(
        "points_below_voxels",
        lambda call: call.tensor("feats").dims[0] >= call.tensor("grad_voxel_feats").dims[0],
        "there must be at least as many points as voxels (N ≥ M)",
        "§1.3",
    ),
    checks.params(doc="§1.4: only max; §3.8 (4)"),
    checks.large(doc="released"),
    checks.require("nram_limit", _fits_nram, "5N + 20C + 4 bytes must fit into the on-chip memory", "§3.1: kernel 1"),
    checks.empty("grad_feats", doc="§1.1: returns at once; §3.8 (2)"),
    # M = 0 with points left is no early return: the tensors of the voxels are empty, all gradients are 0.
    # Integer tensors first: they alone can hold elements beside an empty grad_feats, so they show this order.
    checks.pointers("point2voxel_map", "voxel_points_count", "voxel_num", doc="§3.8 (1)", empty_may_be_null=True),
    checks.pointers("grad_voxel_feats", "feats", "voxel_feats", "grad_feats", doc="§3.8 (1)", empty_may_be_null=True),
    checks.workspace("§3.8 (1)"),
)

_INPUTS = ("grad_voxel_feats", "feats", "voxel_feats", "point2voxel_map", "voxel_points_count", "voxel_num")


def _query(taken: Iterable[str], others: tuple[str, ...]) -> QueryChecks:
    """Of a query that takes these descriptors: nulls and the device; `others` are checks on what it takes, too.

    The document says nothing about its query and the released one refuses no more: what becomes of the others is open.
    """
    nulls = ("handle_null", "arch", *(f"{one}_desc_null" for one in taken))
    return QueryChecks((*nulls, SIZE_NULL, *others), silent=others, without=("grad_feats_",))


QUERIES = {
    "mluOpGetDynamicPointToVoxelBackwardWorkspaceSize": _query(_INPUTS, ("… grad_feats_empty",)),
    "mluOpGetDynamicScatterBackwardWorkspaceSize": _query(
        ["feats"], ("feats_strided", "feats_dtype", "feats_rank", "reduce_type", "feats_large", "nram_limit")
    ),
}

# Where gradients go: each (voxel, channel) gives its own to the first point with the voxel's value; the rest is 0.


def _points_inside(call: OpCall) -> Array:
    # −1 means no voxel (§3.2), and rows at or behind voxel_num[0] are not voxels.
    voxel_of = call.array("point2voxel_map")
    return np.flatnonzero((voxel_of >= 0) & (voxel_of < call.array("voxel_num")[0]))


def reference(call: OpCall) -> Baseline:
    """One point after the other by the native core, else voxel by voxel."""
    inside = _points_inside(call)
    grad_feats = np.zeros(call.tensor("feats").dims, "<f4")
    if inside.size:
        voxels = call.array("point2voxel_map")[inside]
        arrays = [call.array(name) for name in ("feats", "voxel_feats", "grad_voxel_feats")]
        # IEEE equality: -0 meets +0, NaN meets nothing. What nobody meets is dropped: §3.2's second kernel would write
        # it out of bounds.
        if not native_give(grad_feats, inside, voxels, *arrays):
            _give(grad_feats, inside, voxels, *arrays)
    return Baseline({"grad_feats": grad_feats})


# Elements handled at once: three float32 blocks of this size stay in the second-level cache.
_BLOCK = 1 << 15
# A round hands out to one point of each voxel; voxels with more points than rounds are looked at as a whole.
_ROUNDS = 32


def _give(grad_feats: Array, points: Array, voxels: Array, feats: Array, voxel_feats: Array, gradients: Array) -> None:
    order = np.argsort(voxels, kind="stable")
    points, voxels = points[order], voxels[order]
    starts = np.flatnonzero(np.diff(voxels, prepend=-1))
    sizes = np.diff(starts, append=len(voxels))
    for start, size in zip(starts[sizes > _ROUNDS], sizes[sizes > _ROUNDS], strict=True):
        members, voxel = points[start : start + size], voxels[start]
        hits = feats[members] == voxel_feats[voxel]
        first, channels = hits.argmax(axis=0), np.flatnonzero(hits.any(axis=0))
        grad_feats[members[first[channels]], channels] = gradients[voxel, channels]
    claimed = np.zeros(voxel_feats.shape, bool)
    height = max(1, _BLOCK // feats.shape[1])
    for turn in range(min(_ROUNDS, sizes.max())):
        reached = starts[(sizes > turn) & (sizes <= _ROUNDS)] + turn
        for block in (reached[top : top + height] for top in range(0, len(reached), height)):
            named = voxels[block]
            hits = (feats[points[block]] == voxel_feats[named]) & ~claimed[named]
            claimed[named] |= hits
            handed = gradients[named]
            # On the bit pattern: 0 · NaN would not be 0. A third faster than np.where, whose branches mispredict.
            handed.view("<u4")[...] *= hits
            grad_feats[points[block]] = handed


def precondition(call: OpCall) -> str | None:
    """voxel_num counts voxels that exist (§1.2)."""
    voxels, count = call.tensor("voxel_feats").dims[0], int(call.array("voxel_num")[0])
    return None if 0 <= count <= voxels else f"voxel_num is {count}, there are {voxels} voxels"


def _member_lost(call: OpCall, index: int) -> Mapping[str, Array]:
    """The map as a kernel sees it that loses this point of the largest voxel."""
    voxel_of = call.array("point2voxel_map").copy()
    voxel_of[crowd(voxel_of)[index]] = -1
    return {"point2voxel_map": voxel_of}


def theory(call: OpCall) -> Theory:
    """One comparison per point and channel; the counts are left out, because the result does not need them."""
    points, channels = call.tensor("feats").dims
    words = 2 * (points + call.tensor("voxel_feats").dims[0]) * channels + points + 1
    return Theory(io_bytes=words * DType.FLOAT.itemsize, ops=points * channels)


# Mistakes that kernels make about which point gets a gradient.


def _last_match(call: OpCall) -> Mapping[str, Array]:
    backwards = misread(feats=np.flipud, point2voxel_map=np.flipud)(call)
    return {"grad_feats": reference(backwards).outputs["grad_feats"][::-1]}


def _every_match(call: OpCall) -> Mapping[str, Array]:
    result = np.zeros(call.tensor("grad_feats").dims, "<f4")
    inside = _points_inside(call)
    voxels = call.array("point2voxel_map")[inside]
    matches = call.array("feats")[inside] == call.array("voxel_feats")[voxels]
    result[inside] = np.where(matches, call.array("grad_voxel_feats")[voxels], 0)
    return {"grad_feats": result}


def _all_rows(call: OpCall) -> OpCall:
    rows = call.tensor("voxel_feats").dims[0]
    return with_inputs(call, voxel_num=np.full_like(call.array("voxel_num"), rows))


def _channel_0(features: Array) -> Array:
    return np.broadcast_to(features[:, :1], features.shape)


def _averaged(call: OpCall) -> Mapping[str, Array]:
    voxel_of = call.array("point2voxel_map")
    points = np.bincount(voxel_of[voxel_of >= 0], minlength=1)[np.maximum(voxel_of, 0)]
    return {"grad_feats": reference(call).outputs["grad_feats"] / np.maximum(points, 1)[:, None].astype("<f4")}


SUSPECTS = {
    "the last point with the maximum gets the gradient": _last_match,
    "every point with the maximum gets the gradient": _every_match,
    # §3.2's `offset > 0`.
    "voxel 0 counts as no voxel": as_read(
        reference, misread(point2voxel_map=lambda names: np.where(names == 0, np.int32(-1), names))
    ),
    "rows at and behind voxel_num count as voxels": as_read(reference, _all_rows),
    "what channel 0 says holds for all": as_read(reference, misread(feats=_channel_0, voxel_feats=_channel_0)),
    "the gradient is averaged over the points of a voxel": _averaged,
    "the gradient of the next voxel is taken": as_read(
        reference, misread(grad_voxel_feats=lambda gradients: np.roll(gradients, -1, axis=0))
    ),
    "channels of the gradient are counted from the last one": as_read(
        reference, misread(grad_voxel_feats=lambda gradients: gradients[:, ::-1])
    ),
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


# The kernel that the numpy backend runs: leaders first, then the contested rest backwards; in float32.

_ROWS = 256  # voxels per step: the gathered rows stay in cache


def kernel(call: OpCall) -> Status:
    """Checks in the released order, then the gradients, written in place."""
    if call.handle is None:
        return Status.BAD_PARAM
    if call.handle.arch < 370:
        return Status.ARCH_MISMATCH
    tensors = {name: arg for name, arg in (*call.inputs.items(), *call.outputs.items()) if arg is not None}
    if len(tensors) < 7:
        return Status.BAD_PARAM
    if any(arg.desc.is_strided for arg in tensors.values()):
        return Status.NOT_SUPPORTED
    if not _shapes_fit(tensors) or call.param("reduce_type") != 2:
        return Status.BAD_PARAM
    if any(arg.desc.is_large for arg in tensors.values()):
        return Status.NOT_SUPPORTED
    points, channels = tensors["feats"].dims
    if points * 5 + channels * 4 * 5 + 4 > call.handle.nram_bytes:
        return Status.BAD_PARAM
    if points == 0 or channels == 0:
        return Status.SUCCESS
    if any(arg.null and not arg.desc.is_empty for arg in tensors.values()):
        return Status.BAD_PARAM
    if call.workspace is None and call.workspace_size:
        return Status.BAD_PARAM
    _compute(call)
    return Status.SUCCESS


def _shapes_fit(tensors: Mapping[str, TensorArg]) -> bool:
    """Every tensor of two axes is float, every one of one is int32."""
    if len(tensors["grad_voxel_feats"].dims) != 2 or len(tensors["feats"].dims) != 2:
        return False
    voxels, channels = tensors["grad_voxel_feats"].dims
    points = tensors["feats"].dims[0]
    wanted = {
        "grad_voxel_feats": (voxels, channels),
        "feats": (points, channels),
        "voxel_feats": (voxels, channels),
        "point2voxel_map": (points,),
        "voxel_points_count": (voxels,),
        "voxel_num": (1,),
        "grad_feats": (points, channels),
    }
    types = {name: DType.FLOAT if len(dims) == 2 else DType.INT32 for name, dims in wanted.items()}
    return points >= voxels and all(
        tensors[name].dims == dims and tensors[name].dtype is types[name] for name, dims in wanted.items()
    )


def _compute(call: OpCall) -> None:
    """The lowest point of a voxel leads: where it matches, nobody else can win. Only the (voxel, channel) cells
    that the leader misses are contested; written from the last point to the first, the lowest one stays."""
    grad_feats = call.array("grad_feats")
    grad_feats[...] = 0
    voxel_of = call.array("point2voxel_map")
    points = np.flatnonzero((voxel_of >= 0) & (voxel_of < call.array("voxel_num")[0]))
    if not points.size:
        return
    feats, voxel_feats = call.array("feats"), call.array("voxel_feats")
    gradient = call.array("grad_voxel_feats")
    rows, channels = voxel_feats.shape

    backwards = points[::-1]
    leader = np.full(rows, -1, np.int64)
    leader[voxel_of[backwards]] = backwards  # a repeated index keeps its last value
    led = np.flatnonzero(leader >= 0)
    contested = np.zeros((rows, channels), bool)
    for start in range(0, led.size, _ROWS):
        voxels = led[start : start + _ROWS]
        missed = feats[leader[voxels]] != voxel_feats[voxels]
        contested[voxels] = missed
        # All ones where the leader matches: an AND keeps the gradient's bits or leaves +0.
        mask = missed.astype("<u4") - np.uint32(1)
        grad_feats[leader[voxels]] = (gradient[voxels].view("<u4") & mask).view("<f4")

    followers = backwards[leader[voxel_of[backwards]] != backwards]
    owner = np.full((rows, channels), -1, np.int32)
    for start in range(0, followers.size, _ROWS):
        block = followers[start : start + _ROWS]
        voxels = voxel_of[block]
        row, channel = np.nonzero((feats[block] == voxel_feats[voxels]) & contested[voxels])
        owner[voxels[row], channel] = block[row]
    voxel, channel = np.nonzero(owner >= 0)
    grad_feats[owner[voxel, channel], channel] = gradient[voxel, channel]


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


def _signature(name: str, query: str, asked: Iterable[str], *, writable: bool) -> c_api.CSignature:
    """`asked`: the descriptors that the query takes; `writable`: whether voxel_num is passed as `void *`."""
    tensors = (*c_api.tensor(*_INPUTS[:-1]), *c_api.tensor("voxel_num", writable=writable))
    memory = (c_api.WORKSPACE, c_api.WORKSPACE_SIZE)
    return c_api.CSignature(
        c_api.CFunction(name, (c_api.HANDLE, *REDUCE_ARGUMENT, *tensors, *memory, *c_api.tensor("grad_feats"))),
        query=c_api.CFunction(query, (c_api.HANDLE, *REDUCE_ARGUMENT, *c_api.descriptor(*asked), c_api.ASKED_SIZE)),
    )


C_API = (
    _signature(
        "mluOpDynamicPointToVoxelBackward",
        "mluOpGetDynamicPointToVoxelBackwardWorkspaceSize",
        _INPUTS,
        writable=False,
    ),
    # The document's query looks at feats alone.
    _signature("mluOpDynamicScatterBackward", "mluOpGetDynamicScatterBackwardWorkspaceSize", ("feats",), writable=True),
)


OPERATOR = Operator(
    name="dynamic_scatter_backward",
    # The design document's name; the schema and the released library renamed the operator.
    released_name="dynamic_point_to_voxel_backward",
    op_type=("DYNAMIC_POINT_TO_VOXEL_BACKWARD", 404),
    summary="Sends the gradient of each voxel and channel to the first point that holds the voxel's maximum.",
    inputs=(
        TensorSpec("grad_voxel_feats", "[M, C]", (DType.FLOAT,)),
        TensorSpec("feats", "[N, C]", (DType.FLOAT,)),
        TensorSpec("voxel_feats", "[M, C]", (DType.FLOAT,)),
        TensorSpec("point2voxel_map", "[N]", (DType.INT32,), names="M", outside="-1"),
        TensorSpec("voxel_points_count", "[M]", (DType.INT32,)),
        TensorSpec("voxel_num", "[1]", (DType.INT32,)),
    ),
    # §1.5.1: the values are selected, never computed, so the threshold is 0.
    outputs=(OutputSpec("grad_feats", "[N, C]", {DType.FLOAT: exact()}),),
    params=ParamMessage(
        field="dynamic_point_to_voxel_backward_param",
        number=4013,
        message="DynamicPointToVoxelBackwardParam",
        fields=(reduce_type(MAX),),
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
    reference=reference,
    precondition=precondition,
    # §1.4 does not support NaN and Inf. Subnormal numbers are not open: §1.5.1 asks for diff3 = 0, since gradients are
    # copied, and §3.2 compares features by `==`.
    left_open={"undefined": find_nonfinite},
    kernel=kernel,
    suspects=SUSPECTS,
    theory=theory,
    sizes={
        "points_of_a_voxel": SizedAxis(
            "point2voxel_map", count=lambda call: len(crowd(call.array("point2voxel_map"))), without=_member_lost
        ),
    },
    bound=Bound.copied("grad_feats"),
    c_api=C_API,
    exact=elements,
    torch_kernel=torch_kernel,
)
