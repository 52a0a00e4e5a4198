"""The C functions: §2.2 of the document. The size of the workspace comes before the workspace."""

from mluops_gtest.authoring.c_api import (
    ASKED_SIZE,
    HANDLE,
    WORKSPACE,
    WORKSPACE_SIZE,
    CFunction,
    CSignature,
    descriptor,
    tensor,
)

C_API = (
    CSignature(
        CFunction(
            "mluOpMaskedCol2imForward",
            (HANDLE, *tensor("col", "mask_h_idx", "mask_w_idx"), WORKSPACE_SIZE, WORKSPACE, *tensor("im")),
        ),
        query=CFunction(
            "mluOpGetMaskedCol2imForwardWorkspaceSize",
            (HANDLE, *descriptor("col", "mask_h_idx", "mask_w_idx", "im"), ASKED_SIZE),
        ),
    ),
)
