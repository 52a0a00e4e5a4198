/* IEEE binary16 to float and back, without help from compiler or processor. */
#ifndef HALF_H
#define HALF_H

#include <stdint.h>
#include <string.h>

typedef uint16_t half;

static inline uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Exact: every half is a float. */
static inline float half_to_float(half value) {
    uint32_t sign = (uint32_t)(value & 0x8000u) << 16;
    uint32_t magnitude = (uint32_t)(value & 0x7fffu) << 13;
    if (magnitude >= 0x0f800000u) return float_of(sign | 0x7f800000u | magnitude); /* infinity, NaN */
    /* Read as a float the exponent is too small by the difference of the biases, 127 - 15; subnormals come right too. */
    return float_of(sign | bits_of(float_of(magnitude) * 0x1p112f));
}

/* Rounds once, to nearest, ties to even; beyond 65504 to infinity. */
static inline half float_to_half(float value) {
    uint32_t sign = bits_of(value) >> 16 & 0x8000u;
    uint32_t magnitude = bits_of(value) & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (half)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu)); /* NaN, made quiet */
    if (magnitude >= 0x477ff000u) return (half)(sign | 0x7c00u); /* 65520 and more */
    if (magnitude < 0x38800000u) {
        /* Below 2^-14 halves are multiples of 2^-24, the spacing of floats at 0.5: the addition rounds. */
        return (half)(sign | (bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f)));
    }
    uint32_t rebiased = magnitude - ((127u - 15u) << 23);
    return (half)(sign | ((rebiased + 0xfffu + (rebiased >> 13 & 1u)) >> 13));
}

#endif
