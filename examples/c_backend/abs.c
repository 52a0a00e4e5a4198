/* abs: y = |x| element by element, wherever strides put the elements; of complex numbers sqrt(re * re + im * im). */
#include <math.h>

#include "bugs.h"
#include "checks.h"
#include "parallel.h"

#define NEWER_ARCH 590 /* has bfloat16 and tensors of 2^31 elements */
#define LARGE_EXTENT (INT64_C(1) << 31)
#define MOST_AXES 8

struct arguments {
    mluOpHandle_t handle;
    tensor_desc x_desc, y_desc;
    const void *x;
    void *y;
};

static mluOpDataType_t type_of_results(mluOpDataType_t dtype) {
    return dtype == MLUOP_DTYPE_COMPLEX_FLOAT ? MLUOP_DTYPE_FLOAT : dtype;
}

static bool is_supported(mluOpDataType_t dtype, bool is_newer) {
    switch (dtype) {
        case MLUOP_DTYPE_HALF:
        case MLUOP_DTYPE_FLOAT:
        case MLUOP_DTYPE_INT32:
        case MLUOP_DTYPE_COMPLEX_FLOAT:
            return true;
        case MLUOP_DTYPE_BFLOAT16:
            return is_newer;
        default:
            return false;
    }
}

static bool have_equal_dims(tensor_desc left, tensor_desc right) {
    if (left->rank != right->rank) return false;
    for (int axis = 0; axis < left->rank; axis++) {
        if (left->dims[axis] != right->dims[axis]) return false;
    }
    return true;
}

/* Elements from the first to the last that the descriptor reaches, INT64_MAX where that does not fit. */
static int64_t extent(tensor_desc desc) {
    if (!desc->has_strides) return element_count(desc);
    int64_t reach = 1;
    for (int axis = 0; axis < desc->rank; axis++) {
        int64_t step = product(desc->dims[axis] - 1, desc->strides[axis]);
        if (step > INT64_MAX - reach) return INT64_MAX;
        reach += step;
    }
    return reach;
}

static int answer(const struct arguments *call) {
    tensor_desc x = call->x_desc, y = call->y_desc;
    REQUIRE(call->handle != NULL && x != NULL && y != NULL);
    bool is_newer = call->handle->arch >= NEWER_ARCH;
    REQUIRE(y->dtype == type_of_results(x->dtype));
    REQUIRE(y->rank == x->rank);
    REQUIRE(is_supported(x->dtype, is_newer));
    REQUIRE(x->rank > 0 && have_equal_dims(x, y));

    REQUIRE_OR(!is_empty(x), MLUOP_STATUS_SUCCESS);
    REQUIRE_OR(is_newer || !is_large(x), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE(x->rank <= MOST_AXES);
    /* §1.4: strides are legal on both sides, unless they reach too far. */
    REQUIRE_OR(is_newer || (extent(x) < LARGE_EXTENT && extent(y) < LARGE_EXTENT), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE(call->x != NULL && call->y != NULL);
    return COMPUTES;
}

/* Where the element of that number lies. */
static int64_t place_of(tensor_desc desc, int64_t element) {
    if (!desc->has_strides) return element;
    int64_t place = 0;
    for (int axis = desc->rank - 1; axis >= 0; axis--) {
        place += element % desc->dims[axis] * desc->strides[axis];
        element /= desc->dims[axis];
    }
    return place;
}

static void write_magnitude(const struct arguments *call, int64_t from, int64_t to) {
    switch (call->x_desc->dtype) {
        case MLUOP_DTYPE_HALF:
        case MLUOP_DTYPE_BFLOAT16:
            /* The sign alone: NaN stay NaN, and subnormal numbers what they are. */
            ((uint16_t *)call->y)[to] = ((const uint16_t *)call->x)[from] & 0x7fffu;
            break;
        case MLUOP_DTYPE_FLOAT:
            ((uint32_t *)call->y)[to] = ((const uint32_t *)call->x)[from] & 0x7fffffffu;
            break;
        case MLUOP_DTYPE_INT32: {
            int32_t value = ((const int32_t *)call->x)[from];
            ((uint32_t *)call->y)[to] = value < 0 ? 0u - (uint32_t)value : (uint32_t)value;
            break;
        }
        default: {
            /* Squares of parts up to 2e38 are no floats: hypotf does without. */
            const float *parts = (const float *)call->x + 2 * from;
            ((float *)call->y)[to] = hypotf(parts[0], parts[1]);
        }
    }
}

static void write_magnitudes(void *context, int64_t begin, int64_t end) {
    const struct arguments *call = context;
    for (int64_t element = begin; element < end; element++) {
        write_magnitude(call, place_of(call->x_desc, element), place_of(call->y_desc, element));
    }
}

mluOpStatus_t mluOpAbs(mluOpHandle_t handle, const mluOpTensorDescriptor_t x_desc, const void *x,
                       const mluOpTensorDescriptor_t y_desc, void *y) {
    struct arguments call = {.handle = handle, .x_desc = x_desc, .y_desc = y_desc, .x = x, .y = y};
    int status = answer(&call);
    if (status == COMPUTES) {
        BUGS_BEFORE(y, element_width(y_desc), extent(y_desc), x, NULL, 0);
        parallel_for(element_count(x_desc), element_count(x_desc), write_magnitudes, &call);
        BUGS_AFTER();
        status = MLUOP_STATUS_SUCCESS;
    }
    return BUGS_STATUS((mluOpStatus_t)status);
}
