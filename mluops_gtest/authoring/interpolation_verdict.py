"""What kernels of operators with three weighted cells per point check themselves, apart from the declared checks."""

from mluops_gtest.core.call import OpCall, Status, TensorArg
from mluops_gtest.core.tensor import DType, Layout


def interpolation_verdict(call: OpCall, *, points: str, cells: str) -> tuple[Status, bool]:
    """The status, and whether there is anything to compute; `points` is [B, C, N], `cells` [B, C, M]."""
    found = {**call.inputs, **call.outputs}
    many, few, indices, weights = (found[name] for name in (points, cells, "indices", "weights"))
    if call.handle is None or many is None or few is None or indices is None or weights is None:
        return Status.BAD_PARAM, False
    tensors = (many, few, indices, weights)
    if not _types_agree(*tensors) or not _shapes_agree(*tensors):
        return Status.BAD_PARAM, False
    if any(arg.desc.is_strided or arg.desc.is_large for arg in tensors):
        return Status.NOT_SUPPORTED, False
    if 0 in many.dims:
        return Status.BAD_PARAM, False
    if few.dims[2] == 0:
        return Status.SUCCESS, False
    if any(arg.null for arg in tensors):
        return Status.BAD_PARAM, False
    return Status.SUCCESS, True


def _types_agree(points: TensorArg, cells: TensorArg, indices: TensorArg, weights: TensorArg) -> bool:
    return (
        {arg.layout for arg in (points, cells, indices, weights)} == {Layout.ARRAY}
        and indices.dtype is DType.INT32
        and points.dtype is cells.dtype is weights.dtype
        and weights.dtype in (DType.HALF, DType.FLOAT)
    )


def _shapes_agree(points: TensorArg, cells: TensorArg, indices: TensorArg, weights: TensorArg) -> bool:
    if len(points.dims) != 3 or len(cells.dims) != 3:
        return False
    batches, channels, count = points.dims
    return indices.dims == weights.dims == (batches, count, 3) and cells.dims[:2] == (batches, channels)
