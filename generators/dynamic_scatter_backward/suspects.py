"""Mistakes that kernels make about which point gets a gradient."""

from collections.abc import Callable, Mapping

import numpy as np

from mluops_gtest.authoring import Array, OpCall
from mluops_gtest.authoring.suspects import Suspect, as_read, with_inputs

from .reference import reference


def _last_match(call: OpCall) -> Mapping[str, Array]:
    backwards = {name: np.ascontiguousarray(call.array(name)[::-1]) for name in ("feats", "point2voxel_map")}
    return {"grad_feats": reference(with_inputs(call, **backwards)).outputs["grad_feats"][::-1]}


def _every_match(call: OpCall) -> Mapping[str, Array]:
    voxel_of = call.array("point2voxel_map")
    result = np.zeros(call.tensor("grad_feats").dims, "<f4")
    inside = np.flatnonzero((voxel_of >= 0) & (voxel_of < call.array("voxel_num")[0]))
    voxels = voxel_of[inside]
    matches = call.array("feats")[inside] == call.array("voxel_feats")[voxels]
    result[inside] = np.where(matches, call.array("grad_voxel_feats")[voxels], 0)
    return {"grad_feats": result}


def _without_voxel_0(call: OpCall) -> OpCall:
    voxel_of = call.array("point2voxel_map")
    return with_inputs(call, point2voxel_map=np.where(voxel_of == 0, voxel_of.dtype.type(-1), voxel_of))


def _all_rows(call: OpCall) -> OpCall:
    rows = call.tensor("voxel_feats").dims[0]
    return with_inputs(call, voxel_num=np.full_like(call.array("voxel_num"), rows))


def _with_gradients(change: Callable[[Array], Array]) -> Suspect:
    return as_read(
        reference,
        lambda call: with_inputs(call, grad_voxel_feats=np.ascontiguousarray(change(call.array("grad_voxel_feats")))),
    )


def _channel_0_decides(call: OpCall) -> OpCall:
    features = {name: call.array(name) for name in ("feats", "voxel_feats")}
    return with_inputs(
        call,
        **{name: np.ascontiguousarray(np.broadcast_to(one[:, :1], one.shape)) for name, one in features.items()},
    )


def _averaged(call: OpCall) -> Mapping[str, Array]:
    voxel_of = call.array("point2voxel_map")
    points = np.bincount(voxel_of[voxel_of >= 0], minlength=1)[np.maximum(voxel_of, 0)]
    return {"grad_feats": reference(call).outputs["grad_feats"] / np.maximum(points, 1)[:, None].astype("<f4")}


SUSPECTS = {
    "the last point with the maximum gets the gradient": _last_match,
    "every point with the maximum gets the gradient": _every_match,
    # §3.2's `offset > 0`.
    "voxel 0 counts as no voxel": as_read(reference, _without_voxel_0),
    "rows at and behind voxel_num count as voxels": as_read(reference, _all_rows),
    "what channel 0 says holds for all": as_read(reference, _channel_0_decides),
    "the gradient is averaged over the points of a voxel": _averaged,
    "the gradient of the next voxel is taken": _with_gradients(lambda gradient: np.roll(gradient, -1, axis=0)),
    "channels of the gradient are counted from the last one": _with_gradients(lambda gradient: gradient[:, ::-1]),
}
