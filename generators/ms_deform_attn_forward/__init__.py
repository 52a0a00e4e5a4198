"""ms_deform_attn_forward: for every query and head a weighted sum of bilinear samples of maps of several levels."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import floor
from typing import Any, Final

import numpy as np

import mluops_gtest.authoring as mg
from mluops_gtest.authoring import Array, Baseline, Bound, DType, OpCall, ParamField, Status, c_api, checks, left_open
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction
from mluops_gtest.authoring.reductions import Reduction, changed, without_rows
from mluops_gtest.authoring.rows import blended
from mluops_gtest.authoring.suspects import Suspect, as_read, misread, with_inputs

from .._shared.refusals import Refusals, first_status, tensors_of

INPUTS: Final = (
    "data_value", "data_spatial_shapes", "data_level_start_index", "data_sampling_loc", "data_attn_weight"
)  # fmt: skip


def _divides(call: OpCall) -> bool:
    # mmcv takes im2col_step samples of a batch at a time; nothing else depends on it.
    batches = call.tensor("data_value").dims[0]
    step = int(min(batches, call.param("im2col_step")))
    return step > 0 and batches % step == 0


def _agrees(name: str, call: OpCall) -> bool:
    """The tensor's axes are as long as its shape says, but for the one of length 2."""
    batches, _, heads_, channels = call.tensor("data_value").dims
    _, queries, _, _, points, _ = call.tensor("data_sampling_loc").dims
    own = (channels,) if name == "data_col" else (call.tensor("data_spatial_shapes").dims[0], points)
    return call.tensor(name).dims[: 3 + len(own)] == (batches, queries, heads_, *own)


# What is checked, in normative order; neither the device nor a layout is.

CHECKS = (
    checks.handle("§3.8 (1)"),
    checks.descriptors(doc="§3.8 (1)"),
    checks.ranks(doc="§3.8 (3)"),
    checks.dims("data_spatial_shapes.1", "data_sampling_loc.5", "data_level_start_index.0", doc="§3.8 (3)"),
    *(
        checks.require(f"{name}_dims", partial(_agrees, name), f"{name} must agree with the others", "§3.8 (3)")
        for name in (*INPUTS[3:], "data_col")
    ),
    checks.strided(doc="§1.4"),
    checks.dtypes(*INPUTS[:3], *(f"{name} = data_value" for name in ("data_col", *INPUTS[3:])), doc="§1.4"),
    checks.large("data_value", "data_sampling_loc", "data_col", doc="released"),
    checks.empty("data_col", doc="§1.1", status=Status.BAD_PARAM),
    # §1.1: without levels or points the sums are empty, and 0 is written.
    checks.empty("data_attn_weight", doc="§1.1", writes=True),
    checks.require("im2col_step", _divides, "im2col_step, or B if that is less, must divide B", "released"),
    checks.pointers(doc="§3.8 (1)"),
)


# The samples in float64, of which suspects change a step. One reading is §3.2's.


@dataclass(frozen=True, slots=True)
class Reading:
    """How a sampling location becomes pixels and weights."""

    locate: Callable[[Array, Array], Array] = lambda at, size: at * size - 0.5
    # §3.2: strictly between −1 and the size.
    inside: Callable[[Array, Array], Array] = lambda at, size: (at > -1) & (at < size)
    # Pixels outside count 0 (§3.1); or the nearest one stands for them.
    clamped: bool = False
    # What is outside is multiplied with 0, not left out.
    spread: bool = False
    swapped: bool = False
    moved: float = 0.0

    def samples(self, call: OpCall) -> Iterator[tuple[Any, Array, Array, Array]]:
        """For every batch and head its place in data_col, and four pixels of every sample: float64 values [C, K + 1],
        of which the last is 0, int32 cells [4·L·P, Q] of them, and the weights of these."""
        values, shapes, starts, locations, weights = call.arrays(*INPUTS)
        _, queries, _, levels, points = weights.shape
        for batch, head in np.ndindex(len(values), values.shape[2]):
            padded = np.zeros((values.shape[3], values.shape[1] + 1))
            padded[:, :-1] = values[batch, :, head].T
            cells = np.empty((levels, points, 4, queries), np.int32)
            factors = np.empty(cells.shape)
            for level, start in enumerate(starts.tolist()):
                own = weights[batch, :, head, level].T.astype(np.float64)
                # §3.1: the last axis is x, y.
                sizes = shapes[level, ::-1, None, None].astype(np.int64)
                places = (
                    self.locate(locations[batch, :, head, level].T.astype(np.float64, order="C"), sizes) + self.moved
                )
                inside = self.inside(places, sizes)
                places = np.where(inside, places, 0.0)
                low = np.floor(places)
                part = (places - low)[:: -1 if self.swapped else 1]
                # [2, 2, P, Q]: before a place or behind it, along x or y.
                pixels = low.astype(np.int64) + np.arange(2)[:, None, None, None]
                there = inside & (self.clamped | ((pixels >= 0) & (pixels < sizes)))
                pixels, shares = np.clip(pixels, 0, sizes - 1), np.stack([1 - part, part])
                for number, (right, below) in enumerate(((0, 0), (1, 0), (0, 1), (1, 1))):
                    is_there = there[right, 0] & there[below, 1]
                    cell = np.minimum(start + pixels[below, 1] * sizes[0] + pixels[right, 0], values.shape[1])
                    factor = own * (shares[right, 0] * shares[below, 1])
                    cells[level, :, number] = np.where(is_there | self.spread, cell, values.shape[1])
                    factors[level, :, number] = np.where(is_there, factor, own * 0 if self.spread else 0)
            yield np.s_[batch, :, head], padded, cells.reshape(-1, queries), factors.reshape(-1, queries)


DOCUMENT: Final = Reading()


def sums(call: OpCall, reading: Reading = DOCUMENT) -> Mapping[str, Array]:
    """data_col by that reading, rounded once; empty sums are 0."""
    col = np.zeros(call.tensor("data_col").dims, np.float32)
    if not call.tensor("data_attn_weight").desc.is_empty:
        with np.errstate(all="ignore"):
            for place, values, cells, weights in reading.samples(call):
                col[place] = blended(values, cells, weights).T
    return {"data_col": col}


def find_starts(shapes: Array) -> Array:
    """Where each level begins: behind all pixels of the levels before it."""
    # §1.4's sum up to l = i is one up to the level before: the first level begins at 0.
    pixels = shapes.prod(axis=1)
    starts: Array = np.cumsum(pixels) - pixels
    return starts.astype("<i4")


def precondition(call: OpCall) -> str | None:
    """Levels lie one behind the other and fill data_value (§1.4); locations are finite (§1.2)."""
    if call.tensor("data_attn_weight").desc.is_empty:
        return None
    shapes, starts = call.arrays("data_spatial_shapes", "data_level_start_index")
    if (shapes < 1).any():
        return "a level has no pixels"
    if (starts != find_starts(shapes)).any():
        return "a level does not begin where the one before it ends"
    if shapes.prod(axis=1).sum() != call.tensor("data_value").dims[1]:
        return "the levels have not as many pixels as data_value has keys"
    return None if np.isfinite(call.array("data_sampling_loc")).all() else "data_sampling_loc has NaN or an infinity"


_NEAR: Final = 1e-3


def find_unruled(call: OpCall, _: Baseline) -> str | None:
    """An infinite weight inside depends on the order of products, 0 · Inf on how a place is rounded."""
    if call.tensor("data_attn_weight").desc.is_empty:
        return None
    values, weights = call.arrays("data_value", "data_attn_weight")
    if np.isfinite(values).all() and np.isfinite(weights).all():
        return None
    beside = [replace(DOCUMENT, moved=by) for by in (0.0, -_NEAR, _NEAR)]
    infinite = with_inputs(call, data_value=np.ones_like(values), data_attn_weight=np.isinf(weights).astype("<f4"))
    if any(sums(infinite, reading)["data_col"].any() for reading in beside):
        return "a sample inside has an infinite weight"
    first, *others = (np.where(np.isfinite(col), 0, col) for col in (sums(call, one)["data_col"] for one in beside))
    if all(np.array_equal(first, other, equal_nan=True) for other in others):
        return None
    return "NaN or an infinity has an interpolation weight of 0, or nearly"


def reference(call: OpCall) -> Baseline:
    """§3.1's samples; the attention weights are used as they are, whatever their sum (§1.2 speaks of the network)."""
    return Baseline(sums(call))


def _off(call: OpCall) -> Array:
    """[B, Q, M, L, P]: how far float places are off at most, in units of rounding; 0 where no step rounds."""
    shapes, locations = call.array("data_spatial_shapes"), call.array("data_sampling_loc").astype(np.float64)
    sizes = shapes[:, None, ::-1].astype(np.float64)
    scaled = locations * sizes
    place = scaled - 0.5
    off = 2 * np.abs(scaled) + np.abs(place) + sizes
    # grid_sample, with which mmcv computes on hosts, finds the place from 2·x − 1.
    steps = [step.astype(np.float32) == step for step in (scaled, place, 2 * locations - 1)]
    is_exact = np.logical_and.reduce(steps) & (np.frexp(sizes)[0] == 0.5)
    # What is far outside contributes nothing, however it is rounded.
    total: Array = np.where(is_exact | (place <= -2) | (place >= sizes + 1), 0.0, off).sum(axis=-1)
    return total


def bound(call: OpCall) -> Mapping[str, Bound]:
    """Four products of three factors per sample, and samples a few roundings beside their places, in whatever map."""
    if call.tensor("data_attn_weight").desc.is_empty:
        return {"data_col": Bound(0.0)}
    weights = call.array("data_attn_weight")
    roundings = 4 * weights.shape[3] * weights.shape[4] + 8
    magnitude = np.empty(call.tensor("data_col").dims)
    with np.errstate(all="ignore"):
        moved = (np.abs(weights) * _off(call)).sum(axis=(3, 4)) / roundings
        for place, values, cells, products in DOCUMENT.samples(call):
            size = np.abs(values)
            largest = np.where(np.isfinite(size), size, 0).max(axis=1)
            magnitude[place] = (blended(size, cells, np.abs(products)) + largest[:, None] * moved[place]).T
    return {"data_col": Bound(np.where(np.isfinite(magnitude), magnitude, 0), roundings)}


def theory(call: OpCall) -> mg.Theory:
    """Per sample 10 operations for place and weights, 9 a channel; each pixel at most once."""
    batches, keys, count, channels = call.tensor("data_value").dims
    samples = call.tensor("data_attn_weight").desc.count
    pixels = min(4 * samples, batches * keys * count)
    others = sum(call.tensor(name).desc.nbytes for name in (*INPUTS[1:], "data_col"))
    return mg.Theory(others + 4 * pixels * channels, samples * (9 * channels + 10))


def _read(**steps: Any) -> Suspect:
    reading = replace(DOCUMENT, **steps)
    return lambda call: sums(call, reading)


def _of(**changes: Callable[[Array], Array]) -> Suspect:
    return as_read(reference, misread(**changes))


def _scaled_starts(call: OpCall) -> OpCall:
    starts = call.array("data_level_start_index") * np.prod(call.tensor("data_value").dims[2:], dtype=np.int32)
    return with_inputs(call, data_level_start_index=starts)


def _steps_alike(call: OpCall) -> OpCall:
    values = call.array("data_value")
    step = min(call.param("im2col_step"), len(values))
    return with_inputs(call, data_value=values[np.arange(len(values)) // step * step])


def _head_of_query(call: OpCall) -> Mapping[str, Array]:
    count, queries = call.tensor("data_value").dims[2], np.arange(call.tensor("data_col").dims[1])
    alike = [misread(data_value=partial(np.take, indices=[head] * count, axis=2)) for head in range(count)]
    by_head = np.stack([sums(read(call))["data_col"] for read in alike])
    return {"data_col": by_head[queries % count, :, queries].swapaxes(0, 1)}


# Mistakes that kernels make: where samples are, whose weights count, which map is read.
SUSPECTS: Final = {
    "x and y are exchanged": _of(data_sampling_loc=lambda at: at[..., ::-1]),
    "shapes are w, h": _of(data_spatial_shapes=lambda shapes: shapes[:, ::-1]),
    "half a pixel is not subtracted": _read(locate=lambda at, size: at * size),
    "corners are aligned": _read(locate=lambda at, size: at * (size - 1)),
    "locations are in [−1, 1]": _read(locate=lambda at, size: ((at + 1) * size - 1) / 2),
    "the border is repeated outside": _read(clamped=True),
    "samples below 0 are skipped": _read(inside=lambda at, size: (at >= 0) & (at < size)),
    "samples beyond the last pixel are skipped": _read(inside=lambda at, size: (at > -1) & (at <= size - 1)),
    "the nearest pixel is taken": _read(locate=lambda at, size: np.rint(at * size - 0.5)),
    "lw and lh are exchanged": _read(swapped=True),
    "what is outside is multiplied with 0": _read(spread=True),
    "weights are divided by their sum": _of(data_attn_weight=lambda w: w / w.sum((3, 4), keepdims=True).clip(0.01)),
    "weights are ignored": _of(data_attn_weight=np.ones_like),
    "weights are those of the next point": _of(data_attn_weight=lambda weights: np.roll(weights, 1, axis=4)),
    "locations are of points and levels": _of(data_sampling_loc=lambda at: at.swapaxes(3, 4).reshape(at.shape)),
    "the first level alone counts": _of(data_attn_weight=lambda own: own * (np.arange(own.shape[3]) < 1)[:, None]),
    "the first point alone counts": _of(data_attn_weight=lambda own: own * (np.arange(own.shape[4]) < 1)),
    "level starts are ignored": _of(data_level_start_index=np.zeros_like),
    "level starts are multiplied twice": as_read(reference, _scaled_starts),
    "data_value is [B, M, K, C]": _of(data_value=lambda v: v.reshape(np.take(v.shape, (0, 2, 1, 3))).swapaxes(1, 2)),
    "the head is that of the query's number": _head_of_query,
    "every batch has the maps of batch 0": _of(data_value=lambda values: np.broadcast_to(values[:1], values.shape)),
    "a step of im2col_step has the maps of its first batch": as_read(reference, _steps_alike),
}  # fmt: skip


# One element as §3.2 defines it.
def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """Sample after sample in fractions; IEEE where a pixel or a weight is not finite."""
    if call.tensor("data_attn_weight").desc.is_empty:
        return {"data_col": lambda *_: Fraction(0)}
    values, shapes, starts, locations, weights = call.arrays(*INPUTS)

    def data_col(batch: int, query: int, head: int, channel: int) -> Fraction | float:
        total: Fraction | float = Fraction(0)
        for level, point in np.ndindex(*weights.shape[3:]):
            height, width = (int(size) for size in shapes[level])
            at = locations[batch, query, head, level, point]
            x, y = (Fraction(float(one)) * size - Fraction(1, 2) for one, size in zip(at, (width, height), strict=True))
            if not (-1 < x < width and -1 < y < height):
                continue
            sample: Fraction | float = Fraction(0)
            for row in (floor(y), floor(y) + 1):
                for column in (floor(x), floor(x) + 1):
                    if 0 <= row < height and 0 <= column < width:
                        pixel = values[batch, starts[level] + row * width + column, head, channel]
                        sample = sample + fraction(pixel) * (1 - abs(y - row)) * (1 - abs(x - column))
            total = total + fraction(weights[batch, query, head, level, point]) * sample
        return total

    return {"data_col": data_col}


# The kernel that the numpy backend runs: §3.1's loop over samples in float32, for many queries and heads at a time.

_SUMS: Final = 1 << 14


def kernel(call: OpCall) -> Status:
    """Check the call, then add up level by level, point by point."""
    if (early := first_status(_refusals(call))) is not None:
        return early
    col = call.array("data_col")
    col[...] = 0
    if 0 in call.tensor("data_attn_weight").dims:
        return Status.SUCCESS
    values, shapes, starts, locations, weights = call.arrays(*INPUTS)
    sums, locations, weights = (array.reshape(-1, *array.shape[3:]) for array in (col, locations, weights))
    batches, _, heads = np.indices(col.shape[:3], np.int32).reshape(3, -1)
    pixels = values.reshape(-1, *values.shape[2:])
    with np.errstate(all="ignore"):
        for first in range(0, len(sums), _SUMS):
            some = slice(first, first + _SUMS)
            for level, point in np.ndindex(*weights.shape[1:]):
                places, own = (array[some, level, point].T for array in (locations, weights))
                inside, sample = _sample(
                    pixels, batches[some] * values.shape[1] + starts[level], heads[some], shapes[level].tolist(), places
                )
                sums[some][inside] += own[inside, None] * sample
    return Status.SUCCESS


def _sample(pixels: Array, keys: Array, heads: Array, shape: Any, places: Array) -> tuple[Array, Array]:
    """Which of places [2, S] are inside of maps h × w, and samples of these; pixels [·, M, C] begin at the keys."""
    height, width = shape
    x, y = (place * np.float32(size) - np.float32(0.5) for place, size in zip(places, (width, height), strict=True))
    inside = np.flatnonzero((x > -1) & (x < width) & (y > -1) & (y < height))
    x, y = x[inside], y[inside]
    left, top = np.floor(x), np.floor(y)
    sample = np.zeros((len(inside), pixels.shape[2]), np.float32)
    for right, below in ((0, 0), (1, 0), (0, 1), (1, 1)):
        column, row = left.astype(np.int32) + right, top.astype(np.int32) + below
        # 1 − (x − left) or x − left, and so for y.
        share = np.abs(1 - right - (x - left)) * np.abs(1 - below - (y - top))
        there = np.flatnonzero((column >= 0) & (column < width) & (row >= 0) & (row < height))
        at = inside[there]
        sample[there] += share[there, None] * pixels[keys[at] + (row * width + column)[there], heads[at]]
    return inside, sample


def _refusals(call: OpCall) -> Refusals:
    args = tensors_of(call)
    yield call.handle is None or [len(arg.dims) for arg in args] != [4, 2, 1, 6, 5, 4], Status.BAD_PARAM
    value, shapes, starts, locations, weights, col = args
    (batches, _, heads_, channels), levels = value.dims, shapes.dims[0]
    sampled = (batches, locations.dims[1], heads_, levels, locations.dims[4])
    wanted = [(levels, 2), (levels,), (*sampled, 2), sampled, (*sampled[:3], channels)]
    yield [arg.dims for arg in args[1:]] != wanted, Status.BAD_PARAM
    yield any(arg.desc.is_strided for arg in args), Status.NOT_SUPPORTED
    types = [DType.INT32 if arg in (shapes, starts) else DType.FLOAT for arg in args]
    yield [arg.dtype for arg in args] != types, Status.BAD_PARAM
    yield value.desc.is_large or locations.desc.is_large or col.desc.is_large, Status.NOT_SUPPORTED
    yield 0 in col.dims, Status.BAD_PARAM
    if 0 not in weights.dims:
        step = min(batches, call.param("im2col_step"))
        yield step <= 0 or batches % step != 0 or any(arg.null for arg in args), Status.BAD_PARAM


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Write data_col by torch's grid_sample of every level."""
    import torch

    col = outputs["data_col"].zero_()
    if call.tensor("data_attn_weight").desc.is_empty:
        return
    values, shapes, starts, locations, weights = (inputs[name] for name in INPUTS)
    for level, ((height, width), start) in enumerate(zip(shapes.tolist(), starts.tolist(), strict=True)):
        pixels = values[:, start : start + height * width].permute(0, 2, 3, 1)
        at = locations[:, :, :, level]
        grid = (2 * at - 1).clamp(-9, 9).transpose(1, 2).flatten(0, 1)
        image = pixels.flatten(0, 1).unflatten(2, (height, width))
        sampled = torch.nn.functional.grid_sample(image, grid, align_corners=False).unflatten(0, (len(values), -1))
        size = torch.tensor([width, height], dtype=at.dtype)
        inside = ((at * size - 0.5 > -1) & (at * size - 0.5 < size)).all(-1)
        # Whatever the weight of what is outside.
        terms = torch.where(inside[..., None, :], weights[:, :, :, level, None] * sampled.permute(0, 3, 1, 2, 4), 0)
        col += terms.sum(-1)


def _without_levels(call: OpCall, start: int, stop: int) -> mg.RecipeOutput | None:
    # Levels go with their pixels, which does not follow from the axes.
    values, shapes, starts, locations, weights = call.arrays(*INPUTS)
    left = without_rows(shapes, start, stop)
    if not len(left):
        return None
    first, last = np.append(starts, values.shape[1])[[start, stop]]
    sampled = (without_rows(array, start, stop, 3) for array in (locations, weights))
    values = without_rows(values, first, last, 1)
    return changed(call, dict(zip(INPUTS, (values, left, find_starts(left), *sampled), strict=True)))


OPERATOR = mg.Operator(
    name="ms_deform_attn_forward",
    op_type=("MS_DEFORM_ATTN_FORWARD", 16005),
    summary="Adds up, for every query and head, weighted bilinear samples of maps of several levels.",
    inputs=(
        mg.TensorSpec("data_value", "[B, K, M, C]", (DType.FLOAT,), None),
        mg.TensorSpec("data_spatial_shapes", "[L, 2]: h, w", (DType.INT32,), None),
        mg.TensorSpec("data_level_start_index", "[L]", (DType.INT32,), None),
        mg.TensorSpec("data_sampling_loc", "[B, Q, M, L, P, 2]: x, y", (DType.FLOAT,), None),
        mg.TensorSpec("data_attn_weight", "[B, Q, M, L, P]", (DType.FLOAT,), None),
    ),
    # §1.5.1 allows ten times the error of a GPU; ruling: 5e-5 up to maps of 256, and equality on lattices.
    outputs=(mg.OutputSpec("data_col", "[B, Q, M, C]", {DType.FLOAT: mg.diff1_and_diff2(5e-5)}, None),),
    params=mg.ParamMessage(
        "ms_deform_attn_forward_param", 16005, "MsDeformAttnForwardParam", (ParamField("im2col_step", 1, default=64),)
    ),
    axes={
        "batches": mg.axis("B", of="data_value"),
        "heads": mg.axis("M", of="data_value"),
        "channels": mg.axis("C", of="data_value"),
        "levels": mg.axis("L", of="data_spatial_shapes"),
        "queries": mg.axis("Q", of="data_sampling_loc"),
        "points": mg.axis("P", of="data_sampling_loc"),
    },
    checks=CHECKS,
    reference=reference,
    bound=bound,
    precondition=precondition,
    left_open={"undefined": find_unruled, "subnormal": left_open.find_subnormal},
    theory=theory,
    kernel=kernel,
    suspects=SUSPECTS,
    reductions={"levels": Reduction(lambda call: call.tensor("data_spatial_shapes").dims[0], _without_levels)},
    c_api=c_api.c_function("mluOpMsDeformAttnForward"),
    exact=elements,
    torch_kernel=torch_kernel,
)
