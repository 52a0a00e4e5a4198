"""Mistakes that kernels make about the shell, about which points are listed, and about batches."""

from collections.abc import Callable, Mapping

import numpy as np

from mluops_gtest.authoring import Array, OpCall
from mluops_gtest.authoring.points import squared_distances
from mluops_gtest.authoring.suspects import Suspect, as_read, with_inputs, with_params

from .reference import first_inside, reference, shells


def _by_shell(holds: Callable[[Array, np.float32, np.float32], Array]) -> Suspect:
    """The first points for which that holds of the squared distance and the squared radii."""

    def outputs(call: OpCall) -> Mapping[str, Array]:
        idx = np.zeros(call.tensor("idx").dims, "<i4")
        for batch, rows, inside in shells(call, holds):
            idx[batch, rows] = first_inside(inside, idx.shape[2])
        return {"idx": idx}

    return outputs


def _filled_with_0(call: OpCall) -> Mapping[str, Array]:
    idx = np.zeros(call.tensor("idx").dims, "<i4")
    for batch, rows, inside in shells(call):
        first = first_inside(inside, idx.shape[2])
        idx[batch, rows] = np.where(np.arange(idx.shape[2]) < inside.sum(axis=1)[:, None], first, 0)
    return {"idx": idx}


def _nearest_first(call: OpCall) -> Mapping[str, Array]:
    idx = np.zeros(call.tensor("idx").dims, "<i4")
    for batch, rows, inside in shells(call):
        distances = squared_distances(call.array("new_xyz")[batch, rows], call.array("xyz")[batch])
        order = np.argsort(np.where(inside, distances, np.inf), axis=1, kind="stable")
        listed = np.take_along_axis(inside, order, axis=1)
        idx[batch, rows] = _padded(np.where(listed, order, order[:, :1]), idx.shape[2])
        idx[batch, rows][~inside.any(axis=1)] = 0
    return {"idx": idx}


def _padded(order: Array, nsample: int) -> Array:
    """The first nsample columns; the first again where there are fewer."""
    missing = max(0, nsample - order.shape[1])
    return np.concatenate([order[:, :nsample], np.repeat(order[:, :1], missing, axis=1)], axis=1)


def _through_batches(call: OpCall) -> Mapping[str, Array]:
    idx = reference(call).outputs["idx"]
    first = np.arange(idx.shape[0], dtype="<i4") * call.tensor("xyz").dims[1]
    for batch, rows, inside in shells(call):
        idx[batch, rows][inside.any(axis=1)] += first[batch]
    return {"idx": idx}


def _first_cloud(call: OpCall) -> OpCall:
    xyz = call.array("xyz")
    return with_inputs(call, xyz=np.ascontiguousarray(np.broadcast_to(xyz[:1], xyz.shape)))


SUSPECTS = {
    "points on the outer sphere are inside": _by_shell(lambda d, low, high: (d == 0) | ((d >= low) & (d <= high))),
    "points on the inner sphere are outside": _by_shell(lambda d, low, high: (d == 0) | ((d > low) & (d < high))),
    "a point at the centre counts only where the shell holds it": _by_shell(
        lambda d, low, high: (d >= low) & (d < high)
    ),
    "min_radius is ignored": as_read(reference, lambda call: with_params(call, min_radius=0.0)),
    "rows are filled up with 0": _filled_with_0,
    "the nearest points are taken, not the first": _nearest_first,
    "indices count through all batches": _through_batches,
    "every batch searches the points of batch 0": as_read(reference, _first_cloud),
}
