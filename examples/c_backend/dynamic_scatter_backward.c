/* dynamic_scatter_backward, released as dynamic_point_to_voxel_backward: the gradient of each voxel and channel goes to
 * the first point that holds the voxel's maximum; everything else is 0. */
#include <string.h>

#include "bugs.h"
#include "checks.h"
#include "scratch.h"

struct arguments {
    mluOpHandle_t handle;
    mluOpReduceMode_t reduce_type;
    tensor_desc grad_voxel_feats_desc, feats_desc, voxel_feats_desc;
    tensor_desc point2voxel_map_desc, voxel_points_count_desc, voxel_num_desc, grad_feats_desc;
    const float *grad_voxel_feats, *feats, *voxel_feats; /* [M, C], [N, C], [M, C] */
    const int32_t *point2voxel_map, *voxel_points_count, *voxel_num;
    void *workspace;
    size_t workspace_size;
    float *grad_feats; /* [N, C] */
};

/* §3.1, kernel 1: 5N + 20C + 4 bytes on the chip; divided first, because C may be anything where N is 0. */
static bool fits_nram(mluOpHandle_t handle, tensor_desc feats) {
    int64_t points = feats->dims[0], channels = feats->dims[1], bytes = handle->nram_bytes;
    return points <= bytes / 5 && channels <= bytes / 20 && 5 * points + 20 * channels + 4 <= bytes;
}

static bool may_be_read(const void *data, tensor_desc desc) { return data != NULL || is_empty(desc); }

static int answer(const struct arguments *call) {
    tensor_desc gradient = call->grad_voxel_feats_desc, feats = call->feats_desc, voxels = call->voxel_feats_desc;
    tensor_desc map = call->point2voxel_map_desc, counts = call->voxel_points_count_desc;
    tensor_desc voxel_num = call->voxel_num_desc, output = call->grad_feats_desc;
    REQUIRE(call->handle != NULL);
    REQUIRE_OR(arch_is_supported(call->handle), MLUOP_STATUS_ARCH_MISMATCH);
    REQUIRE(gradient != NULL && feats != NULL && voxels != NULL && map != NULL);
    REQUIRE(counts != NULL && voxel_num != NULL && output != NULL);

    REQUIRE_OR(!is_strided(gradient) && !is_strided(feats) && !is_strided(voxels), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_strided(map) && !is_strided(counts), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_strided(voxel_num) && !is_strided(output), MLUOP_STATUS_NOT_SUPPORTED);

    REQUIRE(gradient->dtype == MLUOP_DTYPE_FLOAT && feats->dtype == MLUOP_DTYPE_FLOAT);
    REQUIRE(voxels->dtype == MLUOP_DTYPE_FLOAT && output->dtype == MLUOP_DTYPE_FLOAT);
    REQUIRE(map->dtype == MLUOP_DTYPE_INT32 && counts->dtype == MLUOP_DTYPE_INT32);
    REQUIRE(voxel_num->dtype == MLUOP_DTYPE_INT32);
    REQUIRE(gradient->rank == 2 && feats->rank == 2 && voxels->rank == 2 && output->rank == 2);
    REQUIRE(map->rank == 1 && counts->rank == 1 && voxel_num->rank == 1);

    REQUIRE(has_length(feats, 1, gradient->dims[1]));
    REQUIRE(has_length(voxels, 0, gradient->dims[0]) && has_length(voxels, 1, gradient->dims[1]));
    REQUIRE(has_length(map, 0, feats->dims[0]));
    REQUIRE(has_length(counts, 0, gradient->dims[0]));
    REQUIRE(has_length(voxel_num, 0, 1));
    REQUIRE(has_length(output, 0, feats->dims[0]) && has_length(output, 1, feats->dims[1]));
    REQUIRE(feats->dims[0] >= gradient->dims[0]);
    REQUIRE(call->reduce_type == MLUOP_REDUCE_DMAX);

    REQUIRE_OR(!is_large(gradient) && !is_large(feats) && !is_large(voxels), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_large(map) && !is_large(counts), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_large(voxel_num) && !is_large(output), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE(fits_nram(call->handle, feats));
    REQUIRE_OR(!is_empty(output), MLUOP_STATUS_SUCCESS);
    /* No voxels but points is no early return: the tensors of the voxels are empty, all gradients are 0. */
    REQUIRE(may_be_read(call->point2voxel_map, map) && may_be_read(call->voxel_points_count, counts));
    REQUIRE(may_be_read(call->voxel_num, voxel_num) && may_be_read(call->grad_voxel_feats, gradient));
    REQUIRE(may_be_read(call->feats, feats) && may_be_read(call->voxel_feats, voxels));
    REQUIRE(may_be_read(call->grad_feats, output));
    REQUIRE(call->workspace != NULL || call->workspace_size == 0);
    return COMPUTES;
}

static mluOpStatus_t compute(const struct arguments *call) {
    int64_t points = call->feats_desc->dims[0], channels = call->feats_desc->dims[1];
    /* One byte per voxel and channel: its gradient is given away. Points come in ascending order, so the first wins. */
    size_t flags = (size_t)element_count(call->voxel_feats_desc);
    unsigned char *given = scratch_take(call->workspace, call->workspace_size, flags);
    if (given == NULL) return MLUOP_STATUS_ALLOC_FAILED;
    memset(given, 0, flags);
    memset(call->grad_feats, 0, (size_t)(points * channels) * sizeof(float));
    for (int64_t point = 0; point < points; point++) {
        int64_t voxel = call->point2voxel_map[point];
        /* -1 means no voxel, 0 is one (the pseudo-code's `offset > 0` is wrong), and only voxel_num[0] rows count. */
        if (voxel < 0 || voxel >= call->voxel_num[0]) continue;
        const float *feats = call->feats + point * channels;
        const float *maxima = call->voxel_feats + voxel * channels;
        const float *gradients = call->grad_voxel_feats + voxel * channels;
        unsigned char *taken = given + voxel * channels;
        float *output = call->grad_feats + point * channels;
        for (int64_t c = 0; c < channels; c++) {
            /* IEEE equality: -0 meets +0, NaN meets nothing; what no point meets is dropped (§3.2 would write it out
             * of bounds). */
            if (feats[c] == maxima[c] && !taken[c]) {
                taken[c] = 1;
                output[c] = gradients[c];
            }
        }
    }
    scratch_release(given, call->workspace);
    return MLUOP_STATUS_SUCCESS;
}

static mluOpStatus_t scatter(const struct arguments *call) {
    int status = answer(call);
    if (status == COMPUTES) {
        BUGS_BEFORE(call->grad_feats, sizeof(float), element_count(call->grad_feats_desc), call->feats,
                    call->workspace, call->workspace_size);
        status = compute(call);
        BUGS_AFTER();
    }
    return BUGS_STATUS((mluOpStatus_t)status);
}

/* The document's query knows only the points; N >= M makes N*C flags enough for M*C. */
static mluOpStatus_t scratch_bytes(mluOpHandle_t handle, tensor_desc feats, size_t *bytes) {
    REQUIRE(feats != NULL && bytes != NULL && feats->rank == 2);
    REQUIRE_OR(!is_large(feats), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE(fits_nram(handle, feats));
    *bytes = (size_t)element_count(feats);
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpGetDynamicPointToVoxelBackwardWorkspaceSize(
    const mluOpHandle_t handle, const mluOpReduceMode_t reduce_type,
    const mluOpTensorDescriptor_t grad_voxel_feats_desc, const mluOpTensorDescriptor_t feats_desc,
    const mluOpTensorDescriptor_t voxel_feats_desc, const mluOpTensorDescriptor_t point2voxel_map_desc,
    const mluOpTensorDescriptor_t voxel_points_count_desc, const mluOpTensorDescriptor_t voxel_num_desc,
    size_t *workspace_size) {
    BUGS_QUERY(feats_desc, workspace_size);
    REQUIRE(handle != NULL);
    REQUIRE_OR(arch_is_supported(handle), MLUOP_STATUS_ARCH_MISMATCH);
    REQUIRE(grad_voxel_feats_desc != NULL && voxel_feats_desc != NULL && point2voxel_map_desc != NULL);
    REQUIRE(voxel_points_count_desc != NULL && voxel_num_desc != NULL);
    REQUIRE(reduce_type == MLUOP_REDUCE_DMAX);
    return scratch_bytes(handle, feats_desc, workspace_size);
}

mluOpStatus_t mluOpGetDynamicScatterBackwardWorkspaceSize(const mluOpHandle_t handle,
                                                          const mluOpReduceMode_t reduce_type,
                                                          const mluOpTensorDescriptor_t feats_desc,
                                                          size_t *workspace_size) {
    BUGS_QUERY(feats_desc, workspace_size);
    REQUIRE(handle != NULL);
    REQUIRE_OR(arch_is_supported(handle), MLUOP_STATUS_ARCH_MISMATCH);
    REQUIRE(reduce_type == MLUOP_REDUCE_DMAX);
    return scratch_bytes(handle, feats_desc, workspace_size);
}

mluOpStatus_t mluOpDynamicPointToVoxelBackward(
    const mluOpHandle_t handle, const mluOpReduceMode_t reduce_type,
    const mluOpTensorDescriptor_t grad_voxel_feats_desc, const void *grad_voxel_feats,
    const mluOpTensorDescriptor_t feats_desc, const void *feats, const mluOpTensorDescriptor_t voxel_feats_desc,
    const void *voxel_feats, const mluOpTensorDescriptor_t point2voxel_map_desc, const void *point2voxel_map,
    const mluOpTensorDescriptor_t voxel_points_count_desc, const void *voxel_points_count,
    const mluOpTensorDescriptor_t voxel_num_desc, const void *voxel_num, void *workspace, const size_t workspace_size,
    const mluOpTensorDescriptor_t grad_feats_desc, void *grad_feats) {
    return scatter(&(struct arguments){
        .handle = handle,
        .reduce_type = reduce_type,
        .grad_voxel_feats_desc = grad_voxel_feats_desc,
        .feats_desc = feats_desc,
        .voxel_feats_desc = voxel_feats_desc,
        .point2voxel_map_desc = point2voxel_map_desc,
        .voxel_points_count_desc = voxel_points_count_desc,
        .voxel_num_desc = voxel_num_desc,
        .grad_feats_desc = grad_feats_desc,
        .grad_voxel_feats = grad_voxel_feats,
        .feats = feats,
        .voxel_feats = voxel_feats,
        .point2voxel_map = point2voxel_map,
        .voxel_points_count = voxel_points_count,
        .voxel_num = voxel_num,
        .workspace = workspace,
        .workspace_size = workspace_size,
        .grad_feats = grad_feats,
    });
}

mluOpStatus_t mluOpDynamicScatterBackward(
    const mluOpHandle_t handle, const mluOpReduceMode_t reduce_type,
    const mluOpTensorDescriptor_t grad_voxel_feats_desc, const void *grad_voxel_feats,
    const mluOpTensorDescriptor_t feats_desc, const void *feats, const mluOpTensorDescriptor_t voxel_feats_desc,
    const void *voxel_feats, const mluOpTensorDescriptor_t point2voxel_map_desc, const void *point2voxel_map,
    const mluOpTensorDescriptor_t voxel_points_count_desc, const void *voxel_points_count,
    const mluOpTensorDescriptor_t voxel_num_desc, void *voxel_num, void *workspace, const size_t workspace_size,
    const mluOpTensorDescriptor_t grad_feats_desc, void *grad_feats) {
    return mluOpDynamicPointToVoxelBackward(handle, reduce_type, grad_voxel_feats_desc, grad_voxel_feats, feats_desc,
                                            feats, voxel_feats_desc, voxel_feats, point2voxel_map_desc,
                                            point2voxel_map, voxel_points_count_desc, voxel_points_count,
                                            voxel_num_desc, voxel_num, workspace, workspace_size, grad_feats_desc,
                                            grad_feats);
}
