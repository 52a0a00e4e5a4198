/* voxel_pooling_forward: sums the features of all points that fall into the same (batch, y, x) cell. */
#define _POSIX_C_SOURCE 200809L

#include <sched.h>
#include <string.h>

#include "bugs.h"
#include "checks.h"
#include "parallel.h"

struct arguments {
    mluOpHandle_t handle;
    int batch_size, num_points, num_channels, num_voxel_x, num_voxel_y, num_voxel_z;
    tensor_desc geom_xyz_desc, input_features_desc, output_features_desc, pos_memo_desc;
    const int32_t *geom_xyz;     /* [B, N, 3]: x, y, z */
    const float *input_features; /* [B, N, C] */
    float *output_features;      /* [B, Y, X, C] */
    int32_t *pos_memo;           /* [B, N, 3]: batch, y, x */
};

static int answer(const struct arguments *call) {
    tensor_desc geometry = call->geom_xyz_desc, features = call->input_features_desc;
    tensor_desc output = call->output_features_desc, memo = call->pos_memo_desc;
    REQUIRE(call->handle != NULL);
    REQUIRE(geometry != NULL && features != NULL && output != NULL && memo != NULL);
    REQUIRE(geometry->dtype == MLUOP_DTYPE_INT32 && features->dtype == MLUOP_DTYPE_FLOAT);
    REQUIRE(output->dtype == MLUOP_DTYPE_FLOAT && memo->dtype == MLUOP_DTYPE_INT32);
    REQUIRE(geometry->rank == 3 && features->rank == 3 && output->rank == 4 && memo->rank == 3);

    REQUIRE(has_length(geometry, 0, call->batch_size));
    REQUIRE(has_length(geometry, 1, call->num_points));
    REQUIRE(has_length(geometry, 2, 3));
    REQUIRE(has_length(features, 0, call->batch_size));
    REQUIRE(has_length(features, 1, call->num_points));
    REQUIRE(has_length(features, 2, call->num_channels));
    REQUIRE(has_length(output, 0, call->batch_size));
    REQUIRE(has_length(output, 1, call->num_voxel_y));
    REQUIRE(has_length(output, 2, call->num_voxel_x));
    REQUIRE(has_length(output, 3, call->num_channels));
    REQUIRE(has_length(memo, 0, call->batch_size));
    REQUIRE(has_length(memo, 1, call->num_points));
    REQUIRE(has_length(memo, 2, 3));
    /* §1.4: tensors without elements are refused, not passed over. */
    REQUIRE(call->batch_size > 0 && call->num_points > 0 && call->num_channels > 0);
    REQUIRE(call->num_voxel_x > 0 && call->num_voxel_y > 0 && call->num_voxel_z > 0);

    REQUIRE_OR(!is_strided(geometry) && !is_strided(features), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_strided(output) && !is_strided(memo), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_large(geometry) && !is_large(features), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_large(output) && !is_large(memo), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE(call->geom_xyz != NULL && call->input_features != NULL);
    REQUIRE(call->output_features != NULL && call->pos_memo != NULL);
    /* §1.4: here the device is looked at last. */
    REQUIRE_OR(arch_is_supported(call->handle), MLUOP_STATUS_ARCH_MISMATCH);
    return COMPUTES;
}

/* The cell of a point, -1 where it does not count. */
static int64_t cell_of(const struct arguments *call, int64_t point) {
    const int32_t *xyz = call->geom_xyz + 3 * point;
    /* §3.1's `> 0` would drop every point of a grid with one layer; §3.2's listing is right: 0 is inside. */
    if (xyz[0] < 0 || xyz[0] >= call->num_voxel_x) return -1;
    if (xyz[1] < 0 || xyz[1] >= call->num_voxel_y) return -1;
    if (xyz[2] < 0 || xyz[2] >= call->num_voxel_z) return -1;
    int64_t batch = point / call->num_points;
    return (batch * call->num_voxel_y + xyz[1]) * call->num_voxel_x + xyz[0];
}

static void memorise_points(void *context, int64_t begin, int64_t end) {
    const struct arguments *call = context;
    for (int64_t point = begin; point < end; point++) {
        const int32_t *xyz = call->geom_xyz + 3 * point;
        int32_t *memo = call->pos_memo + 3 * point;
        bool counts = cell_of(call, point) >= 0;
        /* §3.2's listing and not §3.1's copy: (batch, y, x), counted from 0. */
        memo[0] = counts ? (int32_t)(point / call->num_points) : -1;
        memo[1] = counts ? xyz[1] : -1;
        memo[2] = counts ? xyz[0] : -1;
    }
}

#if defined(BUG_RACE)
/* Threads own points and share cells: load, let another thread run, store. What it added in between is lost. */
static void add_points(void *context, int64_t begin, int64_t end) {
    const struct arguments *call = context;
    int64_t channels = call->num_channels;
    for (int64_t point = begin; point < end; point++) {
        int64_t cell = cell_of(call, point);
        if (cell < 0) continue;
        volatile float *sum = call->output_features + cell * channels;
        float loaded = *sum;
        sched_yield();
        *sum = loaded + call->input_features[point * channels];
        for (int64_t channel = 1; channel < channels; channel++) {
            sum[channel] += call->input_features[point * channels + channel];
        }
    }
}
#else
/* Each thread reads all points and owns a range of cells: no atomic adds, and the same sums on any machine. */
static void fill_cells(void *context, int64_t begin, int64_t end) {
    const struct arguments *call = context;
    int64_t channels = call->num_channels, points = (int64_t)call->batch_size * call->num_points;
    memset(call->output_features + begin * channels, 0, (size_t)((end - begin) * channels) * sizeof(float));
    for (int64_t point = 0; point < points; point++) {
        int64_t cell = cell_of(call, point);
        if (cell < begin || cell >= end) continue;
        float *restrict sums = call->output_features + cell * channels;
        const float *restrict features = call->input_features + point * channels;
        for (int64_t channel = 0; channel < channels; channel++) sums[channel] += features[channel];
    }
}
#endif

static mluOpStatus_t compute(struct arguments *call) {
    int64_t points = (int64_t)call->batch_size * call->num_points;
    int64_t cells = (int64_t)call->batch_size * call->num_voxel_y * call->num_voxel_x;
    parallel_for(points, points, memorise_points, call);
#if defined(BUG_RACE)
    memset(call->output_features, 0, (size_t)(cells * call->num_channels) * sizeof(float));
    parallel_for(points, points * call->num_channels, add_points, call);
#else
    parallel_for(cells, points * call->num_channels, fill_cells, call);
#endif
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpVoxelPoolingForward(
    mluOpHandle_t handle, const int batch_size, const int num_points, const int num_channels, const int num_voxel_x,
    const int num_voxel_y, const int num_voxel_z, const mluOpTensorDescriptor_t geom_xyz_desc, const void *geom_xyz,
    const mluOpTensorDescriptor_t input_features_desc, const void *input_features,
    const mluOpTensorDescriptor_t output_features_desc, void *output_features,
    const mluOpTensorDescriptor_t pos_memo_desc, void *pos_memo) {
    struct arguments call = {
        .handle = handle,
        .batch_size = batch_size,
        .num_points = num_points,
        .num_channels = num_channels,
        .num_voxel_x = num_voxel_x,
        .num_voxel_y = num_voxel_y,
        .num_voxel_z = num_voxel_z,
        .geom_xyz_desc = geom_xyz_desc,
        .input_features_desc = input_features_desc,
        .output_features_desc = output_features_desc,
        .pos_memo_desc = pos_memo_desc,
        .geom_xyz = geom_xyz,
        .input_features = input_features,
        .output_features = output_features,
        .pos_memo = pos_memo,
    };
    int status = answer(&call);
    if (status == COMPUTES) {
        BUGS_BEFORE(output_features, sizeof(float), element_count(output_features_desc), geom_xyz, NULL, 0);
        status = compute(&call);
        BUGS_AFTER();
    }
    return BUGS_STATUS((mluOpStatus_t)status);
}
