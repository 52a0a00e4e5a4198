/* The kernels of one instruction set: compiled once for each with -DLEVEL=name. */
#include "native.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define EPSILON 1e-9

typedef struct {
    _Alignas(64) double difference[LANES], difference_squared[LANES], weight[LANES], weight_squared[LANES];
} lanes;

/* What is carried from row to row of a cell, and from cell to cell. */
typedef struct {
    int64_t passed; /* rows before the first unequal one, whose weights wait; then -1 */
    int64_t last;   /* the last band with something unequal, of which the place is not known yet; -1 before */
    int now;        /* which of the sums count: rows are added to them into the others, which count then */
    lanes sums[2];
} walk;

/* As many doubles as a register holds: the compiler would choose as many floats, and run out of registers. */
#if defined(__AVX512F__)
enum { WIDTH = 8 };
#elif defined(__AVX__)
enum { WIDTH = 4 };
#else
enum { WIDTH = 2 };
#endif
/* Where compilers may take such a vector apart, an intrinsic names the instruction. */
typedef double doubles __attribute__((vector_size(WIDTH * sizeof(double))));
typedef int64_t masks __attribute__((vector_size(WIDTH * sizeof(int64_t))));
typedef uint64_t words __attribute__((vector_size(WIDTH * sizeof(uint64_t))));

static inline doubles loaded(const double *numbers) {
    doubles vector;
    memcpy(&vector, numbers, sizeof vector);
    return vector;
}

static inline doubles widened(const float *numbers) {
#if defined(__AVX512F__)
    return _mm512_cvtps_pd(_mm256_loadu_ps(numbers));
#elif defined(__AVX__)
    return _mm256_cvtps_pd(_mm_loadu_ps(numbers));
#else
    doubles wide;
    for (int i = 0; i < WIDTH; i++) wide[i] = (double)numbers[i];
    return wide;
#endif
}

static inline doubles magnitudes(doubles numbers) { return (doubles)((masks)numbers & INT64_MAX); }

/* The powers of two at or below |x|. */
static inline doubles powers(doubles numbers) { return (doubles)((masks)numbers & 0x7ff0000000000000); }

static inline doubles spread_over(double number) { return (doubles){0} + number; }

static inline doubles lower(doubles x, doubles y) {
#if defined(__AVX512F__)
    return _mm512_min_pd(x, y);
#elif defined(__AVX__)
    return _mm256_min_pd(x, y);
#elif defined(__SSE2__)
    return _mm_min_pd(x, y);
#else
    for (int i = 0; i < WIDTH; i++) x[i] = x[i] < y[i] ? x[i] : y[i];
    return x;
#endif
}

static inline doubles pick(masks where, doubles yes, doubles no) {
    return (doubles)(((masks)yes & where) | ((masks)no & ~where));
}

static inline int any(masks found) {
    int64_t all = 0;
    for (int i = 0; i < WIDTH; i++) all |= found[i];
    return all != 0;
}

/* Ask for so many numbers from number `i` on, each of `size` bytes, before they are needed. */
static inline void fetch(const void *numbers, int i, int count, int64_t size) {
    for (int64_t byte = 0; byte < count * size; byte += 64)
        __builtin_prefetch((const unsigned char *)numbers + i * size + byte);
}

static double folded(double *lane) {
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++) lane[i] += lane[i + width];
    return lane[0];
}

static cell_sums folded_sums(lanes *sums) {
    return (cell_sums){folded(sums->difference), folded(sums->difference_squared), folded(sums->weight),
                       folded(sums->weight_squared)};
}

static double highest(double *numbers) {
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++) numbers[i] = numbers[i] > numbers[i + width] ? numbers[i] : numbers[i + width];
    return numbers[0];
}

/* A little less than `most`: where |e-b| is not above its product with something, the quotient cannot be above `most`,
 * whatever a dozen operations round to; no product of it with a |b| that is not small is subnormal. */
static double cautious(double most) { return most < 1e-290 ? 0.0 : most * (1.0 - 0x1p-48); }

static void begin(figures *f) {
    *f = (figures){.first_unequal = -1, .last_unequal = -1, .first_mismatched = -1, .last_mismatched = -1, .worst = -1,
                     .first_beyond = -1, .last_beyond = -1, .furthest = -1};
}

static void note(const uint8_t *marks, int64_t at, int64_t parts, int64_t *number, int64_t *first, int64_t *last) {
    int marked = 0;
    if (parts == 1)
        for (int i = 0; i < LANES; i++) marked += marks[i];
    else
        for (int i = 0; i < LANES; i += 2) marked += marks[i] | marks[i + 1];
    if (!marked) return;
    *number += marked;
    if (*first < 0) *first = at + (const uint8_t *)memchr(marks, 1, LANES) - marks;
    int i = LANES - 1;
    while (i > 0 && !marks[i]) i--;
    *last = at + i;
}

static void widen_half(const uint16_t *stored, float *values, int count) {
#if defined(__F16C__)
    for (int i = 0; i < count; i += 8)
        _mm256_storeu_ps(values + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(stored + i))));
#else
    uint32_t *words = (uint32_t *)values;
    for (int i = 0; i < count; i++) {
        /* The exponent moves by a product with a power of two, which also makes subnormal halves normal. */
        uint32_t bits = stored[i], magnitude = (bits & 0x7fff) << 13;
        words[i] = magnitude;
        values[i] *= 0x1p112f;
        words[i] |= (magnitude >= 0x7c00u << 13 ? 0x7f800000u : 0) | (bits & 0x8000) << 16;
    }
#endif
}

static void widen_bfloat16(const uint16_t *stored, float *values, int count) {
    uint32_t *words = (uint32_t *)values;
    for (int i = 0; i < count; i++) words[i] = (uint32_t)stored[i] << 16;
}

#include "bound_rows.h"

#define NAME float32
#define STORED float
#define VALUE float
#define PATTERN int32_t
#define UNSIGNED uint32_t
#define MAGNITUDE 0x7fffffff
#define LARGEST_FINITE 0x7f7fffff
#define LOADED widened
#include "float_rows.h"

#define NAME float64
#define STORED double
#define VALUE double
#define PATTERN int64_t
#define UNSIGNED uint64_t
#define MAGNITUDE 0x7fffffffffffffff
#define LARGEST_FINITE 0x7fefffffffffffff
#define LOADED loaded
#define MAY_OVERFLOW
#include "float_rows.h"

#define NAME float16
#define STORED int16_t
#define VALUE float
#define PATTERN int16_t
#define UNSIGNED uint16_t
#define MAGNITUDE 0x7fff
#define LARGEST_FINITE 0x7bff
#define LOADED widened
#define WIDEN widen_half
#include "float_rows.h"

#define NAME bfloat16
#define STORED int16_t
#define VALUE float
#define PATTERN int16_t
#define UNSIGNED uint16_t
#define MAGNITUDE 0x7fff
#define LARGEST_FINITE 0x7f7f
#define LOADED widened
#define WIDEN widen_bfloat16
#include "float_rows.h"

#define NAME int8
#define STORED int8_t
#include "integer_rows.h"

#define NAME uint8
#define STORED uint8_t
#include "integer_rows.h"

#define NAME int16
#define STORED int16_t
#include "integer_rows.h"

#define NAME uint16
#define STORED uint16_t
#include "integer_rows.h"

#define NAME int32
#define STORED int32_t
#include "integer_rows.h"

#define NAME uint32
#define STORED uint32_t
#include "integer_rows.h"

#define NAME int64
#define STORED int64_t
#define WIDE
#include "integer_rows.h"

#define NAME uint64
#define STORED uint64_t
#define WIDE
#include "integer_rows.h"

#define ROW_OF(name) {compare_##name, weigh_##name, beyond_##name}

kernel_table JOIN(kernels, LEVEL) = {
    [F16] = ROW_OF(float16), [BF16] = ROW_OF(bfloat16), [F32] = ROW_OF(float32), [F64] = ROW_OF(float64),
    [I8] = ROW_OF(int8),     [U8] = ROW_OF(uint8),      [I16] = ROW_OF(int16),   [U16] = ROW_OF(uint16),
    [I32] = ROW_OF(int32),   [U32] = ROW_OF(uint32),    [I64] = ROW_OF(int64),   [U64] = ROW_OF(uint64),
};
