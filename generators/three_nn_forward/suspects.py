"""Mistakes that kernels make about distances, equal ones and batches."""

from collections.abc import Callable, Mapping

import numpy as np

from mluops_gtest.authoring import Array, OpCall
from mluops_gtest.authoring.suspects import Suspect, as_read, with_inputs

from .reference import reference


def _roots(call: OpCall) -> Mapping[str, Array]:
    outputs = reference(call).outputs
    return {"dist2": np.sqrt(outputs["dist2"]), "idx": outputs["idx"]}


def _last_of_equals(call: OpCall) -> Mapping[str, Array]:
    known = call.array("known")
    outputs = reference(with_inputs(call, known=np.ascontiguousarray(known[:, ::-1]))).outputs
    found = np.isfinite(outputs["dist2"])
    return {"dist2": outputs["dist2"], "idx": np.where(found, known.shape[1] - 1 - outputs["idx"], 0).astype("<i4")}


def _by_index(call: OpCall) -> Mapping[str, Array]:
    outputs = reference(call).outputs
    # Missing neighbours stay behind.
    order = np.argsort(np.where(np.isfinite(outputs["dist2"]), outputs["idx"], np.iinfo(np.int32).max), axis=-1)
    return {name: np.take_along_axis(array, order, axis=-1) for name, array in outputs.items()}


def _through_batches(call: OpCall) -> Mapping[str, Array]:
    outputs = reference(call).outputs
    batches, points, _ = call.tensor("known").dims
    first = (np.arange(batches, dtype="<i4") * points)[:, None, None]
    return {"dist2": outputs["dist2"], "idx": outputs["idx"] + np.where(np.isfinite(outputs["dist2"]), first, 0)}


def _within_tiles(call: OpCall) -> Mapping[str, Array]:
    outputs = reference(call).outputs
    return {"dist2": outputs["dist2"], "idx": outputs["idx"] % 64}


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
    """A point at NaN is no neighbour."""

    def changed(cloud: Array) -> Array:
        points = np.arange(cloud.shape[1]) == index % cloud.shape[1]
        return np.where(points[:, None], cloud.dtype.type(np.nan), cloud)

    return changed


SUSPECTS = {
    "the roots are taken of squared distances": _roots,
    "of equal distances the highest index comes first": _last_of_equals,
    "the three neighbours are ordered by index": _by_index,
    "indices count through all batches": _through_batches,
    "every batch searches the known points of batch 0": _changed(_first_batch, "known"),
    "every batch has the unknown points of batch 0": _changed(_first_batch, "unknown"),
    "known is read as [B, 3, M]": _changed(_axes_first, "known"),
    "unknown is read as [B, 3, N]": _changed(_axes_first, "unknown"),
    "indices count within a tile of 64": _within_tiles,
    "x is ignored": _changed(_without_axis(0), "unknown", "known"),
    "y is ignored": _changed(_without_axis(1), "unknown", "known"),
    "z is ignored": _changed(_without_axis(2), "unknown", "known"),
    "the first known point is missing": _changed(_without_point(0), "known"),
    "the last known point is missing": _changed(_without_point(-1), "known"),
}
