"""The C functions under both names: the released pair first, then the pair that §2.2 of the document prints."""

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
_INPUTS = ("grad_voxel_feats", "feats", "voxel_feats", "point2voxel_map", "voxel_points_count")
_RESULT = (WORKSPACE, WORKSPACE_SIZE, *tensor("grad_feats"))

C_API = (
    CSignature(
        CFunction(
            "mluOpDynamicPointToVoxelBackward",
            (HANDLE, *_REDUCE_TYPE, *tensor(*_INPUTS), *tensor("voxel_num"), *_RESULT),
        ),
        query=CFunction(
            "mluOpGetDynamicPointToVoxelBackwardWorkspaceSize",
            (HANDLE, *_REDUCE_TYPE, *descriptor(*_INPUTS, "voxel_num"), ASKED_SIZE),
        ),
    ),
    CSignature(
        CFunction(
            "mluOpDynamicScatterBackward",
            (HANDLE, *_REDUCE_TYPE, *tensor(*_INPUTS), *tensor("voxel_num", writable=True), *_RESULT),
        ),
        # The document's query looks at feats alone.
        query=CFunction(
            "mluOpGetDynamicScatterBackwardWorkspaceSize",
            (HANDLE, *_REDUCE_TYPE, *descriptor("feats"), ASKED_SIZE),
        ),
    ),
)
