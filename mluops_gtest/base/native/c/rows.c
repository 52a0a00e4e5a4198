/* Rows of floats that lie anywhere, gathered and added, and distances of points: what references need, compiled once for
 * each instruction set with -DLEVEL=name. Sums are taken one term after the other, in the order of the terms. */
#include "native.h"

#include <string.h>

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define OF_LEVEL(name) EXPORTED void JOIN(mluops_##name, LEVEL)

/* So many rows before its turn a row is fetched: memory takes its time. */
enum { AHEAD = 4, LINE = 64 };
enum { SIGNLESS = INT32_MAX };

static inline int32_t bits_of(float value) {
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of(int32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline void fetch(const void *row, size_t size) {
    for (size_t i = 0; i < size; i += LINE) __builtin_prefetch((const char *)row + i);
}

/* sums[targets[n]] += rows[sources[n]], or its magnitudes. `found`: the bits of the smallest magnitude that is not 0, and
 * of the largest; 0 where there is none. */
OF_LEVEL(add_rows)(const float *rows, const int64_t *sources, const int64_t *targets, int64_t number, int64_t width,
        int magnitudes, double *sums, uint32_t *found) {
    int32_t kept = magnitudes ? SIGNLESS : -1;
    uint32_t low = UINT32_MAX, high = 0; /* `low` counts from 1, so that 0 is the last to be taken */
    for (int64_t n = 0; n < number; n++) {
        const float *row = rows + sources[n] * width;
        double *sum = sums + targets[n] * width;
        if (n + AHEAD < number) {
            fetch(rows + sources[n + AHEAD] * width, (size_t)width * sizeof *rows);
            fetch(sums + targets[n + AHEAD] * width, (size_t)width * sizeof *sums);
        }
        for (int64_t i = 0; i < width; i++) {
            uint32_t magnitude = (uint32_t)bits_of(row[i]) & SIGNLESS;
            low = magnitude - 1 < low ? magnitude - 1 : low;
            high = magnitude > high ? magnitude : high;
            sum[i] += (double)float_of(bits_of(row[i]) & kept);
        }
    }
    found[0] = low + 1, found[1] = high;
}

/* sums[targets[n]] += rows[n]. */
OF_LEVEL(add_wide_rows)(const double *rows, const int64_t *targets, int64_t number, int64_t width, double *sums) {
    for (int64_t n = 0; n < number; n++) {
        double *sum = sums + targets[n] * width;
        for (int64_t i = 0; i < width; i++) sum[i] += rows[n * width + i];
    }
}

/* out[n] = rows[sources[n]]. */
OF_LEVEL(gather_rows)(const float *rows, const int64_t *sources, int64_t number, int64_t width, double *out) {
    for (int64_t n = 0; n < number; n++) {
        const float *row = rows + sources[n] * width;
        if (n + AHEAD < number) fetch(rows + sources[n + AHEAD] * width, (size_t)width * sizeof *rows);
        for (int64_t i = 0; i < width; i++) out[n * width + i] = (double)row[i];
    }
}

/* out[r][n] is the sum of the three rows[r][cells[t][n]] * weights[t][n]. */
OF_LEVEL(blend)(const double *restrict rows, int64_t height, int64_t length, const int32_t *cells, const double *weights,
        int64_t number, double *restrict out) {
    const int32_t *second = cells + number, *third = second + number;
    const double *of_second = weights + number, *of_third = of_second + number;
    for (int64_t r = 0; r < height; r++, rows += length, out += number)
        for (int64_t n = 0; n < number; n++)
            out[n] = rows[cells[n]] * weights[n] + rows[second[n]] * of_second[n] + rows[third[n]] * of_third[n];
}

/* sums[r][cells[n][t]] += rows[r][n] * weights[n][t] for the three t of each n. */
OF_LEVEL(scatter)(const double *rows, int64_t height, int64_t number, const int32_t *cells, const double *weights,
        int64_t length, double *sums) {
    for (int64_t r = 0; r < height; r++, rows += number, sums += length)
        for (int64_t n = 0; n < 3 * number; n += 3)
            for (int64_t t = n; t < n + 3; t++) sums[cells[t]] += rows[n / 3] * weights[t];
}

/* Of the rows that name a target the first with the wanted value gets the target's own value, place by place; `taken`
 * has a byte for each. */
OF_LEVEL(give)(const float *rows, const int64_t *sources, const int64_t *targets, int64_t number, int64_t width,
        const float *wanted, const float *own, uint8_t *taken, float *out) {
    for (int64_t n = 0; n < number; n++) {
        const float *row = rows + sources[n] * width, *want = wanted + targets[n] * width, *mine = own + targets[n] * width;
        uint8_t *gone = taken + targets[n] * width;
        float *to = out + sources[n] * width;
        for (int64_t i = 0; i < width; i++) {
            uint8_t first = (row[i] == want[i]) & !gone[i];
            gone[i] |= first;
            to[i] = float_of(bits_of(mine[i]) & -(int32_t)first);
        }
    }
}

/* out[q][p] is the squared distance of two points: queries are rows of three, each axis of the other points is an array
 * that begins `stride` numbers behind the one before. */
OF_LEVEL(distances)(const double *queries, int64_t number, const double *axes, int64_t stride, int64_t points,
        double *restrict out) {
    for (int64_t q = 0; q < number; q++, queries += 3, out += points)
        for (int64_t p = 0; p < points; p++) {
            double x = queries[0] - axes[p], y = queries[1] - axes[stride + p], z = queries[2] - axes[2 * stride + p];
            out[p] = x * x + y * y + z * z;
        }
}
