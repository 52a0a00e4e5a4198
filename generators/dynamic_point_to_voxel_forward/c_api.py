"""The C functions: §2.2 of the document; coors is writable as in the released header."""

from mluops_gtest.authoring.c_api import (
    ASKED_SIZE,
    HANDLE,
    WORKSPACE,
    WORKSPACE_SIZE,
    CEnum,
    CFunction,
    CSignature,
    descriptor,
    scalar,
    tensor,
)

_REDUCE_TYPE = scalar(
    "reduce_type",
    type=CEnum("mluOpReduceMode_t", {"MLUOP_REDUCE_DSUM": 0, "MLUOP_REDUCE_DMEAN": 1, "MLUOP_REDUCE_DMAX": 2}),
)

C_API = (
    CSignature(
        CFunction(
            "mluOpDynamicPointToVoxelForward",
            (
                HANDLE,
                *_REDUCE_TYPE,
                *tensor("feats"),
                *tensor("coors", writable=True),
                WORKSPACE,
                WORKSPACE_SIZE,
                *tensor("voxel_feats", "voxel_coors", "point2voxel_map", "voxel_points_count", "voxel_num"),
            ),
        ),
        query=CFunction(
            "mluOpGetDynamicPointToVoxelForwardWorkspaceSize", (HANDLE, *descriptor("feats", "coors"), ASKED_SIZE)
        ),
    ),
)
