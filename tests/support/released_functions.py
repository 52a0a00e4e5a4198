"""The C functions and messages of the released library that no other table has.

Of a function its arguments in order, behind the handle: `x` is the descriptor and the data of an input, `=y` of an
output, `?z` a descriptor alone.
"""

from typing import Final

_WORKSPACE: Final = "void *workspace, size_t workspace_size"
_SIZE: Final = "size_t *workspace_size"
_ROUTED: Final = "int samples, int capacity, int hidden, int num_experts"
_FOCAL: Final = (
    "mluOpComputationPreference_t prefer, mluOpLossReduction_t reduction, input, target, weight, "
    "float alpha, float gamma"
)
_CELLS: Final = "int max_pts_each_voxel, int out_x, int out_y, int out_z"
_ROIPOINT: Final = "int batch_size, int pts_num, int boxes_num, int feature_in_len, int sampled_pts_num"
_VOXELS: Final = "int max_points, int max_voxels, int NDim, bool deterministic"

_FUNCTIONS: Final = {
    "PointsInBoxes": "points, boxes, =points_indices",
    "RoiAwarePool3dForward": (
        f"int pool_method, int boxes_num, int pts_num, int channels, rois, pts, pts_feature, {_WORKSPACE}, {_CELLS}, "
        "=argmax, =pts_idx_of_voxels, =pooled_features"
    ),
    "GetRoiAwarePool3dForwardWorkspaceSize": f"?rois, ?pts, ?pts_feature, {_SIZE}",
    "RoiAwarePool3dBackward": (
        "int pool_method, int boxes_num, int out_x, int out_y, int out_z, int channels, int max_pts_each_voxel, "
        "pts_idx_of_voxels, argmax, grad_out, =grad_in"
    ),
    "RoiPointPool3d": (
        f"{_ROIPOINT}, points, point_features, boxes3d, {_WORKSPACE}, =pooled_features, =pooled_empty_flag"
    ),
    "GetRoiPointPool3dWorkspaceSize": (
        f"{_ROIPOINT}, ?points, ?point_features, ?boxes3d, ?pooled_features, ?pooled_empty_flag, {_SIZE}"
    ),
    "Voxelization": (
        f"points, voxel_size, coors_range, {_VOXELS}, {_WORKSPACE}, =voxels, =coors, =num_points_per_voxel, =voxel_num"
    ),
    "GetVoxelizationWorkspaceSize": (
        f"?points, ?voxel_size, ?coors_range, {_VOXELS}, ?voxels, ?coors, ?num_points_per_voxel, ?voxel_num, {_SIZE}"
    ),
    "BboxOverlaps": "int mode, bool aligned, int offset, bbox1, bbox2, =ious",
    "ActiveRotatedFilterForward": f"input, indices, {_WORKSPACE}, =output",
    "GetActiveRotatedFilterForwardWorkspaceSize": f"?input, {_SIZE}",
    "MsDeformAttnForward": (
        "data_value, data_spatial_shapes, data_level_start_index, data_sampling_loc, data_attn_weight, "
        "int im2col_step, =data_col"
    ),
    "Abs": "x, =y",
    "Sqrt": "mluOpComputationPreference_t prefer, x, =y",
    "Div": "mluOpComputationPreference_t prefer, x, y, =z",
    "PsamaskForward": "int psa_type, x, int h_mask, int w_mask, =y",
    "PsamaskBackward": "int psa_type, dy, int h_mask, int w_mask, =dx",
    "TinShiftForward": "input, shifts, =output",
    "TinShiftBackward": "grad_output, shifts, =grad_input",
    "MoeDispatchForward": f"gates, indices, locations, input, {_ROUTED}, =dispatch",
    "MoeDispatchBackwardData": f"gates, indices, locations, dispatch, {_ROUTED}, =grad_input",
    "MoeDispatchBackwardGate": f"indices, locations, input, dispatch, {_ROUTED}, {_WORKSPACE}, =grad_gates",
    "GetMoeDispatchBackwardGateWorkspaceSize": f"?input, {_SIZE}",
    "FocalLossSigmoidForward": f"{_FOCAL}, =output",
    "FocalLossSigmoidBackward": f"{_FOCAL}, =grad_input",
}
# The release before this one called them so.
DEPRECATED: Final = {
    "mluOpRoiAwarePool3dForward": "mluOpRoiawarePool3dForward",
    "mluOpGetRoiAwarePool3dForwardWorkspaceSize": "mluOpGetRoiawarePool3dForwardWorkspaceSize",
    "mluOpRoiAwarePool3dBackward": "mluOpRoiawarePool3dBackward",
}


def released_functions() -> dict[str, list[str]]:
    """By name the arguments as C has them."""
    functions = {f"mluOp{name}": _arguments(words.split(", ")) for name, words in _FUNCTIONS.items()}
    return functions | {old: functions[new] for new, old in DEPRECATED.items()}


def _arguments(words: list[str]) -> list[str]:
    arguments = ["mluOpHandle_t handle"]
    for word in words:
        name = word.lstrip("=?")
        if " " in word:
            arguments.append(word)
            continue
        arguments.append(f"const mluOpTensorDescriptor_t {name}_desc")
        if not word.startswith("?"):
            arguments.append(f"void *{name}" if word.startswith("=") else f"const void *{name}")
    return arguments


# Message → the field of Node with its number; then number, name, type, label, and the default where the schema has one.
_SCALARS: Final = "1 samples, 2 capacity, 3 hidden, 4 num_experts"
_MASKS: Final = "1 h_mask int32 required, 2 w_mask int32 required, 3 psa_type int32 required"
_PREFER: Final = "prefer ComputationPreference optional COMPUTATION_HIGH_PRECISION"
_LOSS: Final = "reduction LossReduction required LOSS_REDUCTION_NONE"
RELEASED_MESSAGES: Final = {
    "RoiawarePool3dForwardParam": (
        "roiaware_pool3d_forward_param 10120",
        (
            "1 pool_method int32 optional 0, 2 boxes_num, 3 pts_num, 4 channels, "
            "5 max_pts_each_voxel int32 optional 128, 6 out_x, 7 out_y, 8 out_z"
        ),
    ),
    "RoiawarePool3dBackwardParam": (
        "roiaware_pool3d_backward_param 10121",
        (
            "1 pool_method int32 optional 0, 2 boxes_num, 3 out_x, 4 out_y, 5 out_z, 6 channels, "
            "7 max_pts_each_voxel int32 optional 128"
        ),
    ),
    "RoiPointPool3dParam": ("roipoint_pool3d_param 16002", "1 num_sampled_points int32 optional 512"),
    "VoxelizationParam": (
        "voxelization_param 6564",
        (
            "1 max_points int32 optional 35, 2 max_voxels int32 optional 20000, 3 ndim int32 optional 3, "
            "4 deterministic bool optional true"
        ),
    ),
    "BboxOverlapsParam": (
        "bbox_overlaps_param 2041",
        "1 mode int32 optional 0, 2 aligned bool optional false, 3 offset int32 optional 0",
    ),
    "MsDeformAttnForwardParam": ("ms_deform_attn_forward_param 16005", "1 im2col_step int32 optional 64"),
    "SqrtParam": ("sqrt_param 4003", f"1 {_PREFER}"),
    "DivParam": ("div_param 4001", f"1 {_PREFER}"),
    "PsamaskForwardParam": ("psamask_forward_param 134658", _MASKS),
    "PsamaskBackwardParam": ("psamask_backward_param 134659", _MASKS),
    "MoeDispatchForwardParam": ("moe_dispatch_forward_param 23333", _SCALARS),
    "MoeDispatchBackwardDataParam": ("moe_dispatch_backward_data_param 20230216", _SCALARS),
    "MoeDispatchBackwardGateParam": ("moe_dispatch_backward_gate_param 135246", _SCALARS),
    "FocalLossSigmoidForwardParam": (
        "focal_loss_sigmoid_forward_param 15000",
        f"999 {_PREFER}, 1 {_LOSS}, 2 alpha float required 0.25, 3 gamma float required 2",
    ),
    "FocalLossSigmoidBackwardParam": (
        "focal_loss_sigmoid_backward_param 12322",
        f"1 {_PREFER}, 2 {_LOSS}, 3 alpha float required 0.25, 4 gamma float required 2",
    ),
}


def released_fields(message: str) -> dict[int, tuple[str, str, str, str]]:
    """The fields of a released message by number: name, type, label, default; "" where there is none."""
    fields = {}
    for words in RELEASED_MESSAGES[message][1].split(", "):
        number, name, *rest = words.split()
        kind, label, default = [*rest, "int32", "optional", ""][:3] if not rest else [*rest, ""][:3]
        fields[int(number)] = (name, kind, label, default)
    return fields
