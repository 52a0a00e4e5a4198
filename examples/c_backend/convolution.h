/* What the sparse convolutions share: filters in every layout, and rows that are multiplied with them and summed up. */
#ifndef CONVOLUTION_H
#define CONVOLUTION_H

#include "checks.h"

/* Kernel offsets K, input channels Ci, output channels Co, and how far apart neighbours are in memory. */
struct filter_shape {
    int64_t offsets, channels_in, channels_out;
    int64_t offset_step, channel_in_step, channel_out_step;
};

/* Of a filter whose layout fits its rank. */
struct filter_shape shape_of(tensor_desc filters);

bool is_floating(tensor_desc desc);

/* sums[to, :] = the sum over all offsets k of rows[from, :] . W_k, where the pairs of k join `to` and `from`; 0 without
 * any pair. W_k is [depth, width], however it lies in memory. */
struct row_products {
    const void *rows;    /* [any, depth], half or float as everything here */
    int64_t row_values;  /* number of elements of rows */
    const void *filters;
    int64_t offsets, depth, width;
    int64_t offset_step, depth_step, width_step; /* in filters */
    const int32_t *pairs;                        /* [K, 2, pair_limit] */
    int64_t pair_limit;
    int to_side;           /* which of a pair's rows receives: 0 or 1 */
    const int64_t *counts; /* pairs in use per offset; whatever stands behind them is legal and not read */
    void *sums;            /* [sum_rows, width] */
    int64_t sum_rows;
    bool is_half;
};

/* Bytes of scratch memory that the sums need. */
size_t row_products_scratch(const struct row_products *products);
/* Writes every element of the sums; within one offset no row may receive twice. */
void sum_row_products(const struct row_products *products, void *scratch);

#endif
