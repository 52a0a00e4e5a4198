"""The kernel that the numpy backend runs: rows sorted by segment, float32, checks of its own from §3."""

import numpy as np

from mluops_gtest.authoring import DType, OpCall, Status, TensorArg

_OLDEST_ARCH = 370
_LARGE = 2**31


def kernel(call: OpCall) -> Status:
    """Check the call, then add up the rows of each segment."""
    status = _early_status(call)
    if status is None:
        _add_up(call)
    return Status.SUCCESS if status is None else status


def _add_up(call: OpCall) -> None:
    segments, output = call.array("segments"), call.array("output")
    output[...] = 0
    if len(segments) == 0:
        return
    order = np.argsort(segments, kind="stable")
    present, firsts = np.unique(segments[order], return_index=True)
    output[present] = np.add.reduceat(call.array("values")[order], firsts, axis=0, dtype=np.float32)


def _early_status(call: OpCall) -> Status | None:
    """The status of a call that computes nothing; None where it computes."""
    if call.handle is None:
        return Status.BAD_PARAM
    if call.handle.arch < _OLDEST_ARCH:
        return Status.ARCH_MISMATCH
    values, segments, output = call.inputs["values"], call.inputs["segments"], call.outputs["output"]
    if values is None or segments is None or output is None:
        return Status.BAD_PARAM
    if not _is_of_section_2(values, segments, output, call.param("num_segments")):
        return Status.BAD_PARAM
    tensors = (values, segments, output)
    if any(tensor.desc.is_strided for tensor in tensors) or max(values.desc.count, output.desc.count) >= _LARGE:
        return Status.NOT_SUPPORTED
    if output.desc.is_empty:
        return Status.SUCCESS
    return Status.BAD_PARAM if any(tensor.null for tensor in tensors) else None


def _is_of_section_2(values: TensorArg, segments: TensorArg, output: TensorArg, num_segments: int) -> bool:
    if len(values.dims) != 2 or values.dtype not in (DType.FLOAT, DType.HALF):
        return False
    rows, channels = values.dims
    types = (segments.dtype, output.dtype) == (DType.INT32, values.dtype)
    return types and segments.dims == (rows,) and output.dims == (num_segments, channels)
