/* moe_dispatch_forward: the row of every sample, times its gate, becomes the row of dispatch that it is routed to. */
#include "bugs.h"
#include "checks.h"
#include "parallel.h"

struct arguments {
    mluOpHandle_t handle;
    tensor_desc gates_desc, indices_desc, locations_desc, input_desc, dispatch_desc;
    const float *gates, *input;         /* [S], [S, H] */
    const int32_t *indices, *locations; /* [S] */
    int samples, capacity, hidden, num_experts;
    float *dispatch; /* [E * K, H]: what it holds stays in rows that no sample is routed to */
};

static int answer(const struct arguments *call) {
    tensor_desc gates = call->gates_desc, indices = call->indices_desc, locations = call->locations_desc;
    tensor_desc input = call->input_desc, dispatch = call->dispatch_desc;
    REQUIRE(call->handle != NULL);
    REQUIRE_OR(arch_is_supported(call->handle), MLUOP_STATUS_ARCH_MISMATCH);
    REQUIRE(gates != NULL && indices != NULL && locations != NULL && input != NULL && dispatch != NULL);
    REQUIRE(gates->rank == 1 && indices->rank == 1 && locations->rank == 1);
    REQUIRE(input->rank == 2 && dispatch->rank == 2);
    REQUIRE(indices->dtype == MLUOP_DTYPE_INT32 && locations->dtype == MLUOP_DTYPE_INT32);
    REQUIRE(input->dtype == MLUOP_DTYPE_FLOAT && dispatch->dtype == MLUOP_DTYPE_FLOAT);
    REQUIRE(gates->dtype == MLUOP_DTYPE_FLOAT);
    REQUIRE(call->samples >= 0 && call->capacity >= 0 && call->hidden >= 0 && call->num_experts >= 0);
    REQUIRE(has_length(gates, 0, call->samples) && has_length(indices, 0, call->samples));
    REQUIRE(has_length(locations, 0, call->samples) && has_length(input, 0, call->samples));
    int64_t slots = product(call->num_experts, call->capacity);
    REQUIRE(has_length(dispatch, 0, slots));
    REQUIRE(has_length(input, 1, call->hidden) && has_length(dispatch, 1, call->hidden));

    REQUIRE_OR(!is_strided(gates) && !is_strided(indices) && !is_strided(locations), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_strided(input) && !is_strided(dispatch), MLUOP_STATUS_NOT_SUPPORTED);
    /* As released; §3.6 calls 8192 samples without slots a call without elements. */
    REQUIRE(call->samples <= slots);
    REQUIRE_OR(!is_large(indices) && !is_large(locations) && !is_large(input), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_large(dispatch) && !is_large(gates), MLUOP_STATUS_NOT_SUPPORTED);
    /* §1.1: gates, indices and locations are empty where input is, and without slots there are no samples. */
    REQUIRE_OR(!is_empty(input), MLUOP_STATUS_SUCCESS);
    REQUIRE(call->indices != NULL && call->locations != NULL && call->input != NULL);
    REQUIRE(call->dispatch != NULL && call->gates != NULL);
    return COMPUTES;
}

/* §3.1.2: threads have a part of the columns each, since of the samples of one slot the last wins. */
static void write_columns(void *context, int64_t begin, int64_t end) {
    const struct arguments *call = context;
    int64_t hidden = call->hidden;
    for (int64_t sample = 0; sample < call->samples; sample++) {
        int64_t expert = call->indices[sample], location = call->locations[sample];
        /* tutel drops tokens by -1 and by K and above; §3.1 tests all four sides. */
        if (expert < 0 || expert >= call->num_experts || location < 0 || location >= call->capacity) continue;
        const float *row = call->input + sample * hidden;
        float *slot = call->dispatch + (expert * call->capacity + location) * hidden;
        float gate = call->gates[sample];
        for (int64_t column = begin; column < end; column++) slot[column] = gate * row[column];
    }
}

mluOpStatus_t mluOpMoeDispatchForward(mluOpHandle_t handle, const mluOpTensorDescriptor_t gates_desc,
                                      const void *gates, const mluOpTensorDescriptor_t indices_desc,
                                      const void *indices, const mluOpTensorDescriptor_t locations_desc,
                                      const void *locations, const mluOpTensorDescriptor_t input_desc,
                                      const void *input, const int samples, const int capacity, const int hidden,
                                      const int num_experts, const mluOpTensorDescriptor_t dispatch_desc,
                                      void *dispatch) {
    struct arguments call = {
        .handle = handle,
        .gates_desc = gates_desc,
        .indices_desc = indices_desc,
        .locations_desc = locations_desc,
        .input_desc = input_desc,
        .dispatch_desc = dispatch_desc,
        .gates = gates,
        .input = input,
        .indices = indices,
        .locations = locations,
        .samples = samples,
        .capacity = capacity,
        .hidden = hidden,
        .num_experts = num_experts,
        .dispatch = dispatch,
    };
    int status = answer(&call);
    if (status == COMPUTES) {
        BUGS_BEFORE(dispatch, element_width(dispatch_desc), element_count(dispatch_desc), input, NULL, 0);
        parallel_for(hidden, element_count(input_desc), write_columns, &call);
        BUGS_AFTER();
        status = MLUOP_STATUS_SUCCESS;
    }
    return BUGS_STATUS((mluOpStatus_t)status);
}
