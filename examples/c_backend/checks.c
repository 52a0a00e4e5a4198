#include "checks.h"

#define OLDEST_ARCH 370
#define LARGE_ELEMENTS (INT64_C(1) << 31)

int64_t product(int64_t left, int64_t right) {
    if (left == 0 || right == 0) return 0;
    return left > INT64_MAX / right ? INT64_MAX : left * right;
}

int64_t volume(const int lengths[3]) { return product(product(lengths[0], lengths[1]), lengths[2]); }

int64_t element_count(tensor_desc desc) {
    int64_t count = 1;
    for (int axis = 0; axis < desc->rank; axis++) {
        if (desc->dims[axis] == 0) return 0;
        count = product(count, desc->dims[axis]);
    }
    return count;
}

size_t element_width(tensor_desc desc) {
    return desc->dtype == MLUOP_DTYPE_HALF || desc->dtype == MLUOP_DTYPE_BFLOAT16 ? 2 : 4;
}

bool is_empty(tensor_desc desc) { return element_count(desc) == 0; }

bool is_large(tensor_desc desc) { return element_count(desc) >= LARGE_ELEMENTS; }

bool is_strided(tensor_desc desc) {
    if (!desc->has_strides || is_empty(desc)) return false;
    int64_t dense = 1;
    for (int axis = desc->rank - 1; axis >= 0; axis--) {
        if (desc->dims[axis] != 1 && desc->strides[axis] != dense) return true;
        dense = product(dense, desc->dims[axis]);
    }
    return false;
}

bool has_length(tensor_desc desc, int axis, int64_t length) {
    return length != INT64_MAX && desc->dims[axis] == length;
}

bool arch_is_supported(mluOpHandle_t handle) { return handle->arch >= OLDEST_ARCH; }
