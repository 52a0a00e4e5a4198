"""How each operator's C function and its workspace query take their arguments: §2.2 of every document."""

from collections.abc import Callable, Mapping
from ctypes import POINTER, byref, c_int, c_int64, c_size_t, c_void_p
from dataclasses import dataclass, field
from typing import Any, Final

from mluops_gtest.backends.c_library.api import SPARSE
from mluops_gtest.backends.c_library.descriptors import c_array, fitting
from mluops_gtest.model.call import Params


@dataclass(slots=True)
class Frame:
    """What the arguments of one call are taken from; None is a null pointer throughout."""

    params: Params | None
    handle: int | None = None
    sparse: int | None = None
    descriptors: dict[str, int | None] = field(default_factory=dict)
    data: dict[str, int | None] = field(default_factory=dict)
    workspace: int | None = None
    workspace_size: int = 0
    # Where the workspace query writes.
    asked: c_size_t = field(default_factory=c_size_t)
    _arrays: dict[str, Any] = field(default_factory=dict)

    def param(self, name: str) -> Any:
        """A parameter that is an argument of its own."""
        assert self.params is not None, "only a sparse-convolution descriptor can be null, and it has no arguments"
        return self.params[name]

    def array(self, name: str, ctype: Any) -> Any:
        """A repeated parameter as a host array, one for the whole call; None where the caller passes none."""
        if name not in self._arrays:
            self._arrays[name] = c_array(ctype, self.param(name))
        return self._arrays[name]

    def changed_arrays(self) -> list[str]:
        """Host arrays that the library wrote although it gets them as const, in words."""
        return [
            f"changed the host array {name}"
            for name, array in self._arrays.items()
            if array is not None and bytes(array) != bytes(c_array(array._type_, self.param(name)))
        ]


@dataclass(frozen=True, slots=True)
class Argument:
    """One C argument: its type, and where its value comes from."""

    type: Any
    value: Callable[[Frame], Any]


Arguments = tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """An operator's function and, where it has one, its workspace query."""

    function: str
    arguments: Arguments
    query: str | None = None
    query_arguments: Arguments = ()

    @property
    def takes_sparse(self) -> bool:
        """The parameters come in a sparse-convolution descriptor, which also tells num_act_out."""
        return SPARSE_DESCRIPTOR in self.arguments

    @property
    def symbols(self) -> tuple[str, ...]:
        """Everything that a library must export for this operator."""
        query = () if self.query is None else (self.query,)
        return (self.function, *query, *(SPARSE if self.takes_sparse else ()))


HANDLE: Final = Argument(c_void_p, lambda frame: frame.handle)
SPARSE_DESCRIPTOR: Final = Argument(c_void_p, lambda frame: frame.sparse)
WORKSPACE: Final = (
    Argument(c_void_p, lambda frame: frame.workspace),
    Argument(c_size_t, lambda frame: frame.workspace_size),
)
ASKED: Final = Argument(POINTER(c_size_t), lambda frame: byref(frame.asked))


def descriptor(*names: str) -> Arguments:
    """The descriptors of these tensors."""
    return tuple(_descriptor(name) for name in names)


def tensor(*names: str) -> Arguments:
    """The descriptor and the data of each of these tensors, alternating."""
    return tuple(argument for name in names for argument in (_descriptor(name), _data(name)))


def scalar(*names: str, ctype: Any = c_int) -> Arguments:
    """Parameters passed by value."""
    return tuple(_scalar(name, ctype) for name in names)


def host_array(name: str, ctype: Any) -> Argument:
    """A repeated parameter as an array in host memory."""
    return Argument(POINTER(ctype), lambda frame: frame.array(name, ctype))


def _descriptor(name: str) -> Argument:
    return Argument(c_void_p, lambda frame: frame.descriptors[name])


def _data(name: str) -> Argument:
    return Argument(c_void_p, lambda frame: frame.data[name])


def _scalar(name: str, ctype: Any) -> Argument:
    return Argument(ctype, lambda frame: fitting(ctype, frame.param(name), name))


_GET_INDICE_PAIRS: Final = Signature(
    "mluOpGetIndicePairs",
    # The C order of the outputs; case files list out_indices first.
    (
        HANDLE,
        SPARSE_DESCRIPTOR,
        *tensor("indices"),
        *WORKSPACE,
        *tensor("indice_pairs", "out_indices", "indice_num"),
    ),
    "mluOpGetIndicePairsWorkspaceSize",
    (HANDLE, SPARSE_DESCRIPTOR, *descriptor("indices", "indice_pairs", "out_indices", "indice_num"), ASKED),
)

_INDICE_CONVOLUTION_BACKWARD_DATA: Final = Signature(
    "mluOpIndiceConvolutionBackwardData",
    (
        HANDLE,
        *tensor("output_grad", "filters", "indice_pairs"),
        host_array("indice_num", c_int64),
        *scalar("inverse", "sub_m", ctype=c_int64),
        *WORKSPACE,
        *tensor("input_grad"),
    ),
    "mluOpGetIndiceConvolutionBackwardDataWorkspaceSize",
    (
        HANDLE,
        *descriptor("output_grad", "filters", "indice_pairs", "input_grad"),
        host_array("indice_num", c_int64),
        *scalar("inverse", ctype=c_int64),
        ASKED,
    ),
)

_MASKED_IM2COL_FORWARD: Final = Signature(
    "mluOpMaskedIm2colForward",
    (
        HANDLE,
        *tensor("feature", "mask_h_idx", "mask_w_idx"),
        *scalar("kernel_h", "kernel_w", "pad_h", "pad_w"),
        *WORKSPACE,
        *tensor("data_col"),
    ),
    "mluOpGetMaskedIm2colForwardWorkspaceSize",
    (
        HANDLE,
        *descriptor("feature", "mask_h_idx", "mask_w_idx"),
        *scalar("kernel_h", "kernel_w"),
        *descriptor("data_col"),
        ASKED,
    ),
)

_VOXEL_POOLING_FORWARD: Final = Signature(
    "mluOpVoxelPoolingForward",
    (
        HANDLE,
        *scalar("batch_size", "num_points", "num_channels", "num_voxel_x", "num_voxel_y", "num_voxel_z"),
        *tensor("geom_xyz", "input_features", "output_features", "pos_memo"),
    ),
)

_SCATTERED: Final = (
    "grad_voxel_feats",
    "feats",
    "voxel_feats",
    "point2voxel_map",
    "voxel_points_count",
    "voxel_num",
)
_DYNAMIC_SCATTER_BACKWARD: Final = (
    HANDLE,
    *scalar("reduce_type"),
    *tensor(*_SCATTERED),
    *WORKSPACE,
    *tensor("grad_feats"),
)

# Per operator its signatures under every name it was given; the first that a library exports whole is taken.
SIGNATURES: Final[Mapping[str, tuple[Signature, ...]]] = {
    "get_indice_pairs": (_GET_INDICE_PAIRS,),
    "indice_convolution_backward_data": (_INDICE_CONVOLUTION_BACKWARD_DATA,),
    "masked_im2col_forward": (_MASKED_IM2COL_FORWARD,),
    "voxel_pooling_forward": (_VOXEL_POOLING_FORWARD,),
    "dynamic_scatter_backward": (
        Signature(
            "mluOpDynamicPointToVoxelBackward",
            _DYNAMIC_SCATTER_BACKWARD,
            "mluOpGetDynamicPointToVoxelBackwardWorkspaceSize",
            (HANDLE, *scalar("reduce_type"), *descriptor(*_SCATTERED), ASKED),
        ),
        # The document's own names; its query looks at feats alone.
        Signature(
            "mluOpDynamicScatterBackward",
            _DYNAMIC_SCATTER_BACKWARD,
            "mluOpGetDynamicScatterBackwardWorkspaceSize",
            (HANDLE, *scalar("reduce_type"), *descriptor("feats"), ASKED),
        ),
    ),
}
