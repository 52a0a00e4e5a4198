"""How kernels misplace samples, misread weights and look in the wrong place; every suspect is a mutant, too."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import Array, Baseline, OpCall
from mluops_gtest.authoring.suspects import Suspect, as_read, misread, with_inputs

from .deformable import DOCUMENT, sums


def _reference(call: OpCall) -> Baseline:
    return Baseline(sums(call))


def _read(**steps: Any) -> Suspect:
    reading = replace(DOCUMENT, **steps)
    return lambda call: sums(call, reading)


def _of(**changes: Callable[[Array], Array]) -> Suspect:
    return as_read(_reference, misread(**changes))


def _with(change: Callable[[OpCall], Mapping[str, Array]]) -> Suspect:
    return as_read(_reference, lambda call: with_inputs(call, **change(call)))


def _starts(change: Callable[[Array, OpCall], Array]) -> Suspect:
    return _with(lambda call: {"data_level_start_index": change(call.array("data_level_start_index"), call)})


def _steps_alike(call: OpCall) -> Mapping[str, Array]:
    step, values = call.param("im2col_step"), call.array("data_value")
    return {"data_value": values[np.arange(len(values)) // min(step, len(values)) * min(step, len(values))]}


def _head_of_query(call: OpCall) -> Mapping[str, Array]:
    values = call.array("data_value")
    col = np.empty(call.tensor("data_col").dims, np.float32)
    for head in range(values.shape[2]):
        read = with_inputs(call, data_value=np.repeat(values[:, :, head : head + 1], values.shape[2], axis=2))
        col[:, head :: values.shape[2]] = sums(read)["data_col"][:, head :: values.shape[2]]
    return {"data_col": col}


def _only(axis_number: int, index: int, *, kept: bool) -> Callable[[Array], Array]:
    """Weights of one level or point alone, or of all others."""

    def changed_weights(weights: Array) -> Array:
        here = np.zeros(weights.shape, bool)
        here[(slice(None),) * axis_number + (index,)] = True
        return np.where(here == kept, weights, np.float32(0))

    return changed_weights


def _renormalised(weights: Array) -> Array:
    total = weights.sum(axis=(3, 4), keepdims=True)
    whole: Array = np.divide(weights, total, out=weights.copy(), where=total != 0)
    return whole


def _same_row(array: Array) -> Array:
    return np.repeat(array[:1], len(array), axis=0)


SUSPECTS: Final = {
    "x and y are exchanged": _of(data_sampling_loc=lambda at: at[..., ::-1]),
    "shapes are w, h": _of(data_spatial_shapes=lambda shapes: shapes[:, ::-1]),
    "half a pixel is not subtracted": _read(locate=lambda at, size: at * size),
    "half a pixel is added": _read(locate=lambda at, size: at * size + 0.5),
    "corners are aligned": _read(locate=lambda at, size: at * (size - 1)),
    "locations are in [−1, 1]": _read(locate=lambda at, size: ((at + 1) * size - 1) / 2),
    "locations are pixels": _read(locate=lambda at, _: at),
    "the border is repeated outside": _read(clamped=True),
    "locations are clamped to the map": _read(locate=lambda at, size: np.clip(at * size - 0.5, 0, size - 1)),
    "samples below 0 are skipped": _read(inside=lambda at, size: (at >= 0) & (at < size)),
    "samples beyond the last pixel are skipped": _read(inside=lambda at, size: (at > -1) & (at <= size - 1)),
    "places are rounded towards 0": _read(floor=np.trunc),
    "the nearest pixel is taken": _read(part=np.rint),
    "the pixel before is taken": _read(part=np.zeros_like),
    "interpolation weights are exchanged": _read(part=lambda part: 1 - part),
    "lw and lh are exchanged": _read(swapped=True),
    "what is outside is multiplied with 0": _read(spread=True),
    "weights are divided by their sum": _of(data_attn_weight=_renormalised),
    "weights are ignored": _of(data_attn_weight=np.ones_like),
    "weights have no sign": _of(data_attn_weight=np.abs),
    "weights are those of the next point": _of(data_attn_weight=lambda weights: np.roll(weights, 1, axis=4)),
    "weights are those of the next level": _of(data_attn_weight=lambda weights: np.roll(weights, 1, axis=3)),
    "weights are of points and levels": _of(data_attn_weight=lambda own: own.swapaxes(3, 4).reshape(own.shape)),
    "locations are of points and levels": _of(data_sampling_loc=lambda at: at.swapaxes(3, 4).reshape(at.shape)),
    "the first level alone counts": _of(data_attn_weight=_only(3, 0, kept=True)),
    "the last level is left out": _of(data_attn_weight=_only(3, -1, kept=False)),
    "the first point alone counts": _of(data_attn_weight=_only(4, 0, kept=True)),
    "the last point is left out": _of(data_attn_weight=_only(4, -1, kept=False)),
    "all points are the first": _of(data_sampling_loc=lambda at: np.repeat(at[..., :1, :], at.shape[4], axis=4)),
    "level starts are ignored": _starts(lambda starts, _: np.zeros_like(starts)),
    "level starts are multiplied twice": _starts(
        lambda starts, call: starts * np.int32(np.prod(call.tensor("data_value").dims[2:]) % 2**15)
    ),
    "level starts begin with the first size": _starts(
        lambda _, call: np.cumsum(call.array("data_spatial_shapes").prod(axis=1)).astype("<i4")
    ),
    "all levels have the first shape": _of(data_spatial_shapes=_same_row),
    "data_value is [B, M, K, C]": _of(data_value=lambda values: values.reshape(
        values.shape[0], values.shape[2], values.shape[1], values.shape[3]
    ).swapaxes(1, 2)),
    "data_value is [B, K, C, M]": _of(data_value=lambda values: values.reshape(
        *values.shape[:2], values.shape[3], values.shape[2]
    ).swapaxes(2, 3)),
    "every head is head 0": _of(data_value=lambda values: np.repeat(values[:, :, :1], values.shape[2], axis=2)),
    "the head is that of the query": _head_of_query,
    "every batch has the maps of batch 0": _of(data_value=_same_row),
    "every batch has the locations of batch 0": _of(data_sampling_loc=_same_row),
    "a step of im2col_step has the maps of its first batch": _with(_steps_alike),
}  # fmt: skip
