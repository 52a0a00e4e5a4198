/* tin_shift_forward: moves the frames of every group of channels in time, by a shift of its own; zeros follow. */
#include <string.h>

#include "bugs.h"
#include "checks.h"
#include "parallel.h"

struct arguments {
    mluOpHandle_t handle;
    tensor_desc input_desc, shifts_desc, output_desc;
    const unsigned char *input; /* [N, T, C, HW] */
    const int32_t *shifts;      /* [N, G] */
    unsigned char *output;      /* [N, T, C, HW] */
};

static int answer(const struct arguments *call) {
    tensor_desc input = call->input_desc, shifts = call->shifts_desc, output = call->output_desc;
    REQUIRE(call->handle != NULL);
    REQUIRE(input != NULL && shifts != NULL && output != NULL);
    REQUIRE(input->rank == 4 && shifts->rank == 2 && output->rank == 4);
    /* §1.2: every group has as many channels. */
    REQUIRE(input->dims[2] != 0 && shifts->dims[1] != 0);
    REQUIRE(input->dims[2] % shifts->dims[1] == 0);
    for (int axis = 0; axis < 4; axis++) REQUIRE(has_length(output, axis, input->dims[axis]));
    REQUIRE(has_length(shifts, 0, input->dims[0]));

    REQUIRE_OR(!is_strided(input) && !is_strided(shifts) && !is_strided(output), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE(shifts->dtype == MLUOP_DTYPE_INT32);
    REQUIRE(input->dtype == MLUOP_DTYPE_HALF || input->dtype == MLUOP_DTYPE_FLOAT);
    REQUIRE(output->dtype == input->dtype);
    /* §1.1: time alone may be empty. */
    REQUIRE(input->dims[0] != 0 && input->dims[3] != 0);
    REQUIRE_OR(!is_large(input) && !is_large(shifts), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(input->dims[1] != 0, MLUOP_STATUS_SUCCESS);
    REQUIRE(call->input != NULL && call->shifts != NULL && call->output != NULL);
    return COMPUTES;
}

/* Of each frame of each batch the groups, one block of memory each: a copy of bits, so that NaN and -0 survive. */
static void write_frames(void *context, int64_t begin, int64_t end) {
    const struct arguments *call = context;
    const int64_t *dims = call->input_desc->dims;
    int64_t frames = dims[1], groups = call->shifts_desc->dims[1];
    size_t block = (size_t)(dims[2] / groups * dims[3]) * element_width(call->input_desc);
    for (int64_t row = begin; row < end; row++) {
        int64_t batch = row / frames, frame = row % frames;
        for (int64_t group = 0; group < groups; group++) {
            /* 64 bits: any int32 is a legal shift (§1.4), and the smallest one has no magnitude in 32. */
            int64_t origin = frame - call->shifts[batch * groups + group];
            unsigned char *to = call->output + (size_t)(row * groups + group) * block;
            if (origin < 0 || origin >= frames) {
                memset(to, 0, block);
            } else {
                memcpy(to, call->input + (size_t)((batch * frames + origin) * groups + group) * block, block);
            }
        }
    }
}

mluOpStatus_t mluOpTinShiftForward(mluOpHandle_t handle, const mluOpTensorDescriptor_t input_desc, const void *input,
                                   const mluOpTensorDescriptor_t shifts_desc, const void *shifts,
                                   const mluOpTensorDescriptor_t output_desc, void *output) {
    struct arguments call = {
        .handle = handle,
        .input_desc = input_desc,
        .shifts_desc = shifts_desc,
        .output_desc = output_desc,
        .input = input,
        .shifts = shifts,
        .output = output,
    };
    int status = answer(&call);
    if (status == COMPUTES) {
        BUGS_BEFORE(output, element_width(output_desc), element_count(output_desc), input, NULL, 0);
        parallel_for(input_desc->dims[0] * input_desc->dims[1], element_count(input_desc), write_frames, &call);
        BUGS_AFTER();
        status = MLUOP_STATUS_SUCCESS;
    }
    return BUGS_STATUS((mluOpStatus_t)status);
}
