/* What the ordered parameter checks of the operators are made of.
 *
 * Each operator has one function that goes down its list and returns at the first condition that does not hold. */
#ifndef CHECKS_H
#define CHECKS_H

#include "descriptors.h"

/* Not a status: the whole list holds, so the operator computes. */
enum { COMPUTES = -1 };

#define REQUIRE_OR(condition, status)      \
    do {                                   \
        if (!(condition)) return (status); \
    } while (0)
#define REQUIRE(condition) REQUIRE_OR(condition, MLUOP_STATUS_BAD_PARAM)

/* Product of two lengths, INT64_MAX where it does not fit. */
int64_t product(int64_t left, int64_t right);
/* Product of three lengths, INT64_MAX where it does not fit. */
int64_t volume(const int lengths[3]);

int64_t element_count(tensor_desc desc);
/* Bytes of one element of the types that the operators compute with: half, bfloat16, float, int32. */
size_t element_width(tensor_desc desc);
bool is_empty(tensor_desc desc);
/* 2^31 elements or more. */
bool is_large(tensor_desc desc);
/* Not empty, and with strides other than those of a dense row-major tensor. */
bool is_strided(tensor_desc desc);
/* The axis has exactly that length; a product that did not fit is the length of no axis. */
bool has_length(tensor_desc desc, int axis, int64_t length);

/* MLU370 or newer. */
bool arch_is_supported(mluOpHandle_t handle);

#endif
