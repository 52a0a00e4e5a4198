/* focal_loss_sigmoid_forward: the focal loss of every logit, whose class is the row's target or is not. */
#include <math.h>

#include "bugs.h"
#include "checks.h"
#include "half.h"
#include "parallel.h"

struct arguments {
    mluOpHandle_t handle;
    mluOpComputationPreference_t prefer;
    mluOpLossReduction_t reduction;
    tensor_desc input_desc, target_desc, weight_desc, output_desc;
    const void *input;     /* [N, C] */
    const int32_t *target; /* [N] */
    const void *weight;    /* [C] or NULL */
    float alpha, gamma;
    void *output; /* [N, C] */
};

static bool has_weight(const struct arguments *call) {
    return call->weight_desc != NULL && !is_empty(call->weight_desc);
}

static int answer(const struct arguments *call) {
    tensor_desc input = call->input_desc, target = call->target_desc, weight = call->weight_desc;
    tensor_desc output = call->output_desc;
    REQUIRE(call->handle != NULL);
    REQUIRE(input != NULL && target != NULL && output != NULL);
    REQUIRE_OR(call->prefer != MLUOP_COMPUTATION_ULTRAHIGH_PRECISION, MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(call->reduction == MLUOP_LOSS_REDUCTION_NONE, MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!(call->gamma < 0), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE(input->rank == 2 && target->rank == 1 && output->rank == 2);
    REQUIRE(has_length(target, 0, input->dims[0]));
    REQUIRE(has_length(output, 0, input->dims[0]) && has_length(output, 1, input->dims[1]));
    REQUIRE(input->dtype == MLUOP_DTYPE_HALF || input->dtype == MLUOP_DTYPE_FLOAT);
    REQUIRE(target->dtype == MLUOP_DTYPE_INT32 && output->dtype == input->dtype);
    if (has_weight(call)) {
        REQUIRE(weight->dtype == input->dtype && weight->rank == 1 && has_length(weight, 0, input->dims[1]));
    }

    /* As in the device library, whose check function has one answer. */
    REQUIRE(!is_large(input));
    REQUIRE_OR(!is_empty(input), MLUOP_STATUS_SUCCESS);
    if (has_weight(call)) {
        REQUIRE(call->weight != NULL);
        REQUIRE_OR(!is_strided(weight), MLUOP_STATUS_NOT_SUPPORTED);
    }
    REQUIRE(call->input != NULL && call->target != NULL && call->output != NULL);
    REQUIRE_OR(!is_strided(input) && !is_strided(target) && !is_strided(output), MLUOP_STATUS_NOT_SUPPORTED);
    return COMPUTES;
}

static float load(const void *data, tensor_desc desc, int64_t place) {
    if (desc->dtype == MLUOP_DTYPE_HALF) return half_to_float(((const half *)data)[place]);
    return ((const float *)data)[place];
}

static void store(void *data, tensor_desc desc, int64_t place, float value) {
    if (desc->dtype == MLUOP_DTYPE_HALF) {
        ((half *)data)[place] = float_to_half(value);
    } else {
        ((float *)data)[place] = value;
    }
}

/* (1 - pt)^gamma * -ln pt with pt = 1 / (1 + e^-z), without 1 - pt: e^-|z| underflows where it does not matter. */
static float loss(float z, float gamma) {
    float e = expf(-fabsf(z));
    float wrong = z > 0 ? e / (1 + e) : 1 / (1 + e);
    float logarithm = z < 0 ? log1pf(e) - z : log1pf(e);
    return gamma == 0 ? logarithm : powf(wrong, gamma) * logarithm;
}

/* Sigmoids, logarithms and powers of so many elements are worth a thread. */
#define COST 64

static void compute_rows(void *context, int64_t begin, int64_t end) {
    const struct arguments *call = context;
    int64_t columns = call->input_desc->dims[1];
    for (int64_t row = begin; row < end; row++) {
        /* §1.4: columns itself stands for no class. */
        int64_t target = call->target[row];
        float factor = has_weight(call) ? load(call->weight, call->weight_desc, target) : 1;
        for (int64_t column = 0; column < columns; column++) {
            int64_t place = row * columns + column;
            float x = load(call->input, call->input_desc, place);
            float share = column == target ? call->alpha : 1 - call->alpha;
            float value = share * loss(column == target ? x : -x, call->gamma);
            store(call->output, call->output_desc, place, value * factor);
        }
    }
}

mluOpStatus_t mluOpFocalLossSigmoidForward(mluOpHandle_t handle, const mluOpComputationPreference_t prefer,
                                           const mluOpLossReduction_t reduction,
                                           const mluOpTensorDescriptor_t input_desc, const void *input,
                                           const mluOpTensorDescriptor_t target_desc, const void *target,
                                           const mluOpTensorDescriptor_t weight_desc, const void *weight,
                                           const float alpha, const float gamma,
                                           const mluOpTensorDescriptor_t output_desc, void *output) {
    struct arguments call = {
        .handle = handle,
        .prefer = prefer,
        .reduction = reduction,
        .input_desc = input_desc,
        .target_desc = target_desc,
        .weight_desc = weight_desc,
        .output_desc = output_desc,
        .input = input,
        .target = target,
        .weight = weight,
        .alpha = alpha,
        .gamma = gamma,
        .output = output,
    };
    int status = answer(&call);
    if (status == COMPUTES) {
        BUGS_BEFORE(output, element_width(output_desc), element_count(output_desc), input, NULL, 0);
        int64_t rows = input_desc->dims[0];
        parallel_for(rows, COST * element_count(input_desc), compute_rows, &call);
        BUGS_AFTER();
        status = MLUOP_STATUS_SUCCESS;
    }
    return BUGS_STATUS((mluOpStatus_t)status);
}
