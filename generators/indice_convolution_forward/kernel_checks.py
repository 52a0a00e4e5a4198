"""The kernel's own checks, written down one after the other."""

import math

from mluops_gtest.authoring import DType, Layout, OpCall, Status, TensorDesc


def refusal(call: OpCall) -> Status | None:
    """The status of a call that does not compute, or None."""
    for stage in (_presence, _types_and_modes, _supported, _relations, _emptiness, _pointers):
        status = stage(call)
        if status is not None:
            return status
    return None


def _descs(call: OpCall) -> tuple[TensorDesc, TensorDesc, TensorDesc, TensorDesc]:
    return (
        call.tensor("features").desc,
        call.tensor("filters").desc,
        call.tensor("indice_pairs").desc,
        call.tensor("features_out").desc,
    )


def _presence(call: OpCall) -> Status | None:
    descriptors = (*call.inputs.values(), *call.outputs.values())
    if call.handle is None or None in descriptors or call.param("indice_num") is None:
        return Status.BAD_PARAM
    return Status.ARCH_MISMATCH if call.handle.arch < 370 else None


def _types_and_modes(call: OpCall) -> Status | None:
    features, filters, pairs, out = _descs(call)
    if features.dtype not in (DType.HALF, DType.FLOAT) or not features.dtype is filters.dtype is out.dtype:
        return Status.BAD_PARAM
    if pairs.dtype is not DType.INT32:
        return Status.BAD_PARAM
    if call.param("sub_m") not in (0, 1) or call.param("inverse") not in (0, 1):
        return Status.BAD_PARAM
    return None


def _supported(call: OpCall) -> Status | None:
    features, filters, pairs, out = descs = _descs(call)
    if call.param("inverse") == 1 or filters.layout not in (Layout.NDHWC, Layout.NCDHW, Layout.ARRAY):
        return Status.NOT_SUPPORTED
    if (len(features.dims), len(pairs.dims), len(out.dims)) != (2, 3, 2):
        return Status.BAD_PARAM
    if pairs.dims[2] > 1_000_000 or len(filters.dims) != 5:
        return Status.NOT_SUPPORTED
    if any(desc.is_strided or math.prod(desc.dims) >= 2**31 for desc in descs):
        return Status.NOT_SUPPORTED
    return None


def _relations(call: OpCall) -> Status | None:
    features, filters, pairs, out = _descs(call)
    match filters.layout, filters.dims:
        case Layout.NDHWC, (channels_out, depth, height, width, channels_in):
            pass
        case Layout.NCDHW, (channels_out, channels_in, depth, height, width):
            pass
        case _, (depth, height, width, channels_in, channels_out):
            pass
    rows_in = features.dims[0]
    if pairs.dims != (depth * height * width, 2, rows_in) or features.dims[1] != channels_in:
        return Status.BAD_PARAM
    if out.dims != (call.param("num_active_out"), channels_out):
        return Status.BAD_PARAM
    if any(not 0 <= count <= rows_in for count in call.param("indice_num")):
        return Status.BAD_PARAM
    return None


def _emptiness(call: OpCall) -> Status | None:
    return Status.SUCCESS if any(0 in desc.dims for desc in _descs(call)) else None


def _pointers(call: OpCall) -> Status | None:
    if any(arg is None or arg.null for arg in (*call.inputs.values(), *call.outputs.values())):
        return Status.BAD_PARAM
    if call.workspace is None and call.workspace_size > 0:
        return Status.BAD_PARAM
    return None
