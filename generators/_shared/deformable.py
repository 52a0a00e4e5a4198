"""Bilinear samples of maps of several levels, in float64: where they are, what is not ruled, how far floats err."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from mluops_gtest.authoring import Array, Baseline, Bound, OpCall
from mluops_gtest.authoring.rows import blended
from mluops_gtest.authoring.sums import lattice_exponent

INPUTS: Final = (
    "data_value",
    "data_spatial_shapes",
    "data_level_start_index",
    "data_sampling_loc",
    "data_attn_weight",
)


# The samples in float64, of which suspects change a step. One reading is §3.2's.


class Samples(NamedTuple):
    """Of a batch and a head: per sample four cells of data_value or the one behind them, [4·L·P, Q]."""

    cells: Array
    # Products of the attention and the interpolation weight; what is outside has none.
    weights: Array


class Axis(NamedTuple):
    """Of all samples of a level along x or y: whether they are inside, the pixel before them, how far behind it."""

    inside: Array
    low: Array
    part: Array


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

    def along(self, at: Array, size: int) -> Axis:
        """The place of samples on an axis of that many pixels."""
        place = self.locate(at.astype(np.float64), size)
        inside = self.inside(place, size)
        place = np.where(inside, place, 0.0)
        low = self.floor(place)
        return Axis(inside, low.astype(np.int64), self.part(place - low))

    def samples(self, call: OpCall, batch: int, head: int) -> Samples:
        """In the order of levels and points, and of each the four pixels."""
        shapes, starts = call.array("data_spatial_shapes"), call.array("data_level_start_index")
        keys = call.tensor("data_value").dims[1]
        locations, weights = (call.array(name)[batch, :, head] for name in INPUTS[3:])
        queries, levels, points = weights.shape
        cells = np.empty((levels, points, 4, queries), np.int32)
        factors = np.empty(cells.shape)
        for level, ((height, width), start) in enumerate(zip(shapes.tolist(), starts.tolist(), strict=True)):
            own = weights[:, level].T.astype(np.float64)
            # §3.1: the last axis is x, y.
            x, y = (self.along(locations[:, level, :, place].T, size) for place, size in ((0, width), (1, height)))
            parts = (y.part, x.part) if self.swapped else (x.part, y.part)
            for number, (right, below) in enumerate(((0, 0), (1, 0), (0, 1), (1, 1))):
                column, row = x.low + right, y.low + below
                is_there = x.inside & y.inside
                if not self.clamped:
                    is_there &= (column >= 0) & (column < width) & (row >= 0) & (row < height)
                cell = start + np.clip(row, 0, height - 1) * width + np.clip(column, 0, width - 1)
                factor = (parts[0] if right else 1 - parts[0]) * (parts[1] if below else 1 - parts[1])
                outside = np.multiply(own, 0.0) if self.spread else 0.0
                cells[level, :, number] = np.where(is_there | self.spread, cell, keys)
                factors[level, :, number] = np.where(is_there, own * factor, outside)
        return Samples(cells.reshape(-1, queries), factors.reshape(-1, queries))


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
                samples = reading.samples(call, batch, head)
                cells = np.clip(samples.cells, 0, values.shape[1] - 1)
                col[batch, :, head] = blended(values, cells, samples.weights).T
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
    strange = np.logical_not(np.isfinite(values).all(axis=3, keepdims=True))[..., 0]
    if np.isfinite(weights).all() and not strange.any():
        return None

    def moved(by: float) -> Reading:
        return replace(DOCUMENT, locate=lambda at, size: at * size - 0.5 + by)

    beside = [moved(by) for by in (-_NEAR, 0.0, _NEAR)]
    with np.errstate(all="ignore"):
        for batch in range(values.shape[0]):
            for head in range(values.shape[2]):
                found = [reading.samples(call, batch, head) for reading in beside]
                own = np.repeat(weights[batch, :, head].reshape(weights.shape[1], -1).T, 4, axis=0)
                sampled = [one.cells < values.shape[1] for one in found]
                if any((inside & np.isinf(own)).any() for inside in sampled):
                    return "a sample inside has an infinite weight"
                first, _, last = (inside.reshape(-1, 4, own.shape[1]).any(axis=1) for inside in sampled)
                if np.any(np.isnan(own[::4]) & (first != last)):
                    return "a sample on the border has a NaN for its weight"
                odd: Array = np.append(strange[batch, :, head], False)
                tiny = [(np.abs(one.weights) <= 2 * _NEAR * np.abs(own)) & (own != 0) for one in found]
                if any((odd[one.cells] & small).any() for one, small in zip(found, tiny, strict=True)):
                    return "a pixel that is not finite has an interpolation weight of 0, or nearly"
    return None


# What a float evaluation may be off.


def _places(call: OpCall) -> Iterator[tuple[Array, Array]]:
    """By x and y of every level: float64 places [B, Q, M, P], and how far off float ones are, in units of rounding."""
    locations = call.array("data_sampling_loc")
    for level, shape in enumerate(call.array("data_spatial_shapes").tolist()):
        for axis_number, size in enumerate(reversed(shape)):
            at = locations[:, :, :, level, :, axis_number].astype(np.float64)
            place = at * size - 0.5
            # grid_sample, with which mmcv computes on hosts, finds the place from 2·x − 1.
            is_exact = [step.astype(np.float32) == step for step in (at * size, place, 2 * at - 1)]
            off = 2 * np.abs(at * size) + np.abs(place) + size
            if size & (size - 1) == 0:
                off[np.logical_and.reduce(is_exact)] = 0
            # What is far outside contributes nothing, however it is rounded.
            yield place, np.where((place > -2) & (place < size + 1), off, 0.0)


def bound(call: OpCall) -> Mapping[str, Bound]:
    """Four products of three factors per sample, and samples that lie a few roundings beside their places."""
    if call.tensor("data_attn_weight").desc.is_empty:
        return {"data_col": Bound(0.0)}
    values, weights = call.arrays("data_value", "data_attn_weight")
    batches, queries, _, levels, points = weights.shape
    with np.errstate(all="ignore"):
        places = list(_places(call))
        pairs = list(zip(places[::2], places[1::2], strict=True))
        # [B, Q, M, L, P]: how far samples are off, and those that may have other pixels.
        off = np.stack([x[1] + y[1] for x, y in pairs], 3)
        near = [[(np.abs(at - np.rint(at)) <= 2.0**-22 * err) & (err > 0) for at, err in pair] for pair in pairs]
        moved = np.where(np.stack([x | y for x, y in near], 3), off, 0.0) * np.abs(weights)
        is_exact = not off.any()
        unit = 0.0
        if is_exact:
            exponents = [lattice_exponent(values), lattice_exponent(weights)]
            for place, _ in places:
                inside = np.where(np.abs(place) < 2**20, place, 0.0).astype(np.float32)
                exponents.append(min(0, lattice_exponent(inside)))
            unit = 2.0 ** max(-1000, sum(exponents[:2]) + min(exponents[2::2]) + min(exponents[3::2]))
        roundings = 4 * levels * points + 8
        magnitude = np.empty((batches, *call.tensor("data_col").dims[1:]))
        for batch, head, own in heads(call):
            samples = DOCUMENT.samples(call, batch, head)
            extra = np.abs(weights[batch, :, head]) * off[batch, :, head] / roundings
            extra = np.repeat(extra.reshape(queries, -1).T, 4, axis=0)
            size = np.abs(own)
            largest = np.where(np.isfinite(size), size, 0).max(axis=1)
            crossed = moved[batch, :, head].reshape(queries, -1).sum(axis=1) / roundings
            sizes = blended(size, samples.cells, np.abs(samples.weights) + extra) + largest[:, None] * crossed
            magnitude[batch, :, head] = np.where(np.isfinite(sizes), sizes, 0).T
    return {"data_col": Bound(magnitude, roundings, unit)}
