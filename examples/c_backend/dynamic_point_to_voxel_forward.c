/* dynamic_point_to_voxel_forward: points of one voxel become one row, the mean or the maximum of their features. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bugs.h"
#include "checks.h"
#include "scratch.h"

struct arguments {
    mluOpHandle_t handle;
    mluOpReduceMode_t reduce_type;
    tensor_desc feats_desc, coors_desc;
    tensor_desc voxel_feats_desc, voxel_coors_desc, point2voxel_map_desc, voxel_points_count_desc, voxel_num_desc;
    const float *feats; /* [N, C] */
    int32_t *coors;     /* [N, 3] */
    void *workspace;
    size_t workspace_size;
    float *voxel_feats;                                                      /* [M, C] */
    int32_t *voxel_coors, *point2voxel_map, *voxel_points_count, *voxel_num; /* [M, 3], [N], [M], [1] */
};

/* A valid point with its coordinates, to be sorted. */
struct place {
    int32_t coors[3];
    int32_t point;
};

static int answer(const struct arguments *call) {
    tensor_desc feats = call->feats_desc, coors = call->coors_desc;
    tensor_desc voxel_feats = call->voxel_feats_desc, voxel_coors = call->voxel_coors_desc;
    tensor_desc map = call->point2voxel_map_desc, counts = call->voxel_points_count_desc;
    tensor_desc voxel_num = call->voxel_num_desc;
    REQUIRE(call->handle != NULL);
    REQUIRE_OR(arch_is_supported(call->handle), MLUOP_STATUS_ARCH_MISMATCH);
    REQUIRE(feats != NULL && coors != NULL && voxel_feats != NULL && voxel_coors != NULL);
    REQUIRE(map != NULL && counts != NULL && voxel_num != NULL);

    REQUIRE(feats->rank == 2 && coors->rank == 2 && voxel_feats->rank == 2 && voxel_coors->rank == 2);
    REQUIRE(map->rank == 1 && counts->rank == 1 && voxel_num->rank == 1);
    REQUIRE_OR(!is_strided(feats) && !is_strided(coors) && !is_strided(voxel_feats), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_strided(voxel_coors) && !is_strided(map), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_strided(counts) && !is_strided(voxel_num), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE(feats->dtype == MLUOP_DTYPE_FLOAT && coors->dtype == MLUOP_DTYPE_INT32);
    REQUIRE(map->dtype == MLUOP_DTYPE_INT32);
    REQUIRE(voxel_feats->dtype == feats->dtype && voxel_coors->dtype == coors->dtype);
    REQUIRE(counts->dtype == map->dtype && voxel_num->dtype == map->dtype);
    REQUIRE(call->reduce_type == MLUOP_REDUCE_DMAX || call->reduce_type == MLUOP_REDUCE_DMEAN);

    REQUIRE(has_length(coors, 0, feats->dims[0]) && has_length(map, 0, feats->dims[0]));
    REQUIRE(has_length(voxel_coors, 0, voxel_feats->dims[0]) && has_length(counts, 0, voxel_feats->dims[0]));
    REQUIRE(has_length(voxel_num, 0, 1));
    REQUIRE(has_length(voxel_feats, 1, feats->dims[1]));
    REQUIRE(has_length(voxel_coors, 1, coors->dims[1]) && has_length(coors, 1, 3));
    /* §3.7 prints num_points >= num_feats; the rows of the voxels are meant. */
    REQUIRE(feats->dims[0] >= voxel_feats->dims[0]);

    REQUIRE_OR(!is_large(feats) && !is_large(coors), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_empty(feats), MLUOP_STATUS_SUCCESS);
    REQUIRE(call->workspace != NULL || call->workspace_size == 0);
    REQUIRE(call->feats != NULL && call->coors != NULL && call->voxel_feats != NULL && call->voxel_coors != NULL);
    REQUIRE(call->point2voxel_map != NULL && call->voxel_points_count != NULL && call->voxel_num != NULL);
    return COMPUTES;
}

static int compare_rows(const int32_t left[3], const int32_t right[3]) {
    for (int column = 0; column < 3; column++) {
        if (left[column] != right[column]) return left[column] < right[column] ? -1 : 1;
    }
    return 0;
}

/* Points of one voxel in ascending order: sums are then the same on every machine. */
static int compare_places(const void *left, const void *right) {
    const struct place *first = left, *second = right;
    int order = compare_rows(first->coors, second->coors);
    return order != 0 ? order : (first->point > second->point) - (first->point < second->point);
}

/* The valid points, unsorted. Rows of invalid ones become -1 where they stand, as on the device. */
static int64_t collect_valid(const struct arguments *call, struct place *places) {
    int64_t points = call->coors_desc->dims[0], valid = 0;
    for (int64_t point = 0; point < points; point++) {
        int32_t *row = call->coors + 3 * point;
        /* §3.1.2 prints `gt 0`, which would drop coordinate 0; §1.2 is right. */
        if (row[0] < 0 || row[1] < 0 || row[2] < 0) {
            row[0] = row[1] = row[2] = -1;
            call->point2voxel_map[point] = -1;
        } else {
            places[valid++] = (struct place){{row[0], row[1], row[2]}, (int32_t)point};
        }
    }
    return valid;
}

/* One row of voxel_feats from the features of `count` points. */
static void reduce(const struct arguments *call, const struct place *places, int64_t count, float *restrict row) {
    int64_t channels = call->feats_desc->dims[1];
    bool mean = call->reduce_type == MLUOP_REDUCE_DMEAN;
    for (int64_t channel = 0; channel < channels; channel++) row[channel] = mean ? 0.0f : -INFINITY;
    for (int64_t index = 0; index < count; index++) {
        const float *restrict feats = call->feats + places[index].point * channels;
        if (mean) {
            for (int64_t channel = 0; channel < channels; channel++) row[channel] += feats[channel];
        } else {
            /* NaN is never larger. */
            for (int64_t channel = 0; channel < channels; channel++) {
                if (feats[channel] > row[channel]) row[channel] = feats[channel];
            }
        }
    }
    if (mean) {
        for (int64_t channel = 0; channel < channels; channel++) row[channel] /= (float)count;
    }
}

static mluOpStatus_t compute(const struct arguments *call) {
    int64_t points = call->feats_desc->dims[0], channels = call->feats_desc->dims[1];
    size_t bytes = (size_t)points * sizeof(struct place);
    struct place *places = scratch_take(call->workspace, call->workspace_size, bytes);
    if (places == NULL) return MLUOP_STATUS_ALLOC_FAILED;
    int64_t valid = collect_valid(call, places);
    qsort(places, (size_t)valid, sizeof *places, compare_places);
    int32_t voxel = 0;
    for (int64_t begin = 0, end; begin < valid; begin = end, voxel++) {
        for (end = begin; end < valid && compare_rows(places[end].coors, places[begin].coors) == 0; end++) {
            call->point2voxel_map[places[end].point] = voxel;
        }
        memcpy(call->voxel_coors + 3 * (int64_t)voxel, places[begin].coors, sizeof places[begin].coors);
        call->voxel_points_count[voxel] = (int32_t)(end - begin);
        reduce(call, places + begin, end - begin, call->voxel_feats + voxel * channels);
    }
    *call->voxel_num = voxel;
    scratch_release(places, call->workspace);
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpGetDynamicPointToVoxelForwardWorkspaceSize(mluOpHandle_t handle,
                                                              const mluOpTensorDescriptor_t feats_desc,
                                                              const mluOpTensorDescriptor_t coors_desc,
                                                              size_t *workspace_size) {
    BUGS_QUERY(feats_desc, workspace_size);
    REQUIRE(handle != NULL);
    REQUIRE_OR(arch_is_supported(handle), MLUOP_STATUS_ARCH_MISMATCH);
    REQUIRE(feats_desc != NULL && coors_desc != NULL && workspace_size != NULL);
    /* Nothing else is checked here, and what the operator will refuse needs no workspace. */
    bool refused = coors_desc->rank != 2 || is_large(coors_desc);
    *workspace_size = refused ? 0 : (size_t)coors_desc->dims[0] * sizeof(struct place);
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpDynamicPointToVoxelForward(
    mluOpHandle_t handle, const mluOpReduceMode_t reduce_type, const mluOpTensorDescriptor_t feats_desc,
    const void *feats, const mluOpTensorDescriptor_t coors_desc, void *coors, void *workspace,
    const size_t workspace_size, const mluOpTensorDescriptor_t voxel_feats_desc, void *voxel_feats,
    const mluOpTensorDescriptor_t voxel_coors_desc, void *voxel_coors,
    const mluOpTensorDescriptor_t point2voxel_map_desc, void *point2voxel_map,
    const mluOpTensorDescriptor_t voxel_points_count_desc, void *voxel_points_count,
    const mluOpTensorDescriptor_t voxel_num_desc, void *voxel_num) {
    struct arguments call = {
        .handle = handle,
        .reduce_type = reduce_type,
        .feats_desc = feats_desc,
        .coors_desc = coors_desc,
        .voxel_feats_desc = voxel_feats_desc,
        .voxel_coors_desc = voxel_coors_desc,
        .point2voxel_map_desc = point2voxel_map_desc,
        .voxel_points_count_desc = voxel_points_count_desc,
        .voxel_num_desc = voxel_num_desc,
        .feats = feats,
        .coors = coors,
        .workspace = workspace,
        .workspace_size = workspace_size,
        .voxel_feats = voxel_feats,
        .voxel_coors = voxel_coors,
        .point2voxel_map = point2voxel_map,
        .voxel_points_count = voxel_points_count,
        .voxel_num = voxel_num,
    };
    int status = answer(&call);
    if (status == COMPUTES) {
        /* The map: the one output of several elements that is owned to its end. */
        BUGS_BEFORE(point2voxel_map, sizeof(int32_t), element_count(point2voxel_map_desc), feats, workspace,
                    workspace_size);
        status = compute(&call);
        BUGS_AFTER();
    }
    return BUGS_STATUS((mluOpStatus_t)status);
}
