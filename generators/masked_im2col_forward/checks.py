"""The parameter checks in their normative order; the device's architecture is not among them."""

from mluops_gtest.authoring import SIZE_NULL, Check, DType, Layout, OpCall, QueryChecks, Status
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

TENSORS = ("feature", "mask_h_idx", "mask_w_idx", "data_col")


def _masks(call: OpCall) -> int:
    return call.tensor("mask_h_idx").dims[0]


def _window_rows(call: OpCall) -> int:
    rows: int = call.tensor("feature").dims[1] * call.param("kernel_h") * call.param("kernel_w")
    return rows


def _not_large(tensor: str, subsumed: str | None = None) -> Check:
    (check,) = not_large((tensor,), "released")
    return require(check.name, check.holds, check.message, check.doc, check.status, subsumed)


CHECKS = (
    handle_present("§3.7"),
    *descriptors_present(TENSORS, "§3.7"),
    layout("feature", (Layout.NCHW,), "§1.4"),
    rank("feature", 4, "§1.1"),
    dtype("feature", (DType.FLOAT, DType.HALF), "§1.4"),
    same_dtype("data_col", "feature", "§1.4"),
    dtype("mask_h_idx", (DType.INT32,), "§1.4"),
    dtype("mask_w_idx", (DType.INT32,), "§1.4"),
    rank("mask_h_idx", 1, "§1.1"),
    rank("mask_w_idx", 1, "§1.1"),
    dim("mask_w_idx", 0, _masks, "mask_w_idx must be as long as mask_h_idx", "§1.4"),
    dim("feature", 0, 1, "feature must hold one image", "§1.4"),
    rank("data_col", 2, "§1.1"),
    dim("data_col", 0, _window_rows, "data_col must have C·kernel_h·kernel_w rows", "§1.4"),
    dim("data_col", 1, _masks, "data_col must have one column per mask position", "§1.4"),
    require("kernel_h", lambda call: call.param("kernel_h") > 0, "kernel_h must be positive", "§3.7"),
    require("kernel_w", lambda call: call.param("kernel_w") > 0, "kernel_w must be positive", "§3.7"),
    *contiguous(TENSORS, "§1.4"),
    _not_large("feature"),
    _not_large("mask_h_idx"),
    _not_large("mask_w_idx", subsumed="mask_w_idx is as long as mask_h_idx, which is checked first"),
    _not_large("data_col"),
    # §1.1: no feature is an error, no mask position is not.
    not_empty("feature", "§1.1", Status.BAD_PARAM),
    require(
        "data_col_dim0_empty",
        lambda call: call.tensor("data_col").dims[0] != 0,
        "data_col must have rows",
        "§1.1",
        subsumed="data_col has C·kernel_h·kernel_w rows and the kernel is positive, so C is 0 and feature is empty",
    ),
    not_empty("mask_h_idx", "§1.1"),
    workspace_present("§3.7"),
    *pointers_present(TENSORS, "§3.7"),
)

# The operator's own checks up to the early return. No case breaks another check beside the size, whose place is open.
QUERIES = {
    "mluOpGetMaskedIm2colForwardWorkspaceSize": QueryChecks((SIZE_NULL, *names_before("workspace_null", CHECKS)))
}

# Without one of these another check answers with the same status.
ANSWERED_ANYWAY = {
    "kernel_h": "0 leaves data_col without rows; below 0 only a kernel_w below 0 lets data_col have rows",
    "mask_h_idx_large": "mask_w_idx is as long",
}

# Pairs for which a bounded search found no call that breaks both: most exclude each other (a tensor without elements
# is neither strided nor large), the others are not proved to.
NOT_TOGETHER = {
    "data_col_dim1": (
        "mask_h_idx_large",
        "mask_h_idx_empty",
    ),
    "kernel_w": (
        "data_col_strided",
        "data_col_large",
    ),
    "feature_strided": ("feature_empty",),
    "mask_h_idx_strided": ("mask_h_idx_empty",),
    "mask_w_idx_strided": ("mask_h_idx_empty",),
    "data_col_strided": ("mask_h_idx_empty",),
    "feature_large": ("feature_empty",),
    "mask_h_idx_large": ("mask_h_idx_empty",),
    "data_col_large": ("mask_h_idx_empty",),
}
