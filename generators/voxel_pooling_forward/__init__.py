"""voxel_pooling_forward: sums the features of all points that fall into the same cell of a bird's-eye view."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from mluops_gtest.authoring import (
    Array,
    Baseline,
    DType,
    OpCall,
    Operator,
    OutputSpec,
    ParamField,
    ParamMessage,
    SizedAxis,
    Status,
    TensorArg,
    TensorSpec,
    Theory,
    axis,
    diff1_and_diff2,
    exact,
)
from mluops_gtest.authoring.c_api import HANDLE, c_function, scalar, tensor
from mluops_gtest.authoring.checks import (
    arch,
    descriptors,
    dims,
    dtypes,
    handle,
    large,
    params,
    pointers,
    ranks,
    strided,
)
from mluops_gtest.authoring.exact_numbers import ExactElement, total
from mluops_gtest.authoring.left_open import find_subnormal
from mluops_gtest.authoring.sum_of_terms import SumOfTerms, define_sums
from mluops_gtest.authoring.suspects import as_read, with_inputs

# §1.5.1
CRITERIA = diff1_and_diff2(3e-3)


def _layer_lost(call: OpCall, index: int) -> Mapping[str, Array]:
    """The points of that z lie outside."""
    geometry = call.array("geom_xyz")
    return {"geom_xyz": np.where(geometry[..., 2:] == index, np.int32(-1), geometry)}


# The oracle: which points count, where they go, and their exact sums; and the figures for efficiency.


def terms(call: OpCall) -> SumOfTerms:
    """The features of the points that count, each in its cell (§1.4: atomic adds)."""
    return _sums(call, *_places(call))


def reference(call: OpCall) -> Baseline:
    """output_features, and in pos_memo where each point went."""
    rows, *place = _places(call)
    # §3.2's listing and not §3.1's copy: (batch, y, x), counted from 0; −1 where the point does not count.
    memo = np.full_like(call.array("geom_xyz"), -1)
    for entry, named in enumerate(place):
        memo.reshape(-1, 3)[rows, entry] = named
    return Baseline({"output_features": _sums(call, rows, *place).sums(), "pos_memo": memo})


def _places(call: OpCall) -> tuple[Array, ...]:
    """Of the points that count: the row, the batch, y and x."""
    geometry = call.array("geom_xyz")
    rows = np.flatnonzero(counted(geometry, *(call.param(f"num_voxel_{axis}") for axis in "xyz")))
    x, y, _ = geometry.reshape(-1, 3).take(rows, axis=0).T
    return rows, rows // geometry.shape[1], y, x


def _sums(call: OpCall, rows: Array, batch: Array, y: Array, x: Array) -> SumOfTerms:
    features, width, height = call.array("input_features"), call.param("num_voxel_x"), call.param("num_voxel_y")
    return SumOfTerms(
        features.reshape(1, -1, features.shape[2]),
        source=rows.reshape(1, -1, 1),
        target=((batch * height + y) * width + x).reshape(1, -1, 1),
        count=len(features) * height * width,
        shaped=lambda sums: sums.reshape(len(features), height, width, -1),
    )


DEFINITION = define_sums("output_features", terms, term="point", place="cell")


def counted(geometry: Array, width: int, height: int, depth: int) -> Array:
    """bool [B, N]: the point lies in the grid; all depths of it fold into one cell."""
    # §3.1's `> 0` would drop every point of a grid with one layer; §3.2's listing is right: 0 is inside.
    # A negative coordinate, read without its sign, is at least 2^31 and so outside every axis.
    unsigned = geometry.view("<u4")
    inside: Array = unsigned[..., 0] < np.uint32(width)
    inside &= unsigned[..., 1] < np.uint32(height)
    inside &= unsigned[..., 2] < np.uint32(depth)
    return inside


def theory(call: OpCall) -> Theory:
    """All coordinates, the features and memos of the points that count, all cells; one add per counted feature."""
    features, added = call.tensor("input_features"), terms(call).operations
    whole = sum(call.tensor(name).desc.nbytes for name in ("geom_xyz", "output_features"))
    memos = added // features.dims[2] * 3 * 4
    return Theory(io_bytes=whole + added * features.dtype.itemsize + memos, ops=added)


# Mistakes that kernels make where points meet in a cell.


def _first_alone(call: OpCall) -> Mapping[str, Array]:
    points = terms(call)
    return {"output_features": points.without(~points.outermost(last=False)).sums()}


def _mean(call: OpCall) -> Mapping[str, Array]:
    points = terms(call)
    return {"output_features": points.sums() / points.shaped(np.maximum(points.met, 1)[..., None].astype("<f4"))}


def _largest(call: OpCall) -> Mapping[str, Array]:
    points = terms(call)
    numbers, sources, targets = points.entries()
    largest = np.full((points.count, points.values.shape[2]), -np.inf)
    np.maximum.at(largest, targets, points.products(numbers, sources))
    return {"output_features": points.shaped(np.where(points.met.T > 0, largest, 0)).astype("<f4")}


def channels_first(call: OpCall) -> OpCall:
    """input_features as they look when they are taken for [B, C, N]."""
    features = call.array("input_features")
    batches, points, channels = features.shape
    return with_inputs(
        call, input_features=np.ascontiguousarray(features.reshape(batches, channels, points).swapaxes(1, 2))
    )


def _all_into_first(call: OpCall) -> Mapping[str, Array]:
    sums = reference(call).outputs["output_features"]
    first = np.zeros_like(sums)
    first[0] = sums.astype(np.float64).sum(axis=0)
    return {"output_features": first}


def _memo_as_given(call: OpCall) -> Mapping[str, Array]:
    memo, geometry = reference(call).outputs["pos_memo"], call.array("geom_xyz")
    return {"pos_memo": np.where(memo < 0, memo, geometry).astype(memo.dtype)}


# One cell of output_features and one entry of pos_memo as §3.2 lists them.


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """The sum of all points of a cell, of every depth; where a point went."""
    geometry, features = call.array("geom_xyz"), call.array("input_features")
    width, height, depth = (call.param(f"num_voxel_{axis}") for axis in "xyz")

    def output_features(batch: int, y: int, x: int, channel: int) -> Fraction | float:
        points = geometry[batch]
        of_cell = (points[:, 0] == x) & (points[:, 1] == y) & (points[:, 2] >= 0) & (points[:, 2] < depth)
        return total(features[batch, np.flatnonzero(of_cell), channel].astype(np.float64))

    def pos_memo(batch: int, point: int, entry: int) -> int:
        x, y, z = geometry[batch, point].tolist()
        counts = 0 <= x < width and 0 <= y < height and 0 <= z < depth
        return (batch, y, x)[entry] if counts else -1

    return {"output_features": output_features, "pos_memo": pos_memo}


# The kernel that the numpy backend runs: §3.3's split by points, float32 throughout.

# Points that one task takes at a time.
TILE = 4096
OLDEST_ARCH = 370


def kernel(call: OpCall) -> Status:
    """Check the call, then add every tile's sums to the cells and memorise where its points went."""
    status = _status(call)
    if status is Status.SUCCESS:
        _pool(call)
    return status


def _pool(call: OpCall) -> None:
    points, channels = call.param("num_points"), call.param("num_channels")
    total = call.param("batch_size") * points
    geometry = call.array("geom_xyz").reshape(total, 3)
    features = call.array("input_features").reshape(total, channels)
    cells = call.array("output_features").reshape(-1, channels)
    memo = call.array("pos_memo").reshape(total, 3)
    cells[...] = 0
    for first in range(0, total, TILE):
        tile = slice(first, first + TILE)
        x, y, z = geometry[tile].T
        inside = (x >= 0) & (x < call.param("num_voxel_x"))
        inside &= (y >= 0) & (y < call.param("num_voxel_y"))
        inside &= (z >= 0) & (z < call.param("num_voxel_z"))
        batch = np.arange(first, first + len(x)) // points
        # §3.1 step 5 in one go: a factor 0 leaves −1 where the point does not count.
        memo[tile] = (np.stack([batch, y, x], axis=1) + 1) * inside[:, None] - 1
        _add_tile(cells, _cells(call, batch, y, x)[inside], features[tile], np.flatnonzero(inside))


def _cells(call: OpCall, batch: Array, y: Array, x: Array) -> Array:
    """§3.1 step 6.1, where 64 bits cannot overflow."""
    height, width = int(call.param("num_voxel_y")), int(call.param("num_voxel_x"))
    return (batch * height + y.astype(np.int64)) * width + x.astype(np.int64)


def _add_tile(cells: Array, index: Array, features: Array, points: Array) -> None:
    """One addition per cell that the tile touches, in place of an atomic one per point."""
    if len(points) == 0:
        return
    order = np.argsort(index, kind="stable")
    touched, firsts = np.unique(index[order], return_index=True)
    with np.errstate(invalid="ignore", over="ignore"):
        cells[touched] += np.add.reduceat(features[points[order]], firsts, axis=0)


def _status(call: OpCall) -> Status:
    geometry, features = call.inputs["geom_xyz"], call.inputs["input_features"]
    output, memo = call.outputs["output_features"], call.outputs["pos_memo"]
    if call.handle is None or geometry is None or features is None or output is None or memo is None:
        return Status.BAD_PARAM
    tensors = (geometry, features, output, memo)
    if not _shapes_agree(call, *tensors):
        return Status.BAD_PARAM
    if any(arg.desc.is_strided or arg.desc.is_large for arg in tensors):
        return Status.NOT_SUPPORTED
    if any(arg.null for arg in tensors):
        return Status.BAD_PARAM
    return Status.SUCCESS if call.handle.arch >= OLDEST_ARCH else Status.ARCH_MISMATCH


def _shapes_agree(call: OpCall, geometry: TensorArg, features: TensorArg, output: TensorArg, memo: TensorArg) -> bool:
    if geometry.dtype is not DType.INT32 or memo.dtype is not DType.INT32:
        return False
    if features.dtype is not DType.FLOAT or output.dtype is not DType.FLOAT:
        return False
    batches, points, channels = (call.param(name) for name in ("batch_size", "num_points", "num_channels"))
    width, height, depth = (call.param(f"num_voxel_{axis}") for axis in "xyz")
    return (
        geometry.dims == memo.dims == (batches, points, 3)
        and features.dims == (batches, points, channels)
        and output.dims == (batches, height, width, channels)
        and min(batches, points, channels, width, height, depth) > 0
    )


# With torch: the points that count, block by block, through index_add_.

# Points per addition on the processor: few enough for the cache, many enough that threads seldom wait for each other.
_POINTS = 16384


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Write the sums of every cell and where each point went."""
    import torch

    width, height, depth = (call.param(f"num_voxel_{axis}") for axis in "xyz")
    x, y, z = inputs["geom_xyz"].unbind(-1)
    # 0 is inside (§3.1's `> 0` would drop every point of a space with one layer).
    counts = (x >= 0) & (x < width) & (y >= 0) & (y < height) & (z >= 0) & (z < depth)
    batch = torch.arange(len(x), device=x.device)[:, None]

    memo = outputs["pos_memo"]
    memo[..., 0], memo[..., 1], memo[..., 2] = batch, y, x
    memo.masked_fill_(~counts[..., None], -1)

    cells = ((batch * height + y) * width + x).flatten()
    points = counts.flatten().nonzero().squeeze(1)
    features = inputs["input_features"].flatten(0, 1)
    sums = outputs["output_features"].zero_().flatten(0, 2)
    step = _POINTS if x.device.type == "cpu" else max(1, len(points))
    for block in points.split(step):
        sums.index_add_(0, cells[block], features.index_select(0, block))


_SCALARS = ("batch_size", "num_points", "num_channels", "num_voxel_x", "num_voxel_y", "num_voxel_z")

OPERATOR = Operator(
    name="voxel_pooling_forward",
    released_name="voxel_pooling_forward",
    op_type=("VOXEL_POOLING_FORWARD", 2200),
    summary="Sums the features of all points that fall into the same (batch, y, x) cell; tells where each point went.",
    inputs=(
        TensorSpec(
            "geom_xyz",
            "[batch_size, num_points, 3]",
            (DType.INT32,),
            names={0: "num_voxel_x", 1: "num_voxel_y", 2: "num_voxel_z"},
            outside="skipped",
        ),
        TensorSpec("input_features", "[batch_size, num_points, num_channels]", (DType.FLOAT,)),
    ),
    outputs=(
        OutputSpec("output_features", "[batch_size, num_voxel_y, num_voxel_x, num_channels]", {DType.FLOAT: CRITERIA}),
        # §1.4: the caller presets pos_memo to a negative value.
        OutputSpec("pos_memo", "[batch_size, num_points, 3]", {DType.INT32: exact()}, preset=-1),
    ),
    params=ParamMessage(
        field="voxel_pooling_forward_param",
        number=4009,
        message="VoxelPoolingForwardParam",
        fields=tuple(ParamField(name, number, least=1) for number, name in enumerate(_SCALARS, start=1)),
    ),
    axes={
        "points": axis("num_points", of="input_features"),
        "batches": axis("batch_size", of="input_features"),
        "channels": axis("num_channels", of="input_features"),
        "width": axis("num_voxel_x", of="output_features"),
        "height": axis("num_voxel_y", of="output_features"),
    },
    # In their normative order; the device's architecture comes last.
    checks=(
        handle("§3.7"),
        descriptors(doc="§3.7"),
        dtypes(doc="§1.4"),
        ranks(doc="§1.4"),
        dims(doc="§1.4"),
        # §1.4: tensors without elements are refused, not passed over.
        params(doc="§1.4"),
        strided(doc="§1.4"),
        large(doc="§3.7"),
        pointers(doc="§3.7"),
        arch("§1.4"),
    ),
    subsumed={"pos_memo_large": "pos_memo has the dims of geom_xyz, which is checked first"},
    definition=DEFINITION,
    reference=reference,
    kernel=kernel,
    sizes={
        "points": SizedAxis("input_features", 1),
        "depth": SizedAxis("geom_xyz", count=lambda call: int(call.param("num_voxel_z")), without=_layer_lost),
    },
    theory=theory,
    left_open={"subnormal": find_subnormal},
    suspects={
        "input_features is read as [B, C, N]": as_read(reference, channels_first),
        "every batch is pooled into the first": _all_into_first,
        "pos_memo is (x, y, z)": _memo_as_given,
        "the first point of every cell wins": _first_alone,
        "the mean of the points is taken": _mean,
        "the largest feature of the points is taken": _largest,
    },
    # §1.4: atomic adds, in no fixed order.
    order_free=True,
    c_api=c_function(
        "mluOpVoxelPoolingForward",
        arguments=(HANDLE, *scalar(*_SCALARS), *tensor("geom_xyz", "input_features", "output_features", "pos_memo")),
    ),
    exact=elements,
    torch_kernel=torch_kernel,
)
