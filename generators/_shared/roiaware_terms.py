"""What RoI-aware pooling's backward adds: gradients or their quotients; § is a section of its document."""

from fractions import Fraction
from functools import cache
from typing import NamedTuple

import numpy as np

from mluops_gtest.authoring import Array, OpCall

from . import roiaware as roi


class Terms(NamedTuple):
    """What is added: the place in grad_in that it goes to, the gradient and what it is divided by, [T] each."""

    places: Array
    grads: Array
    divisors: Array

    @property
    def values(self) -> Array:
        """float64 [T]."""
        return self.grads / self.divisors


def cells(call: OpCall, name: str) -> Array:
    """[V, …]: a tensor by cell."""
    array = call.array(name)
    return array.reshape(-1, array.shape[-1])


def terms_of_max(call: OpCall, argmax: Array) -> Terms:
    """Where these points [V, C] had the largest features; what is no point is none."""
    points, channels = call.tensor("grad_in").dims
    cell, channel = np.nonzero((argmax >= 0) & (argmax < points))
    grads = cells(call, "grad_out")[cell, channel].astype(np.float64)
    return Terms(argmax[cell, channel].astype(np.int64) * channels + channel, grads, np.ones(len(grads), np.int64))


def terms_of_mean(call: OpCall, lists: Array, is_named: Array, divisors: Array) -> Terms:
    """Where these points [V, Q] share the gradients of their cells."""
    points, channels = call.tensor("grad_in").dims
    cell, place = np.nonzero(is_named & (lists >= 0) & (lists < points))
    places = lists[cell, place].astype(np.int64)[:, None] * channels + np.arange(channels)
    grads = cells(call, "grad_out")[cell].astype(np.float64)
    return Terms(places.ravel(), grads.ravel(), np.repeat(divisors[cell], channels))


def terms(call: OpCall) -> Terms:
    """Of the table of the mode alone."""
    if roi.is_max(call):
        return terms_of_max(call, cells(call, "argmax"))
    lists = cells(call, "pts_idx_of_voxels")
    # Entries behind the count are not read.
    longest = 1 + int(lists[:, 0].max())
    is_named = np.arange(1, longest) <= lists[:, :1]
    return terms_of_mean(call, lists[:, 1:longest], is_named, np.maximum(lists[:, 0], 1))


def sums(call: OpCall, added: Terms) -> Array:
    """grad_in of these terms; +0 where there is none: the operator clears it itself."""
    dims, storage = call.tensor("grad_in").dims, call.tensor("grad_in").dtype.storage
    size = dims[0] * dims[1]
    with np.errstate(invalid="ignore"):
        found = np.bincount(added.places, added.values, size)
    doubt = np.zeros(size)
    # float64 adds halves exactly.
    if storage.itemsize > 2 or (added.divisors > 1).any():
        finite = np.where(np.isfinite(added.values), added.values, 0)
        doubt = np.bincount(added.places, np.abs(finite), size) * (fan_in(call, added) + 4) * 2.0**-53

    @cache
    def sorted_terms() -> tuple[Array, Array]:
        order = np.argsort(added.places, kind="stable")
        return order, added.places[order]

    def exactly(place: int, _: int) -> Fraction:
        order, places = sorted_terms()
        own = order[np.searchsorted(places, place) : np.searchsorted(places, place, side="right")].tolist()
        return sum((Fraction(added.grads[one]) / int(added.divisors[one]) for one in own), Fraction(0))

    return roi.rounded_once(found[:, None], doubt[:, None], exactly, storage).reshape(dims)


def fan_in(call: OpCall, added: Terms) -> Array:
    """int64 [P·C]: how many terms each sum has."""
    points, channels = call.tensor("grad_in").dims
    return np.bincount(added.places, minlength=points * channels)
