/* voxelization: sorts points into the cells of a grid; voxels are its first cells, each with its first points. */
#include <math.h>
#include <string.h>

#include "bugs.h"
#include "checks.h"
#include "scratch.h"

#define AXES 3

struct arguments {
    mluOpHandle_t handle;
    tensor_desc points_desc, voxel_size_desc, coors_range_desc;
    tensor_desc voxels_desc, coors_desc, counts_desc, voxel_num_desc;
    int32_t max_points, max_voxels, ndim;
    bool deterministic;
    const float *points, *voxel_size, *coors_range; /* [N, F], [3], [6] */
    void *workspace;
    size_t workspace_size;
    float *voxels;                      /* [V, S, F] */
    int32_t *coors, *counts, *voxel_num; /* [V, 3] as z, y, x; [V]; [1] */
};

static bool has_descriptors(const struct arguments *call) {
    return call->points_desc != NULL && call->voxel_size_desc != NULL && call->coors_range_desc != NULL &&
           call->voxels_desc != NULL && call->coors_desc != NULL && call->counts_desc != NULL &&
           call->voxel_num_desc != NULL;
}

/* What operator and query check alike, behind the nulls. */
static int answer_shapes(const struct arguments *call) {
    tensor_desc points = call->points_desc, size = call->voxel_size_desc, range = call->coors_range_desc;
    tensor_desc voxels = call->voxels_desc, coors = call->coors_desc;
    tensor_desc counts = call->counts_desc, voxel_num = call->voxel_num_desc;
    REQUIRE_OR(arch_is_supported(call->handle), MLUOP_STATUS_ARCH_MISMATCH);
    REQUIRE(call->deterministic);

    REQUIRE(points->rank == 2 && size->rank == 1 && has_length(size, 0, AXES));
    REQUIRE(range->rank == 1 && has_length(range, 0, 2 * AXES));
    REQUIRE(voxels->rank == 3 && has_length(voxels, 0, call->max_voxels) && has_length(voxels, 1, call->max_points));
    REQUIRE(has_length(voxels, 2, points->dims[1]));
    REQUIRE(coors->rank == 2 && has_length(coors, 0, call->max_voxels) && has_length(coors, 1, AXES));
    REQUIRE(counts->rank == 1 && has_length(counts, 0, call->max_voxels));
    REQUIRE(voxel_num->rank == 1 && has_length(voxel_num, 0, 1));
    REQUIRE(call->ndim == AXES);

    REQUIRE_OR(!is_strided(points) && !is_strided(size) && !is_strided(range), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_strided(voxels) && !is_strided(coors) && !is_strided(counts), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE(points->dtype == MLUOP_DTYPE_FLOAT && size->dtype == MLUOP_DTYPE_FLOAT);
    REQUIRE(range->dtype == MLUOP_DTYPE_FLOAT && voxels->dtype == MLUOP_DTYPE_FLOAT);
    REQUIRE(coors->dtype == MLUOP_DTYPE_INT32 && counts->dtype == MLUOP_DTYPE_INT32);
    REQUIRE(voxel_num->dtype == MLUOP_DTYPE_INT32);

    REQUIRE_OR(!is_large(points) && !is_large(coors), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE(!is_empty(points));
    return COMPUTES;
}

static int answer(const struct arguments *call) {
    REQUIRE(call->handle != NULL && has_descriptors(call));
    int status = answer_shapes(call);
    REQUIRE_OR(status == COMPUTES, status);
    REQUIRE(call->workspace != NULL || call->workspace_size == 0);
    REQUIRE_OR(call->max_points != 0 && call->max_voxels != 0, MLUOP_STATUS_SUCCESS);
    REQUIRE(call->points != NULL && call->voxel_size != NULL && call->coors_range != NULL);
    REQUIRE(call->voxels != NULL && call->coors != NULL && call->counts != NULL && call->voxel_num != NULL);
    return COMPUTES;
}

/* A power of two, at least twice as many as there may be voxels. */
static size_t table_length(const struct arguments *call) {
    size_t voxels = (size_t)call->max_voxels, points = (size_t)call->points_desc->dims[0], length = 2;
    while (length < 2 * (points < voxels ? points : voxels)) length *= 2;
    return length;
}

/* Writes the cell as z, y, x; false where it is none of the grid's. */
static bool find_cell(const struct arguments *call, const float *point, int32_t cell[AXES]) {
    const float *low = call->coors_range, *high = call->coors_range + AXES;
    for (int axis = 0; axis < AXES; axis++) {
        float place = floorf((point[axis] - low[axis]) / call->voxel_size[axis]);
        /* roundf takes halves away from zero. */
        if (!(place >= 0.0f && place < roundf((high[axis] - low[axis]) / call->voxel_size[axis]))) return false;
        cell[AXES - 1 - axis] = (int32_t)place;
    }
    return true;
}

/* Where the table has the cell's voxel, or has room for it. */
static size_t find_slot(const struct arguments *call, const int32_t *table, size_t length, const int32_t cell[AXES]) {
    uint64_t hash = 0;
    for (int axis = 0; axis < AXES; axis++) hash = (hash ^ (uint32_t)cell[axis]) * UINT64_C(0x9E3779B97F4A7C15);
    size_t slot = (size_t)(hash >> 32) & (length - 1);
    while (table[slot] >= 0 && memcmp(call->coors + (int64_t)AXES * table[slot], cell, AXES * sizeof *cell) != 0) {
        slot = (slot + 1) & (length - 1);
    }
    return slot;
}

static mluOpStatus_t compute(const struct arguments *call) {
    int64_t points = call->points_desc->dims[0], features = call->points_desc->dims[1];
    size_t length = table_length(call);
    int32_t *table = scratch_take(call->workspace, call->workspace_size, length * sizeof *table);
    if (table == NULL) return MLUOP_STATUS_ALLOC_FAILED;
    /* Every byte of −1. */
    memset(table, 0xff, length * sizeof *table);
    memset(call->voxels, 0, (size_t)element_count(call->voxels_desc) * sizeof *call->voxels);
    memset(call->coors, 0, (size_t)element_count(call->coors_desc) * sizeof *call->coors);
    memset(call->counts, 0, (size_t)element_count(call->counts_desc) * sizeof *call->counts);
    int32_t voxel_num = 0;
    for (int64_t point = 0; point < points; point++) {
        const float *row = call->points + point * features;
        int32_t cell[AXES];
        if (!find_cell(call, row, cell)) continue;
        size_t slot = find_slot(call, table, length, cell);
        if (table[slot] < 0) {
            /* Later points of the voxels that are there still count. */
            if (voxel_num == call->max_voxels) continue;
            memcpy(call->coors + (int64_t)AXES * voxel_num, cell, sizeof cell);
            table[slot] = voxel_num++;
        }
        int32_t voxel = table[slot];
        if (call->counts[voxel] == call->max_points) continue;
        int64_t place = (int64_t)voxel * call->max_points + call->counts[voxel]++;
        memcpy(call->voxels + place * features, row, (size_t)features * sizeof *row);
    }
    *call->voxel_num = voxel_num;
    scratch_release(table, call->workspace);
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpGetVoxelizationWorkspaceSize(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t points_desc, const mluOpTensorDescriptor_t voxel_size_desc,
    const mluOpTensorDescriptor_t coors_range_desc, const int max_points, const int max_voxels, const int ndim,
    const bool deterministic, const mluOpTensorDescriptor_t voxels_desc, const mluOpTensorDescriptor_t coors_desc,
    const mluOpTensorDescriptor_t num_points_per_voxel_desc, const mluOpTensorDescriptor_t voxel_num_desc,
    size_t *workspace_size) {
    BUGS_QUERY(points_desc, workspace_size);
    struct arguments call = {handle, points_desc, voxel_size_desc, coors_range_desc, voxels_desc, coors_desc,
                             num_points_per_voxel_desc, voxel_num_desc, max_points, max_voxels, ndim, deterministic,
                             .workspace = NULL};
    REQUIRE(handle != NULL && has_descriptors(&call) && workspace_size != NULL);
    int status = answer_shapes(&call);
    REQUIRE_OR(status == COMPUTES, (mluOpStatus_t)status);
    /* Without a place nothing is written here either. */
    if (max_points != 0 && max_voxels != 0) *workspace_size = table_length(&call) * sizeof(int32_t);
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpVoxelization(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t points_desc, const void *points,
    const mluOpTensorDescriptor_t voxel_size_desc, const void *voxel_size,
    const mluOpTensorDescriptor_t coors_range_desc, const void *coors_range, const int max_points,
    const int max_voxels, const int ndim, const bool deterministic, void *workspace, const size_t workspace_size,
    const mluOpTensorDescriptor_t voxels_desc, void *voxels, const mluOpTensorDescriptor_t coors_desc, void *coors,
    const mluOpTensorDescriptor_t num_points_per_voxel_desc, void *num_points_per_voxel,
    const mluOpTensorDescriptor_t voxel_num_desc, void *voxel_num) {
    struct arguments call = {handle, points_desc, voxel_size_desc, coors_range_desc, voxels_desc, coors_desc,
                             num_points_per_voxel_desc, voxel_num_desc, max_points, max_voxels, ndim, deterministic,
                             points, voxel_size, coors_range, workspace, workspace_size, voxels, coors,
                             num_points_per_voxel, voxel_num};
    int status = answer(&call);
    if (status == COMPUTES) {
        BUGS_BEFORE(voxels, sizeof(float), element_count(voxels_desc), points, workspace, workspace_size);
        status = compute(&call);
        BUGS_AFTER();
    }
    return BUGS_STATUS((mluOpStatus_t)status);
}
