"""The C functions: §2.2 of the document; the workspace stands between inputs and outputs."""

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
            "mluOpThreeNNForward",
            (HANDLE, *tensor("unknown", "known"), WORKSPACE, WORKSPACE_SIZE, *tensor("dist2", "idx")),
        ),
        query=CFunction("mluOpGetThreeNNForwardWorkspaceSize", (HANDLE, *descriptor("known"), ASKED_SIZE)),
    ),
)
