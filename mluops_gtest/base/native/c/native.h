/* What Python calls (through ctypes) and what the kernels of every instruction set share. */
#ifndef MLUOPS_NATIVE_H
#define MLUOPS_NATIVE_H

#include <stdint.h>

#if defined(_WIN32)
#define EXPORTED __declspec(dllexport)
#else
#define EXPORTED __attribute__((visibility("default")))
#endif

/* The order of summation: part i of a cell belongs to lane i mod LANES; a lane adds its parts one after the other; then
 * the upper half of the lanes is added to the lower half until one is left. Sums of cells are added by the caller. */
enum { LANES = 256, ROWS = 128, CELL = LANES * ROWS };

/* How stored parts are read as numbers. The order is that of native/kinds.py. */
enum kind { F16, BF16, F32, F64, I8, U8, I16, U16, I32, U32, I64, U64, KINDS };

/* Places count parts from the beginning of the whole array; -1 is nowhere. */
typedef struct {
    int64_t bits_unequal; /* elements: two parts of a complex number count once */
    int64_t unequal, first_unequal, last_unequal;
    int64_t mismatched, first_mismatched, last_mismatched; /* NaN or Inf that does not meet its like */
    double largest;  /* |e-b| over the finite pairs */
    double relative; /* |e-b| / (|b| + 1e-9) where |b| is not small */
    double error;    /* that, or |e-b| where |b| is small */
    int64_t worst;   /* the first part that has it */
    uint64_t ulp;
    /* Of single elements that have a bound: how many are beyond it, and the furthest in shares of what is allowed. */
    int64_t beyond, first_beyond, last_beyond, furthest;
    double ratio, allowed;
} figures;

/* A number for each element: element i has number i / repeat. Their kinds are F32, F64 and I64. */
typedef struct {
    const unsigned char *numbers;
    int64_t kind, repeat;
} spread;

/* What arithmetic allows each element: see criteria/elementwise.py, which also knows what the constants are. */
typedef struct {
    spread magnitude, roundings, unit;
    double roundoff, blocks_from, loss, tiny, behind, behind_underflow, sums, results, smallest_unit;
    int64_t smallest, significant, rounds_twice;
} bound;

/* Sums of one cell: of |e-b|, of its square, of |b|, of its square. */
typedef struct {
    double difference, difference_squared, weight, weight_squared;
} cell_sums;

/* One share of two arrays: `count` parts from part `start`, a multiple of CELL. */
typedef struct {
    const unsigned char *evaluated, *baseline;
    int64_t start, count;
    int64_t parts_of_element;
    double small; /* where errors turn from relative to absolute; integers have none */
    const bound *limits; /* or none; only of single floating-point parts */
} pair;

/* Few parts of two arrays, and what is found there. */
typedef struct {
    pair given;
    figures found;
    cell_sums sums;
    uint8_t equal;
} one_cell;

typedef struct {
    /* `equal` says of each cell whether its bits are the same on both sides: its sums were left alone then. */
    void (*compare)(const pair *, figures *, cell_sums *, uint8_t *equal);
    /* The weights of the cells that `wanted` marks, and how many parts of them are finite. */
    int64_t (*weigh)(const pair *, cell_sums *, const uint8_t *wanted);
    /* How many elements are off by more than `threshold` times the larger of |b| and `scale`. */
    int64_t (*beyond)(const pair *, double threshold, double scale);
} kernels;

typedef const kernels kernel_table[KINDS];
extern kernel_table kernels_baseline, kernels_avx2, kernels_avx512;

#endif
