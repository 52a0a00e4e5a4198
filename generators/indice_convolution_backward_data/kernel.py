"""An implementation that shares nothing with the reference: float32, gathers per input row, scatters nothing."""

import math

import numpy as np

from mluops_gtest.authoring import (
    Array,
    DType,
    Layout,
    OpCall,
    Status,
    TensorDesc,
)

from .._shared.products import gather_sums

# The kernel's own checks, written down one after the other as §3.8 lists them.


def refusal(call: OpCall) -> Status | None:
    """The status of a call that does not compute, or None."""
    for stage in (_nulls, _arch, _descriptors, _parameters, _relations, _sizes, _pointers):
        status = stage(call)
        if status is not None:
            return status
    return None


def _descs(call: OpCall) -> tuple[TensorDesc, TensorDesc, TensorDesc, TensorDesc]:
    return (
        call.tensor("output_grad").desc,
        call.tensor("filters").desc,
        call.tensor("indice_pairs").desc,
        call.tensor("input_grad").desc,
    )


def _nulls(call: OpCall) -> Status | None:
    descriptors = (*call.inputs.values(), *call.outputs.values())
    if call.handle is None or None in descriptors or call.param("indice_num") is None:
        return Status.BAD_PARAM
    return None


def _arch(call: OpCall) -> Status | None:
    if call.handle is not None and call.handle.arch < 370:
        return Status.ARCH_MISMATCH
    return None


def _descriptors(call: OpCall) -> Status | None:
    output_grad, filters, pairs, input_grad = _descs(call)
    if len(output_grad.dims) != 2 or len(filters.dims) not in (4, 5):
        return Status.BAD_PARAM
    if len(pairs.dims) != 3 or len(input_grad.dims) != 2 or pairs.dims[1] != 2:
        return Status.BAD_PARAM
    if pairs.dims[2] > 1_000_000:
        return Status.NOT_SUPPORTED
    if not {output_grad.dtype, filters.dtype, input_grad.dtype} <= {DType.HALF, DType.FLOAT}:
        return Status.BAD_PARAM
    if pairs.dtype is not DType.INT32:
        return Status.BAD_PARAM
    named = (Layout.NHWC, Layout.NCHW, Layout.HWCN) if len(filters.dims) == 4 else (Layout.NDHWC, Layout.NCDHW)
    if filters.layout not in (*named, Layout.ARRAY):
        return Status.BAD_PARAM
    if output_grad.is_strided or filters.is_strided or pairs.is_strided or input_grad.is_strided:
        return Status.NOT_SUPPORTED
    return None


def _parameters(call: OpCall) -> Status | None:
    if call.param("inverse") not in (0, 1) or call.param("sub_m") not in (0, 1):
        return Status.BAD_PARAM
    if min(call.param("indice_num"), default=0) < 0:
        return Status.BAD_PARAM
    if call.param("inverse") == 1:
        return Status.NOT_SUPPORTED
    return None


def _relations(call: OpCall) -> Status | None:
    output_grad, filters, pairs, input_grad = _descs(call)
    counts, sub_m = call.param("indice_num"), call.param("sub_m") == 1
    offsets, channels_in, channels_out = _filter_lengths(filters)
    if offsets != pairs.dims[0]:
        return Status.BAD_PARAM
    if output_grad.dims[1] != channels_out or input_grad.dims != (pairs.dims[2], channels_in):
        return Status.BAD_PARAM
    largest = max(counts, default=0)
    if largest > min(pairs.dims[2], output_grad.dims[0]):
        return Status.BAD_PARAM
    if sub_m and (offsets % 2 == 0 or counts[offsets // 2] < largest or input_grad.dims[0] != output_grad.dims[0]):
        return Status.BAD_PARAM
    if not output_grad.dtype is input_grad.dtype is filters.dtype:
        return Status.BAD_PARAM
    return None


def _filter_lengths(filters: TensorDesc) -> tuple[int, int, int]:
    dims = filters.dims
    match filters.layout:
        case Layout.NHWC | Layout.NDHWC:
            return math.prod(dims[1:-1]), dims[-1], dims[0]
        case Layout.NCHW | Layout.NCDHW:
            return math.prod(dims[2:]), dims[1], dims[0]
    return math.prod(dims[:-2]), dims[-2], dims[-1]


def _sizes(call: OpCall) -> Status | None:
    counts = [math.prod(desc.dims) for desc in _descs(call)]
    if max(counts) >= 2**31:
        return Status.NOT_SUPPORTED
    if min(counts) == 0:
        return Status.SUCCESS
    return None


def _pointers(call: OpCall) -> Status | None:
    if any(arg is None or arg.null for arg in (*call.inputs.values(), *call.outputs.values())):
        return Status.BAD_PARAM
    if call.workspace is None and call.workspace_size > 0:
        return Status.BAD_PARAM
    return None


# An implementation that shares nothing with the reference: float32, gathers per input row, scatters nothing.


def kernel(call: OpCall) -> Status:
    """Answer the status of the call and, where it computes, write input_grad."""
    status = refusal(call)
    if status is not None:
        return status
    rows = call.array("output_grad").astype(np.float32, copy=False)
    weights = _stacked_weights(call.array("filters"), call.tensor("filters").layout)
    gather_sums(rows, weights, call.array("indice_pairs"), call.param("indice_num"), call.array("input_grad"), to=0)
    return Status.SUCCESS


def _stacked_weights(filters: Array, layout: Layout) -> Array:
    """[K·Co, Ci] float32: under each other the matrices that output rows are multiplied with."""
    dims = filters.shape
    match layout:
        case Layout.NHWC | Layout.NDHWC:
            by_offset = filters.reshape(dims[0], -1, dims[-1]).swapaxes(0, 1)
        case Layout.NCHW | Layout.NCDHW:
            by_offset = np.moveaxis(filters.reshape(dims[0], dims[1], -1), 2, 0)
        case _:
            by_offset = filters.reshape(-1, dims[-2], dims[-1]).swapaxes(1, 2)
    return by_offset.reshape(-1, by_offset.shape[2]).astype(np.float32)
