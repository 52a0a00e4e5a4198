"""The kernel's own checks: §1.1 to §1.4 of the document, in the order of the released code."""

import math

from mluops_gtest.authoring import DType, OpCall, Status, TensorDesc


def refusal(call: OpCall) -> Status | None:
    """The status of a call that does not compute, or None."""
    arguments = (*call.inputs.values(), *call.outputs.values())
    if call.handle is None or None in arguments or call.param("indice_num") is None or call.param("inverse") != 0:
        return Status.BAD_PARAM
    features, grad, pairs, result = (
        call.tensor(name).desc for name in ("features", "output_grad", "indice_pairs", "filters_grad")
    )
    if any(desc.is_strided for desc in (features, grad, pairs, result)):
        return Status.NOT_SUPPORTED
    if call.handle.arch < 370:
        return Status.ARCH_MISMATCH
    if pairs.dtype is not DType.INT32 or {features.dtype, grad.dtype, result.dtype} not in (
        {DType.HALF},
        {DType.FLOAT},
    ):
        return Status.BAD_PARAM
    counts = [math.prod(desc.dims) for desc in (features, grad, pairs, result)]
    if max(counts) >= 2**31:
        return Status.NOT_SUPPORTED
    if not _shapes_fit(features, grad, pairs, result):
        return Status.BAD_PARAM
    if 0 in counts:
        return Status.SUCCESS
    if any(argument is None or argument.null for argument in arguments):
        return Status.BAD_PARAM
    return Status.BAD_PARAM if call.workspace is None and call.workspace_size > 0 else None


def _shapes_fit(features: TensorDesc, grad: TensorDesc, pairs: TensorDesc, result: TensorDesc) -> bool:
    """[L, Ci], [Y, Co], [K, 2, L] and [[Kd,] Kh, Kw, Ci, Co], of at most a million input rows."""
    if (len(features.dims), len(grad.dims), len(pairs.dims)) != (2, 2, 3) or len(result.dims) not in (4, 5):
        return False
    rows, channels_in = features.dims
    *kernel, result_in, result_out = result.dims
    if (result_in, result_out) != (channels_in, grad.dims[1]) or rows > 1_000_000:
        return False
    return pairs.dims == (math.prod(kernel), 2, rows)
