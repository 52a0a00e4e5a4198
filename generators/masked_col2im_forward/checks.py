"""The parameter checks in their normative order; the device's architecture is not among them."""

from mluops_gtest.authoring import SIZE_NULL, DType, Layout, OpCall, QueryChecks, Status
from mluops_gtest.authoring.checks import (
    contiguous,
    descriptors_present,
    dim,
    dtype,
    handle_present,
    layout,
    names_before,
    not_empty,
    not_large,
    pointers_present,
    rank,
    require,
    same_dtype,
    workspace_present,
)

TENSORS = ("col", "mask_h_idx", "mask_w_idx", "im")


def _masks(call: OpCall) -> int:
    return call.tensor("mask_h_idx").dims[0]


CHECKS = (
    handle_present("§3.7"),
    *descriptors_present(TENSORS, "§3.7"),
    rank("col", 2, "§1.1"),
    rank("im", 4, "§1.1"),
    rank("mask_h_idx", 1, "§1.1"),
    rank("mask_w_idx", 1, "§1.1"),
    layout("im", (Layout.NCHW,), "§1.4"),
    dtype("col", (DType.FLOAT, DType.HALF), "§1.4"),
    same_dtype("im", "col", "§1.4"),
    dtype("mask_h_idx", (DType.INT32,), "§1.4"),
    dtype("mask_w_idx", (DType.INT32,), "§1.4"),
    dim("im", 0, 1, "im must hold one image", "§1.4"),
    dim("mask_w_idx", 0, _masks, "mask_w_idx must be as long as mask_h_idx", "§1.4"),
    dim("col", 1, _masks, "col must have one column per mask position", "§1.4"),
    dim("col", 0, lambda call: call.tensor("im").dims[1], "col must have one row per channel of im", "§1.4"),
    *contiguous(TENSORS, "§1.4"),
    # mask_w_idx is as long as mask_h_idx. All three answer alike, so their order is free: mask_h_idx comes last because
    # it alone can be large where im, which is asked next, is empty.
    *not_large(("col", "im", "mask_h_idx"), "released"),
    # §1.1: an image without elements is an error, no mask position is not.
    not_empty("im", "§1.1", Status.BAD_PARAM),
    require(
        "col_dim0_empty",
        lambda call: call.tensor("col").dims[0] != 0,
        "col must have rows",
        "§1.1",
        subsumed="col has a row per channel of im, so im is empty",
    ),
    # §1.1 says no more than SUCCESS; the operator owns all of im, so it is cleared without masks, too.
    not_empty("mask_h_idx", "§1.1", writes=True),
    workspace_present("§3.7"),
    *pointers_present(TENSORS, "§3.7"),
)

# As released: the size is asked for behind the handle, then come the operator's own checks up to the early return.
_HANDLE, *_REST = names_before("workspace_null", CHECKS)
QUERIES = {"mluOpGetMaskedCol2imForwardWorkspaceSize": QueryChecks((_HANDLE, SIZE_NULL, *_REST))}

# Without one of these another check answers with the same status.
ANSWERED_ANYWAY: dict[str, str] = {}

# Pairs for which a bounded search found no call that breaks both: most exclude each other (a tensor without elements
# is neither strided nor large), the others are not proved to.
NOT_TOGETHER = {
    "col_dim1": (
        "mask_h_idx_large",
        "mask_h_idx_empty",
    ),
    "col_strided": ("mask_h_idx_empty",),
    "mask_h_idx_strided": ("mask_h_idx_empty",),
    "mask_w_idx_strided": ("mask_h_idx_empty",),
    "im_strided": ("im_empty",),
    "col_large": ("mask_h_idx_empty",),
    "im_large": ("im_empty",),
    "mask_h_idx_large": ("mask_h_idx_empty",),
    "mask_h_idx_empty": ("im_ptr_null",),
}
