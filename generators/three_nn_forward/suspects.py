"""Mistakes that kernels make about distances, equal ones and batches."""

from collections.abc import Mapping

import numpy as np

from mluops_gtest.authoring import Array, OpCall
from mluops_gtest.authoring.suspects import as_read, with_inputs

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


def _first_cloud(call: OpCall) -> OpCall:
    known = call.array("known")
    return with_inputs(call, known=np.ascontiguousarray(np.broadcast_to(known[:1], known.shape)))


SUSPECTS = {
    "the roots are taken of squared distances": _roots,
    "of equal distances the highest index comes first": _last_of_equals,
    "the three neighbours are ordered by index": _by_index,
    "indices count through all batches": _through_batches,
    "every batch searches the known points of batch 0": as_read(reference, _first_cloud),
}
