"""What RoI-aware pooling's backward adds, and how kernels go wrong with it; § is a section of its document.

Every suspect is a mutant, too.
"""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, OpCall
from mluops_gtest.authoring.suspects import Suspect, with_inputs

from .._shared import roiaware as roi
from .._shared.roiaware import Terms


def cells(call: OpCall, name: str) -> Array:
    """[V, …]: a tensor by cell."""
    array = call.array(name)
    return array.reshape(-1, array.shape[-1])


def terms_of_max(call: OpCall, argmax: Array) -> Terms:
    """Where these points [V, C] had the largest features; what is no point is none."""
    points, channels = call.tensor("grad_in").dims
    cell, channel = np.nonzero((argmax >= 0) & (argmax < points))
    grads = cells(call, "grad_out")[cell, channel].astype(np.float64)
    places = argmax[cell, channel].astype(np.int64) * channels + channel
    return Terms(places, grads, np.ones(len(grads), np.int64), (points, channels))


def terms_of_mean(call: OpCall, lists: Array, is_named: Array, divisors: Array) -> Terms:
    """Where these points [V, Q] share the gradients of their cells."""
    dims = call.tensor("grad_in").dims
    cell, place = np.nonzero(is_named & (lists >= 0) & (lists < dims[0]))
    return Terms.of_rows(lists[cell, place], cells(call, "grad_out")[cell], divisors[cell], dims)


def terms(call: OpCall, *, exchanged: bool = False) -> Terms:
    """Of the table of the mode alone, or of that of the other one."""
    if roi.is_max(call) is not exchanged:
        return terms_of_max(call, cells(call, "argmax"))
    lists = cells(call, "pts_idx_of_voxels")
    # Entries behind the count are not read.
    longest = 1 + int(np.clip(lists[:, 0].max(), 0, lists.shape[1] - 1))
    is_named = np.arange(1, longest) <= lists[:, :1]
    return terms_of_mean(call, lists[:, 1:longest], is_named, np.maximum(lists[:, 0], 1))


def sums(call: OpCall, added: Terms) -> Array:
    """grad_in of these terms; +0 where there is none: the operator clears it itself."""
    return added.sums(call.tensor("grad_in").dtype.storage)


def _of_max(change: Callable[[OpCall, Array], Array]) -> Suspect:
    """With other points of the largest features."""

    def wrong(call: OpCall) -> Mapping[str, Array]:
        if not roi.is_max(call):
            return {}
        return {"grad_in": sums(call, terms_of_max(call, change(call, cells(call, "argmax"))))}

    return wrong


def _of_mean(
    first: int = 1,
    named: Callable[[Array, Array], Array] = lambda place, counts: place <= counts,
    divisors: Callable[[Array, int], Array] = lambda counts, _: counts,
    points: Callable[[Array], Array] = np.asarray,
) -> Suspect:
    """With other lists, places that count, and divisors."""

    def wrong(call: OpCall) -> Mapping[str, Array]:
        if roi.is_max(call):
            return {}
        lists = cells(call, "pts_idx_of_voxels")
        counts, place = lists[:, :1], np.arange(first, lists.shape[1])
        own = divisors(counts[:, 0], lists.shape[1])
        added = terms_of_mean(call, points(lists[:, first:]), named(place, counts), np.maximum(own, 1))
        return {"grad_in": sums(call, added)}

    return wrong


def _assigned(call: OpCall) -> Mapping[str, Array]:
    added, grad = terms(call), np.zeros(call.tensor("grad_in").dims, call.tensor("grad_in").dtype.storage)
    grad.reshape(-1)[added.places] = added.quotients
    return {"grad_in": grad}


def _by_box(call: OpCall) -> list[Array]:
    """grad_in of every box alone."""
    grads = call.array("grad_out")
    number = np.arange(len(grads)).reshape(-1, 1, 1, 1, 1)
    calls = (with_inputs(call, grad_out=np.where(number == box, grads, 0)) for box in range(len(grads)))
    return [sums(one, terms(one)) for one in calls]


def _last_box_wins(call: OpCall) -> Mapping[str, Array]:
    grad = np.zeros(call.tensor("grad_in").dims, call.tensor("grad_in").dtype.storage)
    for own in _by_box(call):
        grad = np.where(own != 0, own, grad)
    return {"grad_in": grad}


def _read(**changes: Callable[[Array, OpCall], Array]) -> Suspect:
    """With other inputs of the same shapes."""

    def wrong(call: OpCall) -> Mapping[str, Array]:
        arrays = {name: change(call.array(name), call) for name, change in changes.items()}
        read = with_inputs(call, **{name: np.ascontiguousarray(array) for name, array in arrays.items()})
        return {"grad_in": sums(read, terms(read))}

    return wrong


def _strided_by_lists(grads: Array, call: OpCall) -> Array:
    channels, most = grads.shape[-1], int(call.param("max_pts_each_voxel"))
    place = np.arange(grads.size // channels)[:, None] * most + np.arange(channels)
    return np.take(grads, place, mode="wrap").reshape(grads.shape)


def _once(lists: Array) -> Array:
    """A point that is listed again is none."""
    is_again = (lists[:, :, None] == lists[:, None, :]) & np.tri(lists.shape[1], k=-1, dtype=bool)
    return np.where(is_again.any(axis=2), -1, lists)


def _transposed(call: OpCall) -> Mapping[str, Array]:
    right = sums(call, terms(call))
    return {"grad_in": np.ascontiguousarray(right.T).reshape(right.shape)}


def _moved(by: int) -> Suspect:
    return lambda call: {"grad_in": np.roll(sums(call, terms(call)), by, axis=0)}


SUSPECTS: Final[Mapping[str, Suspect]] = {
    "gradients are assigned, not added": _assigned,
    "a box overwrites what others gave": _last_box_wins,
    "the first box alone counts": lambda call: {"grad_in": _by_box(call)[0]},
    "−1 is the last point": _of_max(
        lambda call, argmax: np.where(argmax < 0, call.tensor("grad_in").dims[0] - 1, argmax)
    ),
    "−1 is point 0": _of_max(lambda _, argmax: np.maximum(argmax, 0)),
    "point 0 is none": _of_max(lambda _, argmax: np.where(argmax == 0, -1, argmax)),
    "argmax counts from 1": _of_max(lambda _, argmax: np.where(argmax > 0, argmax - 1, -1)),
    "argmax is that of the first channel": _of_max(lambda _, argmax: np.broadcast_to(argmax[:, :1], argmax.shape)),
    "gradients are not divided": _of_mean(divisors=lambda counts, _: np.ones_like(counts)),
    "gradients are divided by K": _of_mean(divisors=np.full_like),
    "gradients are divided by K − 1": _of_mean(divisors=lambda counts, most: np.full_like(counts, most - 1)),
    "gradients are divided by one more": _of_mean(divisors=lambda counts, _: counts + 1),
    "the count is taken for a point": _of_mean(first=0, named=lambda place, counts: place < counts),
    "the count is taken for a point, too": _of_mean(first=0),
    "the last point of a list is left out": _of_mean(named=lambda place, counts: place < counts),
    "the first point of a list is left out": _of_mean(named=lambda place, counts: (place > 1) & (place <= counts)),
    "the first point of a list has all": _of_mean(
        named=lambda place, counts: place <= np.minimum(counts, 1), divisors=lambda counts, _: np.ones_like(counts)
    ),
    "entries behind the count are read": _of_mean(named=lambda place, counts: place > 0 * counts),
    "one entry behind the count is read": _of_mean(named=lambda place, counts: place <= counts + 1),
    "lists of empty cells are read": _of_mean(named=lambda place, counts: place <= np.maximum(counts, 1)),
    "listed points count from 1": _of_mean(points=lambda lists: lists - 1),
    "point 0 is none in lists": _of_mean(points=lambda lists: np.where(lists == 0, -1, lists)),
    "a point that is listed twice counts once": _of_mean(points=_once),
    "maximum and mean are exchanged": lambda call: {"grad_in": sums(call, terms(call, exchanged=True))},
    "grad_out has rows of K": _read(grad_out=_strided_by_lists),
    "grad_out has no sign": _read(grad_out=lambda grads, _: np.abs(grads)),
    "grad_out is that of the next cell": _read(
        grad_out=lambda grads, _: np.roll(grads.reshape(-1, grads.shape[-1]), -1, axis=0).reshape(grads.shape)
    ),
    "grad_out is read with the channels first": _read(
        grad_out=lambda grads, _: np.moveaxis(grads.reshape(grads.shape[0], grads.shape[-1], *grads.shape[1:4]), 1, 4)
    ),
    "every box has the lists and points of the first": _read(
        pts_idx_of_voxels=lambda lists, _: np.broadcast_to(lists[:1], lists.shape),
        argmax=lambda argmax, _: np.broadcast_to(argmax[:1], argmax.shape),
    ),
    "grad_in is written as [C, P]": _transposed,
    "every gradient goes to the next point": _moved(1),
}
