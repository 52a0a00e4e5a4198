/* three_interpolate_forward: each point's feature is the weighted sum of the features of three cells. */
#include "bugs.h"
#include "checks.h"
#include "half.h"
#include "parallel.h"

struct arguments {
    mluOpHandle_t handle;
    tensor_desc features_desc, indices_desc, weights_desc, output_desc;
    const void *features;   /* [B, C, M] */
    const int32_t *indices; /* [B, N, 3] */
    const void *weights;    /* [B, N, 3] */
    void *output;           /* [B, C, N] */
};

static int answer(const struct arguments *call) {
    tensor_desc features = call->features_desc, indices = call->indices_desc;
    tensor_desc weights = call->weights_desc, output = call->output_desc;
    REQUIRE(call->handle != NULL);
    REQUIRE(features != NULL && indices != NULL && weights != NULL && output != NULL);
    REQUIRE(features->rank == 3 && indices->rank == 3 && weights->rank == 3 && output->rank == 3);
    REQUIRE(features->layout == MLUOP_LAYOUT_ARRAY && indices->layout == MLUOP_LAYOUT_ARRAY);
    REQUIRE(weights->layout == MLUOP_LAYOUT_ARRAY && output->layout == MLUOP_LAYOUT_ARRAY);
    REQUIRE(features->dtype == weights->dtype && indices->dtype == MLUOP_DTYPE_INT32);
    REQUIRE(output->dtype == weights->dtype);
    REQUIRE(weights->dtype == MLUOP_DTYPE_HALF || weights->dtype == MLUOP_DTYPE_FLOAT);

    REQUIRE(has_length(features, 0, indices->dims[0]));
    for (int axis = 0; axis < 3; axis++) REQUIRE(has_length(indices, axis, weights->dims[axis]));
    REQUIRE(has_length(weights, 2, 3));
    REQUIRE(has_length(output, 0, features->dims[0]));
    REQUIRE(has_length(output, 1, features->dims[1]));
    REQUIRE(has_length(output, 2, indices->dims[1]));

    REQUIRE_OR(!is_strided(features) && !is_strided(indices), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_strided(weights) && !is_strided(output), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_large(features) && !is_large(indices), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_large(weights) && !is_large(output), MLUOP_STATUS_NOT_SUPPORTED);
    /* Without outputs the call is refused. Without cells there is nothing to do, though §1.1 refuses that, too. */
    REQUIRE(!is_empty(output));
    REQUIRE_OR(!is_empty(features), MLUOP_STATUS_SUCCESS);
    REQUIRE(call->features != NULL && call->indices != NULL);
    REQUIRE(call->weights != NULL && call->output != NULL);
    return COMPUTES;
}

/* Weights are used as they are, and each counts, also where a point names one cell again. */
static void float_row(const struct arguments *call, int64_t row, int64_t batch) {
    int64_t points = call->indices_desc->dims[1];
    const float *restrict features = (const float *)call->features + row * call->features_desc->dims[2];
    const float *restrict weights = (const float *)call->weights + 3 * batch * points;
    const int32_t *restrict indices = call->indices + 3 * batch * points;
    float *restrict output = (float *)call->output + row * points;
    for (int64_t point = 0; point < points; point++) {
        float sum = weights[3 * point] * features[indices[3 * point]];
        sum += weights[3 * point + 1] * features[indices[3 * point + 1]];
        output[point] = sum + weights[3 * point + 2] * features[indices[3 * point + 2]];
    }
}

/* In float, rounded to half once. */
static void half_row(const struct arguments *call, int64_t row, int64_t batch) {
    int64_t points = call->indices_desc->dims[1];
    const half *features = (const half *)call->features + row * call->features_desc->dims[2];
    const half *weights = (const half *)call->weights + 3 * batch * points;
    const int32_t *indices = call->indices + 3 * batch * points;
    half *output = (half *)call->output + row * points;
    for (int64_t point = 0; point < points; point++) {
        float sum = 0;
        for (int64_t entry = 3 * point; entry < 3 * point + 3; entry++) {
            sum += half_to_float(weights[entry]) * half_to_float(features[indices[entry]]);
        }
        output[point] = float_to_half(sum);
    }
}

static void interpolate_rows(void *context, int64_t begin, int64_t end) {
    const struct arguments *call = context;
    int64_t channels = call->features_desc->dims[1];
    bool is_half = call->weights_desc->dtype == MLUOP_DTYPE_HALF;
    for (int64_t row = begin; row < end; row++) (is_half ? half_row : float_row)(call, row, row / channels);
}

static mluOpStatus_t compute(struct arguments *call) {
    int64_t rows = call->features_desc->dims[0] * call->features_desc->dims[1];
    parallel_for(rows, 3 * element_count(call->output_desc), interpolate_rows, call);
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpThreeInterpolateForward(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t features_desc, const void *features,
    const mluOpTensorDescriptor_t indices_desc, const void *indices, const mluOpTensorDescriptor_t weights_desc,
    const void *weights, const mluOpTensorDescriptor_t output_desc, void *output) {
    struct arguments call = {
        .handle = handle,
        .features_desc = features_desc,
        .indices_desc = indices_desc,
        .weights_desc = weights_desc,
        .output_desc = output_desc,
        .features = features,
        .indices = indices,
        .weights = weights,
        .output = output,
    };
    int status = answer(&call);
    if (status == COMPUTES) {
        BUGS_BEFORE(output, element_width(output_desc), element_count(output_desc), features, NULL, 0);
        status = compute(&call);
        BUGS_AFTER();
    }
    return BUGS_STATUS((mluOpStatus_t)status);
}
