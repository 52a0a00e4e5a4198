"""The parameter checks of the five operators, in the order of their documents; torch is not needed for them."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from mluops_gtest.model.call import OLDEST_ARCH, OpCall, TensorArg
from mluops_gtest.model.dtypes import DType, Layout
from mluops_gtest.model.status import Status

# The status of a call that computes nothing, early SUCCESS included; None where the operator computes.
Refusal = Status | None

_BAD: Final = Status.BAD_PARAM
_UNSUPPORTED: Final = Status.NOT_SUPPORTED
_REDUCE_MODE_MAX: Final = 2
_MOST_OFFSETS: Final = 4096
_MOST_SITES: Final = 1_000_000


def get_indice_pairs(call: OpCall) -> Refusal:
    """A bad value in the descriptor of the convolution answers before the architecture: its setter refuses it."""
    args = _described(call)
    if args is None or call.params is None or not _is_convolution(call):
        return _BAD
    if _is_too_old(call):
        return Status.ARCH_MISMATCH
    if not _pairs_shapes_agree(call, args):
        return _BAD
    if _any_strided(args):
        return _UNSUPPORTED
    if args["indices"].dims[0] > _MOST_SITES:
        return _BAD
    if _any_large(args):
        return _UNSUPPORTED
    if any(arg.dtype is not DType.INT32 for arg in args.values()):
        return _BAD
    spaces_differ = call.param("input_space") != call.param("output_space")
    if call.param("sub_m") and (spaces_differ or {*call.param("stride"), *call.param("dilation")} != {1}):
        return _BAD
    if any(arg.desc.is_empty for arg in args.values()):
        return Status.SUCCESS
    return _pointers(call, args.values())


def indice_convolution_backward_data(call: OpCall) -> Refusal:
    """§3.8 of the indice_convolution_backward_data document, from nulls to pointers."""
    args = _described(call)
    if args is None or call.param("indice_num") is None:
        return _BAD
    if _is_too_old(call):
        return Status.ARCH_MISMATCH
    pairs = args["indice_pairs"]
    ranks = tuple(len(args[name].dims) for name in ("output_grad", "filters", "indice_pairs", "input_grad"))
    if ranks not in ((2, 4, 3, 2), (2, 5, 3, 2)) or pairs.dims[1] != 2:
        return _BAD
    if pairs.dims[2] > _MOST_SITES:
        return _UNSUPPORTED
    floats = {args[name].dtype for name in ("output_grad", "filters", "input_grad")}
    if not floats <= {DType.HALF, DType.FLOAT} or pairs.dtype is not DType.INT32 or _filter_lengths(args) is None:
        return _BAD
    if _any_strided(args):
        return _UNSUPPORTED
    if not {call.param("inverse"), call.param("sub_m")} <= {0, 1} or min(call.param("indice_num"), default=0) < 0:
        return _BAD
    if call.param("inverse") == 1:
        return _UNSUPPORTED
    if not _gradient_shapes_agree(call, args) or len(floats) > 1:
        return _BAD
    if _any_large(args):
        return _UNSUPPORTED
    if any(arg.desc.is_empty for arg in args.values()):
        return Status.SUCCESS
    return _pointers(call, args.values())


def dynamic_scatter_backward(call: OpCall) -> Refusal:
    """§3.8 of the dynamic_scatter_backward document, in the released order: the architecture before the descriptors."""
    if call.handle is None:
        return _BAD
    if _is_too_old(call):
        return Status.ARCH_MISMATCH
    args = _described(call)
    if args is None:
        return _BAD
    if _any_strided(args):
        return _UNSUPPORTED
    if not _scatter_shapes_agree(args) or call.param("reduce_type") != _REDUCE_MODE_MAX:
        return _BAD
    if _any_large(args):
        return _UNSUPPORTED
    points, channels = args["feats"].dims
    if 5 * points + 20 * channels + 4 > call.handle.nram_bytes:
        return _BAD
    if args["grad_feats"].desc.is_empty:
        return Status.SUCCESS
    # Without voxels (M = 0) there is still grad_feats to write; only the pointers of empty tensors may be null.
    return _pointers(call, (arg for arg in args.values() if not arg.desc.is_empty))


def voxel_pooling_forward(call: OpCall) -> Refusal:
    """§3.7 of the voxel_pooling_forward document: tensors without elements are refused, the architecture is last."""
    args = _described(call)
    if args is None:
        return _BAD
    batches, points, channels = (call.param(name) for name in ("batch_size", "num_points", "num_channels"))
    width, height, depth = (call.param(f"num_voxel_{axis}") for axis in "xyz")
    wanted = {
        "geom_xyz": (DType.INT32, (batches, points, 3)),
        "input_features": (DType.FLOAT, (batches, points, channels)),
        "output_features": (DType.FLOAT, (batches, height, width, channels)),
        "pos_memo": (DType.INT32, (batches, points, 3)),
    }
    if {name: (arg.dtype, arg.dims) for name, arg in args.items()} != wanted:
        return _BAD
    if min(batches, points, channels, width, height, depth) <= 0:
        return _BAD
    if _any_strided(args) or _any_large(args):
        return _UNSUPPORTED
    if any(arg.null for arg in args.values()):
        return _BAD
    return Status.ARCH_MISMATCH if _is_too_old(call) else None


def masked_im2col_forward(call: OpCall) -> Refusal:
    """§3.7 of the masked_im2col_forward document: no feature is an error, no mask is not; no architecture is asked."""
    args = _described(call)
    if args is None:
        return _BAD
    feature, masks = args["feature"], args["mask_h_idx"]
    if feature.layout is not Layout.NCHW or len(feature.dims) != 4 or feature.dims[0] != 1 or len(masks.dims) != 1:
        return _BAD
    kernel_h, kernel_w = call.param("kernel_h"), call.param("kernel_w")
    wanted = {
        "feature": (feature.dtype, feature.dims),
        "mask_h_idx": (DType.INT32, masks.dims),
        "mask_w_idx": (DType.INT32, masks.dims),
        "data_col": (feature.dtype, (feature.dims[1] * kernel_h * kernel_w, masks.dims[0])),
    }
    if {name: (arg.dtype, arg.dims) for name, arg in args.items()} != wanted:
        return _BAD
    if feature.dtype not in (DType.HALF, DType.FLOAT) or min(kernel_h, kernel_w) <= 0:
        return _BAD
    if _any_strided(args) or _any_large(args):
        return _UNSUPPORTED
    if feature.desc.is_empty:
        return _BAD
    if masks.desc.is_empty:
        return Status.SUCCESS
    return _pointers(call, args.values())


REFUSALS: Final[Mapping[str, Callable[[OpCall], Refusal]]] = {
    check.__name__: check
    for check in (
        get_indice_pairs,
        indice_convolution_backward_data,
        dynamic_scatter_backward,
        voxel_pooling_forward,
        masked_im2col_forward,
    )
}


def _described(call: OpCall) -> dict[str, TensorArg] | None:
    """All tensors by name; None where the handle or a descriptor is null."""
    given = {**call.inputs, **call.outputs}
    args = {name: arg for name, arg in given.items() if arg is not None}
    return None if call.handle is None or len(args) < len(given) else args


def _is_too_old(call: OpCall) -> bool:
    return call.handle is not None and call.handle.arch < OLDEST_ARCH


def _any_strided(args: Mapping[str, TensorArg]) -> bool:
    return any(arg.desc.is_strided for arg in args.values())


def _any_large(args: Mapping[str, TensorArg]) -> bool:
    return any(arg.desc.is_large for arg in args.values())


def _pointers(call: OpCall, args: Iterable[TensorArg]) -> Refusal:
    """The last group of most operators: data pointers, and the workspace where it has a size."""
    workspace_is_null = call.workspace is None and call.workspace_size != 0
    return _BAD if workspace_is_null or any(arg.null for arg in args) else None


def _is_convolution(call: OpCall) -> bool:
    least = {"pad": 0, "stride": 1, "dilation": 1, "input_space": 1, "filter_space": 1, "output_space": 1}
    for name, lowest in least.items():
        values = call.param(name)
        if values is None or len(values) != 3 or min(values) < lowest:
            return False
    fixed = call.param("dimnb"), call.param("transpose"), call.param("inverse")
    return fixed == (5, 0, 0) and bool(call.param("batch") > 0)


def _pairs_shapes_agree(call: OpCall, args: Mapping[str, TensorArg]) -> bool:
    indices, pairs, out, num = (args[name].dims for name in ("indices", "indice_pairs", "out_indices", "indice_num"))
    if len(indices) != 2 or len(out) != 2 or indices[1] != 4 or out[1] != 4:
        return False
    offsets = math.prod(call.param("filter_space"))
    if pairs != (offsets, 2, indices[0]) or num != (offsets,) or offsets > _MOST_OFFSETS:
        return False
    if any(s != 1 and d != 1 for s, d in zip(call.param("stride"), call.param("dilation"), strict=True)):
        return False
    cells_in, cells_out = (call.param("batch") * math.prod(call.param(f"{side}_space")) for side in ("input", "output"))
    return bool(indices[0] <= cells_in and out[0] <= cells_out)


def _filter_lengths(args: Mapping[str, TensorArg]) -> tuple[int, int, int] | None:
    """(K, Ci, Co), or None where the layout does not fit the rank."""
    dims = args["filters"].dims
    match args["filters"].layout, len(dims):
        case (Layout.NHWC, 4) | (Layout.NDHWC, 5):
            return math.prod(dims[1:-1]), dims[-1], dims[0]
        case (Layout.NCHW, 4) | (Layout.NCDHW, 5):
            return math.prod(dims[2:]), dims[1], dims[0]
        case (Layout.HWCN, 4) | (Layout.ARRAY, 4 | 5):
            return math.prod(dims[:-2]), dims[-2], dims[-1]
    return None


def _gradient_shapes_agree(call: OpCall, args: Mapping[str, TensorArg]) -> bool:
    counts: tuple[int, ...] = call.param("indice_num")
    rows, sites, most = args["output_grad"].dims[0], args["indice_pairs"].dims[2], max(counts, default=0)
    grad, pairs, result = (args[name].dims for name in ("output_grad", "indice_pairs", "input_grad"))
    if _filter_lengths(args) != (pairs[0], result[1], grad[1]) or result[0] != sites or most > min(sites, rows):
        return False
    if call.param("sub_m") == 0:
        return True
    return pairs[0] % 2 == 1 and rows == sites and counts[len(counts) // 2] == most


def _scatter_shapes_agree(args: Mapping[str, TensorArg]) -> bool:
    if len(args["grad_voxel_feats"].dims) != 2 or len(args["feats"].dims) != 2:
        return False
    voxels, channels = args["grad_voxel_feats"].dims
    points = args["feats"].dims[0]
    wanted = {
        "grad_voxel_feats": (DType.FLOAT, (voxels, channels)),
        "feats": (DType.FLOAT, (points, channels)),
        "voxel_feats": (DType.FLOAT, (voxels, channels)),
        "point2voxel_map": (DType.INT32, (points,)),
        "voxel_points_count": (DType.INT32, (voxels,)),
        "voxel_num": (DType.INT32, (1,)),
        "grad_feats": (DType.FLOAT, (points, channels)),
    }
    return {name: (arg.dtype, arg.dims) for name, arg in args.items()} == wanted and points >= voxels
