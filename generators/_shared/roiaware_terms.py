"""What RoI-aware pooling's backward adds: gradients or their quotients; § is a section of its document."""

import numpy as np

from mluops_gtest.authoring import Array, OpCall

from . import roiaware as roi
from .roiaware import Terms


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
    return added.sums(call.tensor("grad_in").dtype.storage)
