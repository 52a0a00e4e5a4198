"""Mistakes that kernels make where points meet in a cell (§1.4: atomic adds)."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from mluops_gtest.authoring import Array, OpCall
from mluops_gtest.authoring.suspects import Suspect, as_read, with_inputs

from .._shared.products import Terms, lost_terms
from .reference import counted, reference


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
