/* three_interpolate_backward: each point adds its gradient, weighted, to the gradients of three cells. */
#include <string.h>

#include "bugs.h"
#include "checks.h"
#include "half.h"
#include "parallel.h"
#include "scratch.h"

struct arguments {
    mluOpHandle_t handle;
    tensor_desc grad_output_desc, indices_desc, weights_desc, grad_features_desc;
    const void *grad_output; /* [B, C, N] */
    const int32_t *indices;  /* [B, N, 3] */
    const void *weights;     /* [B, N, 3] */
    void *grad_features;     /* [B, C, M] */
    float *sums;             /* [B, C, M]: grad_features itself, or scratch where that is half */
};

static int answer(const struct arguments *call) {
    tensor_desc grad_output = call->grad_output_desc, indices = call->indices_desc;
    tensor_desc weights = call->weights_desc, grad_features = call->grad_features_desc;
    REQUIRE(call->handle != NULL);
    REQUIRE(grad_output != NULL && indices != NULL && weights != NULL && grad_features != NULL);
    REQUIRE(grad_output->rank == 3 && indices->rank == 3 && weights->rank == 3 && grad_features->rank == 3);
    REQUIRE(grad_output->layout == MLUOP_LAYOUT_ARRAY && indices->layout == MLUOP_LAYOUT_ARRAY);
    REQUIRE(weights->layout == MLUOP_LAYOUT_ARRAY && grad_features->layout == MLUOP_LAYOUT_ARRAY);
    REQUIRE(grad_output->dtype == weights->dtype && indices->dtype == MLUOP_DTYPE_INT32);
    REQUIRE(grad_features->dtype == weights->dtype);
    REQUIRE(weights->dtype == MLUOP_DTYPE_HALF || weights->dtype == MLUOP_DTYPE_FLOAT);

    REQUIRE(has_length(grad_output, 0, indices->dims[0]));
    for (int axis = 0; axis < 3; axis++) REQUIRE(has_length(indices, axis, weights->dims[axis]));
    REQUIRE(has_length(weights, 2, 3));
    /* §1.3 prints grad_features as [B, C, N]; §1.4's [B, C, M] is right. */
    REQUIRE(has_length(grad_features, 0, grad_output->dims[0]));
    REQUIRE(has_length(grad_features, 1, grad_output->dims[1]));
    REQUIRE(has_length(grad_output, 2, indices->dims[1]));

    REQUIRE_OR(!is_strided(grad_output) && !is_strided(indices), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_strided(weights) && !is_strided(grad_features), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_large(grad_output) && !is_large(indices), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_large(weights) && !is_large(grad_features), MLUOP_STATUS_NOT_SUPPORTED);
    /* Without gradients the call is refused. Without cells there is nothing to do, though §1.1 refuses that, too. */
    REQUIRE(!is_empty(grad_output));
    REQUIRE_OR(!is_empty(grad_features), MLUOP_STATUS_SUCCESS);
    REQUIRE(call->grad_output != NULL && call->indices != NULL);
    REQUIRE(call->weights != NULL && call->grad_features != NULL);
    return COMPUTES;
}

static void add_floats(const struct arguments *call, int64_t row, int64_t batch, float *restrict sums) {
    int64_t points = call->indices_desc->dims[1];
    const float *restrict gradients = (const float *)call->grad_output + row * points;
    const float *restrict weights = (const float *)call->weights + 3 * batch * points;
    const int32_t *restrict indices = call->indices + 3 * batch * points;
    for (int64_t point = 0; point < points; point++) {
        /* One after the other: a point may name one cell twice. */
        for (int64_t entry = 3 * point; entry < 3 * point + 3; entry++) {
            sums[indices[entry]] += gradients[point] * weights[entry];
        }
    }
}

static void add_halves(const struct arguments *call, int64_t row, int64_t batch, float *sums) {
    int64_t points = call->indices_desc->dims[1];
    const half *gradients = (const half *)call->grad_output + row * points;
    const half *weights = (const half *)call->weights + 3 * batch * points;
    const int32_t *indices = call->indices + 3 * batch * points;
    for (int64_t point = 0; point < points; point++) {
        float gradient = half_to_float(gradients[point]);
        for (int64_t entry = 3 * point; entry < 3 * point + 3; entry++) {
            sums[indices[entry]] += gradient * half_to_float(weights[entry]);
        }
    }
}

/* A row is one channel of one batch: no two threads add to the same cell. */
static void fill_rows(void *context, int64_t begin, int64_t end) {
    const struct arguments *call = context;
    int64_t channels = call->grad_output_desc->dims[1], cells = call->grad_features_desc->dims[2];
    bool is_half = call->weights_desc->dtype == MLUOP_DTYPE_HALF;
    for (int64_t row = begin; row < end; row++) {
        float *sums = call->sums + row * cells;
        /* Whatever the buffer held: a cell that no index names is 0. */
        memset(sums, 0, (size_t)cells * sizeof(float));
        (is_half ? add_halves : add_floats)(call, row, row / channels, sums);
        if (!is_half) continue;
        half *to = (half *)call->grad_features + row * cells;
        for (int64_t cell = 0; cell < cells; cell++) to[cell] = float_to_half(sums[cell]);
    }
}

static mluOpStatus_t compute(struct arguments *call) {
    int64_t rows = call->grad_output_desc->dims[0] * call->grad_output_desc->dims[1];
    int64_t steps = 3 * element_count(call->grad_output_desc) + element_count(call->grad_features_desc);
    bool is_half = call->weights_desc->dtype == MLUOP_DTYPE_HALF;
    size_t needed = (size_t)element_count(call->grad_features_desc) * sizeof(float);
    call->sums = is_half ? scratch_take(NULL, 0, needed) : call->grad_features;
    if (call->sums == NULL) return MLUOP_STATUS_ALLOC_FAILED;
    parallel_for(rows, steps, fill_rows, call);
    if (is_half) scratch_release(call->sums, NULL);
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpThreeInterpolateBackward(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t grad_output_desc, const void *grad_output,
    const mluOpTensorDescriptor_t indices_desc, const void *indices, const mluOpTensorDescriptor_t weights_desc,
    const void *weights, const mluOpTensorDescriptor_t grad_features_desc, void *grad_features) {
    struct arguments call = {
        .handle = handle,
        .grad_output_desc = grad_output_desc,
        .indices_desc = indices_desc,
        .weights_desc = weights_desc,
        .grad_features_desc = grad_features_desc,
        .grad_output = grad_output,
        .indices = indices,
        .weights = weights,
        .grad_features = grad_features,
    };
    int status = answer(&call);
    if (status == COMPUTES) {
        BUGS_BEFORE(grad_features, element_width(grad_features_desc), element_count(grad_features_desc), grad_output,
                    NULL, 0);
        status = compute(&call);
        BUGS_AFTER();
    }
    return BUGS_STATUS((mluOpStatus_t)status);
}
