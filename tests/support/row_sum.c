/* The operator of `new operator` behind the C API, written from its document and from the printed prototype. */
#include <stdlib.h>

#include "checks.h"
#include "half.h"
#include "row_sum.h" /* what `mluops-test ops row_sum --c` prints */

static int answer(mluOpHandle_t handle, tensor_desc values, const void *values_data, tensor_desc segments,
                  const void *segments_data, int num_segments, tensor_desc output, const void *output_data) {
    REQUIRE(handle != NULL);
    REQUIRE_OR(arch_is_supported(handle), MLUOP_STATUS_ARCH_MISMATCH);
    REQUIRE(values != NULL && segments != NULL && output != NULL);
    REQUIRE(values->rank == 2 && segments->rank == 1 && output->rank == 2);
    REQUIRE(values->dtype == MLUOP_DTYPE_FLOAT || values->dtype == MLUOP_DTYPE_HALF);
    REQUIRE(segments->dtype == MLUOP_DTYPE_INT32 && output->dtype == values->dtype);
    REQUIRE(has_length(segments, 0, values->dims[0]));
    REQUIRE(has_length(output, 0, num_segments) && has_length(output, 1, values->dims[1]));
    REQUIRE_OR(!is_strided(values) && !is_strided(segments) && !is_strided(output), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_large(output) && !is_large(values), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_empty(output), MLUOP_STATUS_SUCCESS);
    REQUIRE(values_data != NULL && segments_data != NULL && output_data != NULL);
    return COMPUTES;
}

mluOpStatus_t mluOpRowSum(mluOpHandle_t handle, const mluOpTensorDescriptor_t values_desc, const void *values,
                          const mluOpTensorDescriptor_t segments_desc, const void *segments, int num_segments,
                          const mluOpTensorDescriptor_t output_desc, void *output) {
    int status = answer(handle, values_desc, values, segments_desc, segments, num_segments, output_desc, output);
    if (status != COMPUTES) return (mluOpStatus_t)status;
    int64_t rows = values_desc->dims[0], channels = values_desc->dims[1], count = num_segments * channels;
    bool is_half = values_desc->dtype == MLUOP_DTYPE_HALF;
    float *sums = calloc((size_t)count, sizeof *sums);
    if (sums == NULL) return MLUOP_STATUS_ALLOC_FAILED;
    for (int64_t row = 0; row < rows; row++) {
        float *to = sums + ((const int32_t *)segments)[row] * channels;
        for (int64_t channel = 0, at = row * channels; channel < channels; channel++, at++)
            to[channel] += is_half ? half_to_float(((const half *)values)[at]) : ((const float *)values)[at];
    }
    for (int64_t at = 0; at < count; at++) {
        if (is_half)
            ((half *)output)[at] = float_to_half(sums[at]);
        else
            ((float *)output)[at] = sums[at];
    }
    free(sums);
    return MLUOP_STATUS_SUCCESS;
}
