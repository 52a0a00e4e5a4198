"""The C functions: §2.2 of the document."""

from mluops_gtest.authoring.c_api import (
    ASKED_SIZE,
    HANDLE,
    WORKSPACE,
    WORKSPACE_SIZE,
    CFunction,
    CSignature,
    descriptor,
    scalar,
    tensor,
)

C_API = (
    CSignature(
        CFunction(
            "mluOpMaskedIm2colForward",
            (
                HANDLE,
                *tensor("feature", "mask_h_idx", "mask_w_idx"),
                *scalar("kernel_h", "kernel_w", "pad_h", "pad_w"),
                WORKSPACE,
                WORKSPACE_SIZE,
                *tensor("data_col"),
            ),
        ),
        query=CFunction(
            "mluOpGetMaskedIm2colForwardWorkspaceSize",
            (
                HANDLE,
                *descriptor("feature", "mask_h_idx", "mask_w_idx"),
                *scalar("kernel_h", "kernel_w"),
                *descriptor("data_col"),
                ASKED_SIZE,
            ),
        ),
    ),
)
