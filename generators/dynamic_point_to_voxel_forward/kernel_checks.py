"""What the kernel answers before it computes: written from the document, not from the list of checks."""

from mluops_gtest.authoring import DType, OpCall, Status, TensorArg

_FLOATS = ("feats", "voxel_feats")
_TABLES = ("feats", "coors", "voxel_feats", "voxel_coors")
_ORDER = (*_TABLES, "point2voxel_map", "voxel_points_count", "voxel_num")


def early_status(call: OpCall) -> Status | None:
    """The status of a call that is refused or has nothing to do; None where it must be computed."""
    if call.handle is None:
        return Status.BAD_PARAM
    if call.handle.arch < 370:
        return Status.ARCH_MISMATCH
    given = {**call.inputs, **call.outputs}
    tensors = {name: arg for name in _ORDER if (arg := given[name]) is not None}
    if len(tensors) < len(_ORDER):
        return Status.BAD_PARAM
    if any(len(arg.dims) != (2 if name in _TABLES else 1) for name, arg in tensors.items()):
        return Status.BAD_PARAM
    if any(arg.desc.is_strided for arg in tensors.values()):
        return Status.NOT_SUPPORTED
    if any(arg.dtype is not (DType.FLOAT if name in _FLOATS else DType.INT32) for name, arg in tensors.items()):
        return Status.BAD_PARAM
    if call.param("reduce_type") not in (1, 2) or not _shapes_fit(tensors):
        return Status.BAD_PARAM
    if max(tensors["feats"].desc.count, tensors["coors"].desc.count) >= 1 << 31:
        return Status.NOT_SUPPORTED
    if 0 in tensors["feats"].dims:
        return Status.SUCCESS
    if call.workspace_size and call.workspace is None:
        return Status.BAD_PARAM
    return Status.BAD_PARAM if any(arg.null for arg in tensors.values()) else None


def _shapes_fit(tensors: dict[str, TensorArg]) -> bool:
    points, channels = tensors["feats"].dims
    rows = tensors["voxel_feats"].dims[0]
    wanted = {
        "feats": (points, channels),
        "coors": (points, 3),
        "voxel_feats": (rows, channels),
        "voxel_coors": (rows, 3),
        "point2voxel_map": (points,),
        "voxel_points_count": (rows,),
        "voxel_num": (1,),
    }
    return rows <= points and all(arg.dims == wanted[name] for name, arg in tensors.items())
