"""voxel_pooling_forward: sums the features of all points that fall into the same cell of a bird's-eye view."""

import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from mluops_gtest.authoring import (
    Array,
    Baseline,
    Bound,
    DType,
    OpCall,
    Operator,
    OutputSpec,
    ParamField,
    ParamMessage,
    SizedAxis,
    TensorSpec,
    Theory,
    axis,
    diff1_and_diff2,
    exact,
)
from mluops_gtest.authoring.c_api import (
    HANDLE,
    c_function,
    scalar,
    tensor,
)
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
from mluops_gtest.authoring.rows import native_add_rows
from mluops_gtest.authoring.sums import exact_sums, lattice_unit, magnitudes, sums_are_exact
from mluops_gtest.authoring.suspects import Suspect, as_read, with_inputs

from .._shared.products import Terms, lost_terms
from .kernel import kernel

# §1.5.1
CRITERIA = diff1_and_diff2(3e-3)


# The parameter checks in their normative order; the device's architecture comes last.


CHECKS = (
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
)

# Without one of these another check answers with the same status.
ANSWERED_ANYWAY = {"geom_xyz_large": "pos_memo has the same shape"}

# Pairs for which a bounded search found no call that breaks both: most exclude each other (a tensor without elements
# is neither strided nor large), the others are not proved to.
NOT_TOGETHER = {
    "batch_size": (
        "geom_xyz_strided",
        "input_features_strided",
        "output_features_strided",
        "pos_memo_strided",
        "geom_xyz_large",
        "input_features_large",
        "output_features_large",
    ),
    "num_points": (
        "geom_xyz_strided",
        "input_features_strided",
        "pos_memo_strided",
        "geom_xyz_large",
        "input_features_large",
    ),
    "num_channels": (
        "input_features_strided",
        "output_features_strided",
        "input_features_large",
        "output_features_large",
    ),
    "num_voxel_x": ("output_features_strided", "output_features_large"),
    "num_voxel_y": ("output_features_strided", "output_features_large"),
}


# Sums of the points in each cell: exact, so the answer depends on no order, then rounded once to float32.


# A crowded cell is summed in segments of at most this many points, so that rounds stay few and wide.
SEGMENT = 1024
_BLOCK = 1 << 19  # elements gathered at a time: 2 MiB of float32
_THREADS = 2
_MANTISSA = 24  # bits of a float32


@dataclass(frozen=True, slots=True)
class Segments:
    """Runs of points of one cell: `order[start : start + count]` are the points, `whole` says if they are all."""

    order: Array
    cell: Array
    start: Array
    count: Array
    whole: Array

    def part(self, first: int, last: int) -> "Segments":
        """The segments first … last − 1."""
        chosen = slice(first, last)
        return Segments(self.order, self.cell[chosen], self.start[chosen], self.count[chosen], self.whole[chosen])


def pooled(features: Array, points: Array, cells: Array, cell_count: int, *, absolute: bool = False) -> Array:
    """float32 [cell_count, C]: row `cells[i]` sums features[points[i]], or |…|, 0 where no point falls.

    `features` is float32 [P, C]; NaN and infinities follow IEEE, every NaN of the result is the same one.
    """
    sums = _added_where_they_lie(features, points, cells, cell_count, absolute=absolute)
    if sums is None:
        out = _in_rank_rounds(features, segmented(points, cells), cell_count, absolute=absolute)
    else:
        with np.errstate(over="ignore"):
            out = sums.astype(np.float32)
    np.copyto(out, np.float32(np.nan), where=np.isnan(out))
    return out


def _added_where_they_lie(
    features: Array, points: Array, cells: Array, cell_count: int, *, absolute: bool
) -> Array | None:
    """float64 sums by the native core, point after point; None without it, and where an addition may have rounded."""
    sums = np.zeros((cell_count, features.shape[1]), np.float64)
    added = native_add_rows(sums, cells, features, points, absolute=absolute)
    if added is None or not math.isfinite(added.largest):
        return None
    most = int(np.bincount(cells).max(initial=0))
    return sums if sums_are_exact(_lowest_bit(added.smallest), added.largest, most) else None


def _in_rank_rounds(features: Array, segments: Segments, cell_count: int, *, absolute: bool) -> Array:
    out = np.zeros((cell_count, features.shape[1]), np.float32)
    split = np.flatnonzero(~segments.whole)
    parts = np.empty((len(split), features.shape[1]), np.float64)

    def pool(bounds: tuple[int, int]) -> None:
        block = segments.part(*bounds)
        with np.errstate(invalid="ignore", over="ignore"):
            sums = segment_sums(features, block, absolute=absolute)
            out[block.cell[block.whole]] = sums[block.whole]
        first, last = np.searchsorted(split, bounds)
        parts[first:last] = sums[~block.whole]

    _each_block(pool, segments, max(1, _BLOCK // features.shape[1]))
    crowded = segments.cell[split]
    for cell in np.unique(crowded):
        with np.errstate(over="ignore"):
            out[cell] = exact_sums(parts[crowded == cell])
    return out


def segmented(points: Array, cells: Array) -> Segments:
    """The points by cell, ascending, crowded cells in several segments."""
    shift = max(1, len(points)).bit_length()
    # Sorting packed keys is several times faster than argsort; a position takes the low bits.
    keys = (cells.astype(np.int64) << shift) | np.arange(len(points))
    keys.sort()
    order = points[keys & ((1 << shift) - 1)]
    keys >>= shift
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    counts = np.diff(starts, append=len(keys))
    pieces = -(-counts // SEGMENT)
    piece = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    start = np.repeat(starts, pieces) + piece * SEGMENT
    count = np.minimum(np.repeat(starts + counts, pieces) - start, SEGMENT)
    return Segments(order, keys[start], start, count, np.repeat(pieces == 1, pieces))


def segment_sums(features: Array, segments: Segments, *, absolute: bool = False) -> Array:
    """float64 [segments, C]: the exact sum of each segment, rounded at most once."""
    # Crowded segments first: those that still have a point at some rank are then a leading slice.
    by_count = np.argsort(-segments.count, kind="stable")
    counts = segments.count[by_count]
    widths = len(counts) - np.searchsorted(counts[::-1], np.arange(counts[0]), side="right")
    ranks = np.repeat(np.arange(len(widths)), widths)
    places = np.arange(len(ranks)) - np.repeat(np.cumsum(widths) - widths, widths)
    rows = segments.order[segments.start[by_count][places] + ranks]
    # take is twice as fast as indexing with an array; all rows exist, and "clip" spares the check of each.
    gathered = features.take(rows, axis=0, mode="clip")
    if absolute:
        np.abs(gathered, out=gathered)
    sums = np.empty((len(counts), features.shape[1]), np.float64)
    sums[by_count] = _exact(gathered, widths.tolist())
    return sums


def _lowest_bit(smallest: float) -> int:
    """math.frexp gives 0.1xxx · 2^e, so the last of the 24 bits weighs 2^(e − 24)."""
    return math.frexp(smallest)[1] - _MANTISSA


def _exact(gathered: Array, widths: list[int]) -> Array:
    smallest, largest = magnitudes(gathered)
    terms = len(widths)
    exponent = _lowest_bit(smallest)
    if sums_are_exact(exponent, largest, terms):
        return _rounds(gathered, widths)
    # Two float64 accumulators: multiples of 2^coarse, and the rest below it. One addition joins them.
    coarse = math.frexp(largest)[1] + terms.bit_length() - 51
    if sums_are_exact(exponent, math.ldexp(1.0, coarse), terms) and np.isfinite(gathered).all():
        wide = gathered.astype(np.float64)
        # Adding 1.5 · 2^(52 + coarse) rounds to a multiple of 2^coarse.
        magic = math.ldexp(1.5, 52 + coarse)
        high = (wide + magic) - magic
        return _rounds(high, widths) + _rounds(wide - high, widths)
    return _one_by_one(gathered, widths)


def _rounds(gathered: Array, widths: list[int]) -> Array:
    """Rank after rank added to float64 accumulators."""
    sums = np.zeros((widths[0], gathered.shape[1]), np.float64)
    first = 0
    for width in widths:
        leading = sums[:width]
        np.add(leading, gathered[first : first + width], out=leading)
        first += width
    return sums


def _one_by_one(gathered: Array, widths: list[int]) -> Array:
    firsts = np.cumsum([0, *widths[:-1]])
    return np.stack(
        [
            exact_sums(gathered[firsts[: np.count_nonzero(np.array(widths) > place)] + place].astype(np.float64))
            for place in range(widths[0])
        ]
    )


def _each_block(pool: Callable[[tuple[int, int]], None], segments: Segments, points: int) -> None:
    blocks = list(_blocks(segments.count, points))
    if len(blocks) < 2:
        for bounds in blocks:
            pool(bounds)
        return
    with ThreadPoolExecutor(_THREADS) as executor:
        for _ in executor.map(pool, blocks):
            pass


def _blocks(counts: Array, points: int) -> Iterator[tuple[int, int]]:
    """Bounds of consecutive segments that hold about `points` points together."""
    ends = np.cumsum(counts)
    first = 0
    while first < len(counts):
        done = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, done + points, side="right")))
        yield first, last
        first = last


def _layer_lost(call: OpCall, index: int) -> Mapping[str, Array]:
    """The points of that z lie outside."""
    geometry = call.array("geom_xyz")
    return {"geom_xyz": np.where(geometry[..., 2:] == index, np.int32(-1), geometry)}


# The oracle: which points count, where they go, and their exact sums; and the figures for efficiency.


def reference(call: OpCall) -> Baseline:
    """output_features and pos_memo of a valid call."""
    geometry, features = call.array("geom_xyz"), call.array("input_features")
    width, height, depth = (call.param(f"num_voxel_{axis}") for axis in "xyz")
    batches, points, channels = features.shape
    rows = np.flatnonzero(counted(geometry, width, height, depth))
    batch = rows // points
    x, y, _ = geometry.reshape(-1, 3).take(rows, axis=0).T
    # §3.2's listing and not §3.1's copy: (batch, y, x), counted from 0; −1 where the point does not count.
    memo = np.full((batches * points, 3), -1, "<i4")
    memo[rows, 0], memo[rows, 1], memo[rows, 2] = batch, y, x
    cells = (batch * height + y) * width + x
    sums = pooled(features.reshape(batches * points, channels), rows, cells, batches * height * width)
    output = sums.reshape(batches, height, width, channels)
    return Baseline({"output_features": output, "pos_memo": memo.reshape(geometry.shape)})


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
    geometry, features = call.array("geom_xyz"), call.tensor("input_features")
    inside = counted(geometry, *(call.param(f"num_voxel_{axis}") for axis in "xyz"))
    added = int(np.count_nonzero(inside)) * features.dims[2]
    touched = call.tensor("geom_xyz").desc.nbytes + call.tensor("output_features").desc.nbytes
    memos = 3 * int(np.count_nonzero(inside)) * 4
    return Theory(io_bytes=touched + added * features.dtype.itemsize + memos, ops=added)


# What arithmetic allows: a cell is a sum of the features of its points, in any order (§1.4).


def bound(call: OpCall) -> dict[str, Bound]:
    """Σ|features| of every cell, and a rounding per point."""
    geometry, features = call.array("geom_xyz"), call.array("input_features")
    width, height, depth = (call.param(f"num_voxel_{axis}") for axis in "xyz")
    batches, points, channels = features.shape
    inside = counted(geometry, width, height, depth)
    rows = np.flatnonzero(inside)
    x, y = geometry.reshape(-1, 3)[rows, :2].T.astype(np.int64)
    cells = ((rows // points) * height + y) * width + x
    count = batches * height * width
    sums = pooled(features.reshape(batches * points, channels), rows, cells, count, absolute=True)
    terms = np.bincount(cells, minlength=count)
    return {
        "output_features": Bound(
            sums.reshape(batches, height, width, channels),
            terms.reshape(batches, height, width, 1),
            unit=lattice_unit(features, of_sums=sums),
        )
    }


# Mistakes that kernels make where points meet in a cell (§1.4: atomic adds).


def _points(call: OpCall) -> Terms:
    geometry, features = call.array("geom_xyz"), call.array("input_features")
    width, height, depth = (call.param(f"num_voxel_{axis}") for axis in "xyz")
    batches, points, channels = features.shape
    rows = np.flatnonzero(counted(geometry, width, height, depth))
    x, y = geometry.reshape(-1, 3)[rows, :2].T.astype(np.int64)
    cells = ((rows // points) * height + y) * width + x
    return Terms(features.reshape(-1, channels)[rows].astype(np.float64), cells, batches * height * width)


def _shaped(sums: Array, call: OpCall) -> Array:
    return sums.reshape(call.tensor("output_features").dims)


def _reduced(reduce: Callable[[Terms], Array]) -> Suspect:
    """Other things than the sum of the points of a cell."""
    return lambda call: {"output_features": _shaped(reduce(_points(call)), call).astype("<f4")}


def _sums(terms: Terms) -> Array:
    sums = np.zeros((terms.count, terms.values.shape[1]))
    np.add.at(sums, terms.places, terms.values)
    return sums


def _largest(terms: Terms) -> Array:
    largest = np.full((terms.count, terms.values.shape[1]), -np.inf)
    np.maximum.at(largest, terms.places, terms.values)
    return np.where(np.bincount(terms.places, minlength=terms.count)[:, None] > 0, largest, 0)


def _mean(terms: Terms) -> Array:
    means: Array = _sums(terms) / np.maximum(np.bincount(terms.places, minlength=terms.count), 1)[:, None]
    return means


def _first(terms: Terms) -> Array:
    return replace(terms, values=terms.values[::-1], places=terms.places[::-1]).last_alone()


def _channels_first(call: OpCall) -> OpCall:
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


SUSPECTS = {
    **lost_terms("output_features", "point", "cell", _points, _shaped),
    "input_features is read as [B, C, N]": as_read(reference, _channels_first),
    "every batch is pooled into the first": _all_into_first,
    "pos_memo is (x, y, z)": _memo_as_given,
    "the first point of every cell wins": _reduced(_first),
    "the mean of the points is taken": _reduced(_mean),
    "the largest feature of the points is taken": _reduced(_largest),
}


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
    checks=CHECKS,
    subsumed={"pos_memo_large": "pos_memo has the dims of geom_xyz, which is checked first"},
    not_together=NOT_TOGETHER,
    answered_anyway=ANSWERED_ANYWAY,
    reference=reference,
    kernel=kernel,
    sizes={
        "points": SizedAxis("input_features", 1),
        "depth": SizedAxis("geom_xyz", count=lambda call: int(call.param("num_voxel_z")), without=_layer_lost),
    },
    theory=theory,
    bound=bound,
    left_open={"subnormal": find_subnormal},
    suspects=SUSPECTS,
    # §1.4: atomic adds, in no fixed order.
    order_free=True,
    c_api=c_function(
        "mluOpVoxelPoolingForward",
        arguments=(HANDLE, *scalar(*_SCALARS), *tensor("geom_xyz", "input_features", "output_features", "pos_memo")),
    ),
    exact=elements,
    torch_kernel=torch_kernel,
)
