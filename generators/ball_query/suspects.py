"""Mistakes that kernels make about the shell, about which points are listed, and about batches."""

from collections.abc import Callable, Mapping

import numpy as np

from mluops_gtest.authoring import Array, OpCall
from mluops_gtest.authoring.suspects import Suspect, as_read, with_inputs, with_params

from .._shared.points import squared_distances
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


def _from_the_last(call: OpCall) -> Mapping[str, Array]:
    xyz = call.array("xyz")
    idx = reference(with_inputs(call, xyz=np.ascontiguousarray(xyz[:, ::-1]))).outputs["idx"]
    for batch, rows, inside in shells(call):
        met = inside.any(axis=1)
        idx[batch, rows][met] = xyz.shape[1] - 1 - idx[batch, rows][met]
    return {"idx": idx}


def _changed(change: Callable[[Array], Array], *names: str) -> Suspect:
    """The clouds of these names as another function sees them."""
    return as_read(
        reference,
        lambda call: with_inputs(call, **{name: np.ascontiguousarray(change(call.array(name))) for name in names}),
    )


def _first_batch(cloud: Array) -> Array:
    return np.broadcast_to(cloud[:1], cloud.shape)


def _axes_first(cloud: Array) -> Array:
    return cloud.reshape(cloud.shape[0], 3, cloud.shape[1]).swapaxes(1, 2)


def _without_axis(axis: int) -> Callable[[Array], Array]:
    return lambda cloud: np.where(np.arange(3) == axis, cloud.dtype.type(0), cloud)


def _without_point(index: int) -> Callable[[Array], Array]:
    """A point at NaN is in no shell."""

    def changed(cloud: Array) -> Array:
        points = np.arange(cloud.shape[1]) == index % cloud.shape[1]
        return np.where(points[:, None], cloud.dtype.type(np.nan), cloud)

    return changed


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
    "every batch searches the points of batch 0": _changed(_first_batch, "xyz"),
    "every batch has the centres of batch 0": _changed(_first_batch, "new_xyz"),
    "xyz is read as [B, 3, N]": _changed(_axes_first, "xyz"),
    "new_xyz is read as [B, 3, M]": _changed(_axes_first, "new_xyz"),
    "x is ignored": _changed(_without_axis(0), "xyz", "new_xyz"),
    "y is ignored": _changed(_without_axis(1), "xyz", "new_xyz"),
    "z is ignored": _changed(_without_axis(2), "xyz", "new_xyz"),
    "the first point is missing": _changed(_without_point(0), "xyz"),
    "the last point is missing": _changed(_without_point(-1), "xyz"),
    "points are listed from the last one on": _from_the_last,
    "indices count within a tile of 64": lambda call: {"idx": reference(call).outputs["idx"] % 64},
    "points at the centre are outside": _by_shell(lambda d, low, high: (d > 0) & (d >= low) & (d < high)),
    "max_radius is ignored": _by_shell(lambda d, low, _: (d == 0) | ((d >= low) & (d < np.inf))),
}
