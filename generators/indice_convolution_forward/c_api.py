"""The C functions: §2.2 of the document."""

from mluops_gtest.authoring.c_api import (
    ASKED_SIZE,
    HANDLE,
    WORKSPACE,
    WORKSPACE_SIZE,
    CFunction,
    CSignature,
    CType,
    descriptor,
    host_array,
    scalar,
    tensor,
)

_COUNTS_AND_MODES = (
    *host_array("indice_num", type=CType.INT64),
    *scalar("num_active_out", "inverse", "sub_m", type=CType.INT64),
)

C_API = (
    CSignature(
        CFunction(
            "mluOpIndiceConvolutionForward",
            (
                HANDLE,
                *tensor("features", "filters", "indice_pairs"),
                *_COUNTS_AND_MODES,
                WORKSPACE,
                WORKSPACE_SIZE,
                *tensor("features_out"),
            ),
        ),
        # §2.2 prints the size as a value; a query needs somewhere to write it.
        query=CFunction(
            "mluOpGetIndiceConvolutionForwardWorkspaceSize",
            (
                HANDLE,
                *descriptor("features", "filters", "indice_pairs", "features_out"),
                *_COUNTS_AND_MODES,
                ASKED_SIZE,
            ),
        ),
    ),
)
