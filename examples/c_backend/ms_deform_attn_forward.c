/* ms_deform_attn_forward: weighted sums of bilinear samples of maps of several levels, per query and head. */
#include <math.h>
#include <string.h>

#include "bugs.h"
#include "checks.h"
#include "parallel.h"

struct arguments {
    mluOpHandle_t handle;
    tensor_desc value_desc, shapes_desc, starts_desc, loc_desc, weight_desc, col_desc;
    const float *value;            /* [B, K, M, C] */
    const int32_t *shapes, *starts; /* [L, 2]: h, w; [L] */
    const float *loc, *weight;     /* [B, Q, M, L, P, 2]: x, y; [B, Q, M, L, P] */
    int step;
    float *col; /* [B, Q, M, C] */
};

static bool is_float(tensor_desc desc) { return desc->dtype == MLUOP_DTYPE_FLOAT; }
static bool is_int32(tensor_desc desc) { return desc->dtype == MLUOP_DTYPE_INT32; }

/* Axes `first` … of a tensor are as long as these. */
static bool has_lengths(tensor_desc desc, int first, int count, const int64_t *lengths) {
    for (int axis = 0; axis < count; axis++) {
        if (!has_length(desc, first + axis, lengths[axis])) return false;
    }
    return true;
}

static int answer(const struct arguments *call) {
    tensor_desc value = call->value_desc, shapes = call->shapes_desc, starts = call->starts_desc;
    tensor_desc loc = call->loc_desc, weight = call->weight_desc, col = call->col_desc;
    REQUIRE(call->handle != NULL);
    REQUIRE(value != NULL && shapes != NULL && starts != NULL && loc != NULL && weight != NULL && col != NULL);
    REQUIRE(value->rank == 4 && shapes->rank == 2 && starts->rank == 1);
    REQUIRE(loc->rank == 6 && weight->rank == 5 && col->rank == 4);
    REQUIRE(has_length(shapes, 1, 2) && has_length(loc, 5, 2));
    const int64_t batches = value->dims[0], queries = loc->dims[1], heads = value->dims[2], channels = value->dims[3];
    const int64_t sampled[] = {batches, queries, heads, shapes->dims[0], loc->dims[4]};
    const int64_t sums[] = {batches, queries, heads, channels};
    REQUIRE(has_length(starts, 0, shapes->dims[0]) && has_lengths(loc, 0, 5, sampled));
    REQUIRE(has_lengths(weight, 0, 5, sampled) && has_lengths(col, 0, 4, sums));
    REQUIRE_OR(!is_strided(value) && !is_strided(shapes) && !is_strided(starts), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_strided(loc) && !is_strided(weight) && !is_strided(col), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE(is_float(value) && is_int32(shapes) && is_int32(starts));
    REQUIRE(is_float(col) && is_float(loc) && is_float(weight));
    REQUIRE_OR(!is_large(value) && !is_large(loc) && !is_large(col), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE(!is_empty(col));
    /* §1.1: without levels or points 0 is written, whatever the step; that is compute's. */
    if (is_empty(weight)) return COMPUTES;
    int64_t step = call->step < batches ? call->step : batches;
    REQUIRE(step > 0 && batches % step == 0);
    REQUIRE(call->value != NULL && call->shapes != NULL && call->starts != NULL);
    REQUIRE(call->loc != NULL && call->weight != NULL && call->col != NULL);
    return COMPUTES;
}

/* Adds factor · pixel, which counts whatever the factor is. */
static void add_pixel(float *restrict sums, const float *restrict pixel, float factor, int64_t channels) {
    for (int64_t channel = 0; channel < channels; channel++) sums[channel] += factor * pixel[channel];
}

/* §3.2: what lies strictly between -1 and the size is inside; pixels that are not count 0. */
static void add_sample(const struct arguments *call, float *sums, const float *map, int level, const float *loc,
                       float weight) {
    int64_t channels = call->value_desc->dims[3], row_step = call->value_desc->dims[2] * channels;
    int32_t height = call->shapes[2 * level], width = call->shapes[2 * level + 1];
    float x = loc[0] * (float)width - 0.5f, y = loc[1] * (float)height - 0.5f;
    if (!(x > -1 && y > -1 && x < (float)width && y < (float)height)) return;
    int64_t left = (int64_t)floorf(x), top = (int64_t)floorf(y);
    float right_part = x - (float)left, lower_part = y - (float)top;
    for (int64_t row = top; row <= top + 1; row++) {
        if (row < 0 || row >= height) continue;
        float by_row = row == top ? 1 - lower_part : lower_part;
        for (int64_t column = left; column <= left + 1; column++) {
            if (column < 0 || column >= width) continue;
            float by_column = column == left ? 1 - right_part : right_part;
            const float *pixel = map + (call->starts[level] + row * width + column) * row_step;
            add_pixel(sums, pixel, weight * (by_row * by_column), channels);
        }
    }
}

/* Rows of C elements of data_col. */
static void write_sums(void *context, int64_t begin, int64_t end) {
    const struct arguments *call = context;
    int64_t keys = call->value_desc->dims[1], heads = call->value_desc->dims[2], channels = call->value_desc->dims[3];
    int64_t queries = call->loc_desc->dims[1], levels = call->loc_desc->dims[3], points = call->loc_desc->dims[4];
    for (int64_t row = begin; row < end; row++) {
        float *sums = call->col + row * channels;
        memset(sums, 0, (size_t)channels * sizeof *sums);
        int64_t batch = row / heads / queries;
        const float *map = levels * points > 0 ? call->value + (batch * keys * heads + row % heads) * channels : NULL;
        for (int64_t sample = 0; sample < levels * points; sample++) {
            int64_t place = row * levels * points + sample;
            add_sample(call, sums, map, (int)(sample / points), call->loc + 2 * place, call->weight[place]);
        }
    }
}

static mluOpStatus_t compute(struct arguments *call) {
    int64_t rows = element_count(call->col_desc) / call->col_desc->dims[3];
    int64_t samples = call->loc_desc->dims[3] * call->loc_desc->dims[4];
    parallel_for(rows, element_count(call->col_desc) * (1 + 9 * samples), write_sums, call);
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpMsDeformAttnForward(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t data_value_desc, const void *data_value,
    const mluOpTensorDescriptor_t data_spatial_shapes_desc, const void *data_spatial_shapes,
    const mluOpTensorDescriptor_t data_level_start_index_desc, const void *data_level_start_index,
    const mluOpTensorDescriptor_t data_sampling_loc_desc, const void *data_sampling_loc,
    const mluOpTensorDescriptor_t data_attn_weight_desc, const void *data_attn_weight, const int im2col_step,
    const mluOpTensorDescriptor_t data_col_desc, void *data_col) {
    struct arguments call = {
        .handle = handle,
        .value_desc = data_value_desc,
        .shapes_desc = data_spatial_shapes_desc,
        .starts_desc = data_level_start_index_desc,
        .loc_desc = data_sampling_loc_desc,
        .weight_desc = data_attn_weight_desc,
        .col_desc = data_col_desc,
        .value = data_value,
        .shapes = data_spatial_shapes,
        .starts = data_level_start_index,
        .loc = data_sampling_loc,
        .weight = data_attn_weight,
        .step = im2col_step,
        .col = data_col,
    };
    int status = answer(&call);
    if (status == COMPUTES) {
        BUGS_BEFORE(data_col, element_width(data_col_desc), element_count(data_col_desc), data_value, NULL, 0);
        status = compute(&call);
        BUGS_AFTER();
    }
    return BUGS_STATUS((mluOpStatus_t)status);
}
