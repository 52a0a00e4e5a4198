"""Mistakes that kernels make about which sites meet, and about the order of what they find."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from mluops_gtest.authoring import Array, OpCall
from mluops_gtest.authoring.suspects import Suspect

from .._shared.sparse import Geometry, find_pairs
from .reference import geometry_of, reference


def _of_geometry(misread: Callable[[Geometry], Geometry]) -> Suspect:
    """All that fits into the buffers of what another convolution would find."""

    def outputs(call: OpCall) -> Mapping[str, Array]:
        found = find_pairs(call.array("indices"), misread(geometry_of(call)))
        sites = {"out_indices": found.out_indices} if len(found.out_indices) == _rows(call) else {}
        return {"indice_pairs": found.indice_pairs, "indice_num": found.indice_num, **sites}

    return outputs


def _rows(call: OpCall) -> int:
    return call.tensor("out_indices").dims[0]


def _centred(geometry: Geometry) -> Geometry:
    depth, height, width = (length // 2 for length in geometry.kernel)
    return replace(geometry, pad=(depth, height, width)) if geometry.sub_m else geometry


def _in_order_met(call: OpCall) -> Mapping[str, Array]:
    outputs = dict(reference(call).outputs)
    pairs = outputs["indice_pairs"]
    if call.param("sub_m") or (pairs < 0).all():
        return outputs
    targets = pairs[:, 1]
    distinct, first = np.unique(targets[targets >= 0], return_index=True)
    order = distinct[np.argsort(first)]
    places = np.empty(len(order), "<i4")
    places[order] = np.arange(len(order))
    sites = outputs["out_indices"].copy()
    sites[: len(order)] = sites[order]
    renamed = pairs.copy()
    renamed[:, 1] = np.where(targets >= 0, places[targets], -1)
    return {**outputs, "out_indices": sites, "indice_pairs": renamed}


def _by_output_row(call: OpCall) -> Mapping[str, Array]:
    outputs = dict(reference(call).outputs)
    pairs = outputs["indice_pairs"]
    # −1 behind the pairs stays behind them.
    order = np.argsort(np.where(pairs[:, 1] < 0, np.iinfo(np.int32).max, pairs[:, 1]), axis=1, kind="stable")
    return {**outputs, "indice_pairs": np.take_along_axis(pairs, order[:, None], axis=2)}


def _depth_fastest(call: OpCall) -> Mapping[str, Array]:
    outputs = dict(reference(call).outputs)
    order = np.arange(len(outputs["indice_num"])).reshape(call.param("filter_space")).transpose(2, 1, 0).ravel()
    return {**outputs, "indice_pairs": outputs["indice_pairs"][order], "indice_num": outputs["indice_num"][order]}


SUSPECTS = {
    "dilation is ignored": _of_geometry(lambda geometry: replace(geometry, dilation=(1, 1, 1))),
    "pad is ignored": _of_geometry(lambda geometry: replace(geometry, pad=(0, 0, 0))),
    "sub_m pads by half the kernel, whatever pad says": _of_geometry(_centred),
    "output sites stand in the order in which they are met": _in_order_met,
    "the pairs of an offset ascend by output row": _by_output_row,
    "kernel offsets are numbered from the depth on": _depth_fastest,
}
