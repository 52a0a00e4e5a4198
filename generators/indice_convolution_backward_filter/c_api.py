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

C_API = (
    CSignature(
        CFunction(
            "mluOpIndiceConvolutionBackwardFilter",
            (
                HANDLE,
                *tensor("features", "output_grad", "indice_pairs"),
                *host_array("indice_num", type=CType.INT64),
                *scalar("inverse", "sub_m", type=CType.INT64),
                WORKSPACE,
                WORKSPACE_SIZE,
                *tensor("filters_grad"),
            ),
        ),
        query=CFunction(
            "mluOpGetIndiceConvolutionBackwardFilterWorkspaceSize",
            (
                HANDLE,
                *descriptor("features", "output_grad", "indice_pairs", "filters_grad"),
                *host_array("indice_num", type=CType.INT64),
                *scalar("inverse", "sub_m", type=CType.INT64),
                ASKED_SIZE,
            ),
        ),
    ),
)
