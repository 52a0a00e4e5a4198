"""ms_deform_attn_forward: for every query and head a weighted sum of bilinear samples of maps of several levels."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import floor
from typing import Any, Final

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
    RecipeOutput,
    Status,
    TensorSpec,
    Theory,
    axis,
    checks,
    diff1_and_diff2,
)
from mluops_gtest.authoring.c_api import HANDLE, c_function, scalar, tensor
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction
from mluops_gtest.authoring.left_open import find_subnormal
from mluops_gtest.authoring.reductions import Reduction, changed, without_rows
from mluops_gtest.authoring.rows import blended
from mluops_gtest.authoring.suspects import Suspect, as_read, misread, with_inputs

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

    locate: Callable[[Array, int], Array] = lambda at, size: at * size - 0.5
    # §3.2: strictly between −1 and the size.
    inside: Callable[[Array, int], Array] = lambda at, size: (at > -1) & (at < size)
    floor: Callable[[Array], Array] = np.floor
    part: Callable[[Array], Array] = lambda part: part
    # Pixels outside count 0 (§3.1); or the nearest one stands for them.
    clamped: bool = False
    # What is outside is multiplied with 0, not left out.
    spread: bool = False
    swapped: bool = False
    moved: float = 0.0

    def along(self, at: Array, size: int) -> tuple[Array, Array, Array]:
        """Of samples on an axis of that many pixels: which are inside, the pixel before them, how far behind it."""
        place = self.locate(at.astype(np.float64), size) + self.moved
        inside = self.inside(place, size)
        place = np.where(inside, place, 0.0)
        low = self.floor(place)
        return inside, low.astype(np.int64), self.part(place - low)

    def samples(self, call: OpCall, batch: int, head: int) -> tuple[Array, Array]:
        """[4·L·P, Q]: four cells of data_value per sample, or the one behind them, and the weights of each."""
        shapes, starts = call.array("data_spatial_shapes"), call.array("data_level_start_index")
        keys = call.tensor("data_value").dims[1]
        locations, weights = (call.array(name)[batch, :, head] for name in INPUTS[3:])
        queries, levels, points = weights.shape
        cells = np.empty((levels, points, 4, queries), np.int32)
        factors = np.empty(cells.shape)
        for level, ((height, width), start) in enumerate(zip(shapes.tolist(), starts.tolist(), strict=True)):
            own = weights[:, level].T.astype(np.float64)
            # §3.1: the last axis is x, y.
            x_inside, left, x_part = self.along(locations[:, level, :, 0].T, width)
            y_inside, top, y_part = self.along(locations[:, level, :, 1].T, height)
            parts = (y_part, x_part) if self.swapped else (x_part, y_part)
            outside = np.multiply(own, 0.0) if self.spread else 0.0
            for number, (right, below) in enumerate(((0, 0), (1, 0), (0, 1), (1, 1))):
                column, row, is_there = left + right, top + below, x_inside & y_inside
                if not self.clamped:
                    is_there &= (column >= 0) & (column < width) & (row >= 0) & (row < height)
                cell = start + np.clip(row, 0, height - 1) * width + np.clip(column, 0, width - 1)
                factor = (parts[0] if right else 1 - parts[0]) * (parts[1] if below else 1 - parts[1])
                cells[level, :, number] = np.where(is_there | self.spread, cell, keys)
                factors[level, :, number] = np.where(is_there, own * factor, outside)
        return cells.reshape(-1, queries), factors.reshape(-1, queries)


DOCUMENT: Final = Reading()


def heads(call: OpCall) -> Iterator[tuple[int, int, Array]]:
    """Every batch and head with its float64 values [C, K + 1], of which the last is 0."""
    values = call.array("data_value")
    for batch in range(values.shape[0]):
        for head in range(values.shape[2]):
            padded = np.zeros((values.shape[3], values.shape[1] + 1))
            padded[:, :-1] = values[batch, :, head].T
            yield batch, head, padded


def sums(call: OpCall, reading: Reading = DOCUMENT) -> Mapping[str, Array]:
    """data_col by that reading, rounded once; empty sums are 0."""
    col = np.zeros(call.tensor("data_col").dims, np.float32)
    if not call.tensor("data_attn_weight").desc.is_empty:
        with np.errstate(all="ignore"):
            for batch, head, values in heads(call):
                cells, weights = reading.samples(call, batch, head)
                col[batch, :, head] = blended(values, np.clip(cells, 0, values.shape[1] - 1), weights).T
    return {"data_col": col}


def precondition(call: OpCall) -> str | None:
    """Levels lie one behind the other and fill data_value (§1.4); locations are finite (§1.2)."""
    if call.tensor("data_attn_weight").desc.is_empty:
        return None
    shapes, starts = call.arrays("data_spatial_shapes", "data_level_start_index")
    pixels = shapes.astype(np.int64).prod(axis=1)
    if (shapes < 1).any():
        return "a level has no pixels"
    # §1.4's sum up to l = i is one up to the level before: the first level begins at 0.
    if (starts != np.cumsum(pixels) - pixels).any():
        return "a level does not begin where the one before it ends"
    if pixels.sum() != call.tensor("data_value").dims[1]:
        return "the levels have not as many pixels as data_value has keys"
    return None if np.isfinite(call.array("data_sampling_loc")).all() else "data_sampling_loc has NaN or an infinity"


_NEAR: Final = 1e-3


def find_unruled(call: OpCall, _: Baseline) -> str | None:
    """An infinite weight inside depends on the order of products, 0 · Inf on how a place is rounded."""
    if call.tensor("data_attn_weight").desc.is_empty:
        return None
    values, weights = call.arrays("data_value", "data_attn_weight")
    strange: Array = np.logical_not(np.isfinite(values).all(axis=3))
    if np.isfinite(weights).all() and not strange.any():
        return None
    beside = [replace(DOCUMENT, moved=by) for by in (-_NEAR, 0.0, _NEAR)]
    with np.errstate(all="ignore"):
        for batch, head in np.ndindex(len(values), values.shape[2]):
            own = np.repeat(weights[batch, :, head].reshape(weights.shape[1], -1).T, 4, axis=0)
            odd: Array = np.append(strange[batch, :, head], False)
            sampled = []
            for reading in beside:
                cells, products = reading.samples(call, batch, head)
                inside = cells < values.shape[1]
                sampled.append(inside.reshape(-1, 4, own.shape[1]).any(axis=1))
                if np.any(inside & np.isinf(own)):
                    return "a sample inside has an infinite weight"
                if np.any(odd[cells] & (np.abs(products) <= 2 * _NEAR * np.abs(own)) & (own != 0)):
                    return "a pixel that is not finite has an interpolation weight of 0, or nearly"
            if np.any(np.isnan(own[::4]) & (sampled[0] != sampled[2])):
                return "a sample on the border has a NaN for its weight"
    return None


def reference(call: OpCall) -> Baseline:
    """§3.1's samples; the attention weights are used as they are, whatever their sum (§1.2 speaks of the network)."""
    return Baseline(sums(call))


# What a float evaluation may be off.


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
        for batch, head, values in heads(call):
            cells, products = DOCUMENT.samples(call, batch, head)
            size = np.abs(values)
            largest = np.where(np.isfinite(size), size, 0).max(axis=1)
            magnitude[batch, :, head] = (
                blended(size, cells, np.abs(products)) + largest[:, None] * moved[batch, :, head]
            ).T
    return {"data_col": Bound(np.where(np.isfinite(magnitude), magnitude, 0), roundings)}


def theory(call: OpCall) -> Theory:
    """Per sample 10 operations for place and weights, 9 a channel; each pixel at most once."""
    batches, keys, count, channels = call.tensor("data_value").dims
    samples = call.tensor("data_attn_weight").desc.count
    touched = sum(call.tensor(name).desc.nbytes for name in (*INPUTS[1:], "data_col"))
    return Theory(
        touched + 4 * min(4 * samples * channels, batches * keys * count * channels), samples * (9 * channels + 10)
    )


# Mistakes that kernels make: where samples are, whose weights count, which map is read.


def _read(**steps: Any) -> Suspect:
    reading = replace(DOCUMENT, **steps)
    return lambda call: sums(call, reading)


def _of(**changes: Callable[[Array], Array]) -> Suspect:
    return as_read(reference, misread(**changes))


def _starts(change: Callable[[Array, OpCall], Array]) -> Suspect:
    def read(call: OpCall) -> OpCall:
        starts = change(call.array("data_level_start_index"), call).astype("<i4")
        return with_inputs(call, data_level_start_index=starts)

    return as_read(reference, read)


def _steps_alike(call: OpCall) -> OpCall:
    values = call.array("data_value")
    step = min(call.param("im2col_step"), len(values))
    return with_inputs(call, data_value=values[np.arange(len(values)) // step * step])


def _first(axis_number: int) -> Callable[[Array], Array]:
    """Everything along that axis is as the first."""
    return lambda array: np.repeat(array.take([0], axis_number), array.shape[axis_number], axis_number)


SUSPECTS: Final = {
    "x and y are exchanged": _of(data_sampling_loc=lambda at: at[..., ::-1]),
    "shapes are w, h": _of(data_spatial_shapes=lambda shapes: shapes[:, ::-1]),
    "half a pixel is not subtracted": _read(locate=lambda at, size: at * size),
    "corners are aligned": _read(locate=lambda at, size: at * (size - 1)),
    "locations are in [−1, 1]": _read(locate=lambda at, size: ((at + 1) * size - 1) / 2),
    "the border is repeated outside": _read(clamped=True),
    "samples below 0 are skipped": _read(inside=lambda at, size: (at >= 0) & (at < size)),
    "samples beyond the last pixel are skipped": _read(inside=lambda at, size: (at > -1) & (at <= size - 1)),
    "places are rounded towards 0": _read(floor=np.trunc),
    "the nearest pixel is taken": _read(part=np.rint),
    "lw and lh are exchanged": _read(swapped=True),
    "what is outside is multiplied with 0": _read(spread=True),
    "weights are divided by their sum": _of(data_attn_weight=lambda w: w / w.sum((3, 4), keepdims=True).clip(0.01)),
    "weights are ignored": _of(data_attn_weight=np.ones_like),
    "weights are those of the next point": _of(data_attn_weight=lambda weights: np.roll(weights, 1, axis=4)),
    "locations are of points and levels": _of(data_sampling_loc=lambda at: at.swapaxes(3, 4).reshape(at.shape)),
    "the first level alone counts": _of(data_attn_weight=lambda own: own * (np.arange(own.shape[3]) < 1)[:, None]),
    "the last level is left out": _of(data_attn_weight=lambda own: own * (np.arange(own.shape[3])[::-1] > 0)[:, None]),
    "the first point alone counts": _of(data_attn_weight=lambda own: own * (np.arange(own.shape[4]) < 1)),
    "all points are the first": _of(data_sampling_loc=_first(4)),
    "level starts are ignored": _of(data_level_start_index=np.zeros_like),
    "level starts are multiplied twice": _starts(lambda at, call: at * np.prod(call.tensor("data_value").dims[2:])),
    "level starts begin with the first size": _starts(lambda at, call: at + call.array("data_spatial_shapes").prod(1)),
    "data_value is [B, M, K, C]": _of(data_value=lambda v: v.reshape(np.take(v.shape, (0, 2, 1, 3))).swapaxes(1, 2)),
    "every head is head 0": _of(data_value=_first(2)),
    "every batch has the maps of batch 0": _of(data_value=_first(0)),
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


# The kernel that the numpy backend runs: §3.1's loop over samples in float32, of all batches, queries and heads.


def kernel(call: OpCall) -> Status:
    """Check the call, then add up level by level, point by point."""
    answer = _answer_of_checks(call)
    if answer is not None:
        return answer
    col = call.array("data_col")
    col[...] = 0
    if 0 in call.tensor("data_attn_weight").dims:
        return Status.SUCCESS
    values, shapes, starts, locations, weights = call.arrays(*INPUTS)
    with np.errstate(all="ignore"):
        for batch, level, point in np.ndindex(len(values), *weights.shape[3:]):
            height, width = shapes[level]
            image = values[batch, starts[level] : starts[level] + height * width]
            at, weight = (array[batch, :, :, level, point] for array in (locations, weights))
            _add_sample(col[batch], image, (height, width), at, weight)
    return Status.SUCCESS


def _add_sample(col: Array, image: Array, shape: tuple[int, int], at: Array, weight: Array) -> None:
    """col [Q, M, C] += weight · sample of image [H·W, M, C] at places [Q, M, 2]."""
    height, width = shape
    x = at[..., 0] * np.float32(width) - np.float32(0.5)
    y = at[..., 1] * np.float32(height) - np.float32(0.5)
    query, head = np.nonzero((y > -1) & (x > -1) & (y < height) & (x < width))
    x, y = x[query, head], y[query, head]
    left, top = np.floor(x).astype(np.int64), np.floor(y).astype(np.int64)
    right_part, lower_part = x - left.astype(np.float32), y - top.astype(np.float32)
    sample = np.zeros((len(query), col.shape[2]), np.float32)
    one = np.float32(1)
    for row, by_row in ((top, one - lower_part), (top + 1, lower_part)):
        for column, by_column in ((left, one - right_part), (left + 1, right_part)):
            there = np.flatnonzero((row >= 0) & (row <= height - 1) & (column >= 0) & (column <= width - 1))
            pixels = image[row[there] * width + column[there], head[there]]
            sample[there] += (by_row * by_column)[there, None] * pixels
    col[query, head] += weight[query, head][:, None] * sample


def _answer_of_checks(call: OpCall) -> Status | None:
    args = [*(call.inputs[name] for name in INPUTS), call.outputs["data_col"]]
    present = [arg for arg in args if arg is not None]
    if call.handle is None or [len(arg.dims) for arg in present] != [4, 2, 1, 6, 5, 4]:
        return Status.BAD_PARAM
    value, shapes, starts, locations, weights, col = present
    (batches, _, heads_, channels), levels = value.dims, shapes.dims[0]
    queries, points = locations.dims[1], locations.dims[4]
    sampled = (batches, queries, heads_, levels, points)
    wanted = ((levels, 2), (levels,), (*sampled, 2), sampled, (*sampled[:3], channels))
    if tuple(arg.dims for arg in present[1:]) != wanted:
        return Status.BAD_PARAM
    if any(arg.desc.is_strided for arg in present):
        return Status.NOT_SUPPORTED
    if any(arg.dtype is not (DType.INT32 if arg in (shapes, starts) else DType.FLOAT) for arg in present):
        return Status.BAD_PARAM
    if value.desc.is_large or locations.desc.is_large or col.desc.is_large:
        return Status.NOT_SUPPORTED
    if 0 in col.dims:
        return Status.BAD_PARAM
    if 0 in weights.dims:
        return None
    step = min(batches, call.param("im2col_step"))
    refused = step <= 0 or batches % step or any(arg.null for arg in present)
    return Status.BAD_PARAM if refused else None


# With torch: grid_sample of every level.


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Write data_col."""
    import torch

    col = outputs["data_col"].zero_()
    if call.tensor("data_attn_weight").desc.is_empty:
        return
    values, shapes, starts, locations, weights = (inputs[name] for name in INPUTS)
    for level, ((height, width), start) in enumerate(zip(shapes.tolist(), starts.tolist(), strict=True)):
        pixels = values[:, start : start + height * width].permute(0, 2, 3, 1)
        image = pixels.flatten(0, 1).unflatten(2, (height, width))
        grid = 2 * locations[:, :, :, level].transpose(1, 2).flatten(0, 1) - 1
        size = torch.tensor([width, height], dtype=grid.dtype)
        place = locations[:, :, :, level] * size - 0.5
        inside = ((place > -1) & (place < size)).all(-1)
        sampled = torch.nn.functional.grid_sample(image, grid.clamp(-9, 9), align_corners=False)
        own = weights[:, :, :, level, None]
        terms = own * sampled.unflatten(0, col.shape[::2][:1] + col.shape[2:3]).permute(0, 3, 1, 2, 4)
        # Whatever the weight of what is outside.
        col += torch.where(inside[..., None, :], terms, 0).sum(-1)


# How calls become smaller, beside what follows from the axes: levels go with their pixels.


def _without_levels(call: OpCall, start: int, stop: int) -> RecipeOutput | None:
    shapes = call.array("data_spatial_shapes")
    ends = np.cumsum(shapes.prod(axis=1))
    left = without_rows(shapes, start, stop)
    if not len(left):
        return None
    first, last = (int(ends[at - 1]) if at else 0 for at in (start, stop))
    pixels = left.prod(axis=1)
    return changed(
        call,
        {
            "data_value": without_rows(call.array("data_value"), first, last, 1),
            "data_spatial_shapes": left,
            "data_level_start_index": (np.cumsum(pixels) - pixels).astype("<i4"),
            **{name: without_rows(call.array(name), start, stop, 3) for name in INPUTS[3:]},
        },
    )


OPERATOR = Operator(
    name="ms_deform_attn_forward",
    released_name="ms_deform_attn_forward",
    op_type=("MS_DEFORM_ATTN_FORWARD", 16005),
    summary="Adds up, for every query and head, weighted bilinear samples of maps of several levels.",
    inputs=(
        TensorSpec("data_value", "[B, K, M, C]", (DType.FLOAT,), None),
        TensorSpec("data_spatial_shapes", "[L, 2]: h, w", (DType.INT32,), None),
        TensorSpec("data_level_start_index", "[L]", (DType.INT32,), None),
        TensorSpec("data_sampling_loc", "[B, Q, M, L, P, 2]: x, y", (DType.FLOAT,), None),
        TensorSpec("data_attn_weight", "[B, Q, M, L, P]", (DType.FLOAT,), None),
    ),
    # §1.5.1 allows ten times the error of a GPU; ruling: 5e-5 up to maps of 256, and equality on lattices.
    outputs=(OutputSpec("data_col", "[B, Q, M, C]", {DType.FLOAT: diff1_and_diff2(5e-5)}, None),),
    params=ParamMessage(
        "ms_deform_attn_forward_param", 16005, "MsDeformAttnForwardParam", (ParamField("im2col_step", 1, default=64),)
    ),
    axes={
        "batches": axis("B", of="data_value"),
        "heads": axis("M", of="data_value"),
        "channels": axis("C", of="data_value"),
        "levels": axis("L", of="data_spatial_shapes"),
        "queries": axis("Q", of="data_sampling_loc"),
        "points": axis("P", of="data_sampling_loc"),
    },
    checks=CHECKS,
    reference=reference,
    bound=bound,
    precondition=precondition,
    left_open={"undefined": find_unruled, "subnormal": find_subnormal},
    theory=theory,
    kernel=kernel,
    suspects=SUSPECTS,
    reductions={"levels": Reduction(lambda call: call.tensor("data_spatial_shapes").dims[0], _without_levels)},
    c_api=c_function(
        "mluOpMsDeformAttnForward",
        arguments=(HANDLE, *tensor(*INPUTS), *scalar("im2col_step"), *tensor("data_col")),
    ),
    exact=elements,
    torch_kernel=torch_kernel,
)
