/* What the sparse convolutions share: filters in every layout, and rows that are multiplied with them and summed up. */
#include "convolution.h"

#include <string.h>

#include "half.h"
#include "parallel.h"

#define NOBODY (-1)

/* Sums are made for BLOCK rows and LANES channels at a time, of which GROUP rows stay in registers: with AVX these are 8
 * sums of 8 floats, enough to keep two multipliers with a latency of 4 cycles busy. */
#define BLOCK 128
#define LANES 16
#define GROUP 4

/* The inner loop is built for AVX with FMA too, and the loader picks, where compiler and C library can do that. (Not
 * "arch=haswell": that clone runs on that very processor alone.) */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define FOR_THIS_PROCESSOR __attribute__((target_clones("fma", "default")))
#else
#define FOR_THIS_PROCESSOR
#endif

/* ---- filters ---- */

static int64_t lengths_product(tensor_desc desc, int first, int end) {
    int64_t result = 1;
    for (int axis = first; axis < end; axis++) result = product(result, desc->dims[axis]);
    return result;
}

struct filter_shape shape_of(tensor_desc filters) {
    const int64_t *dims = filters->dims;
    int rank = filters->rank;
    struct filter_shape shape = {0};
    switch (filters->layout) {
        case MLUOP_LAYOUT_NHWC:
        case MLUOP_LAYOUT_NDHWC: /* Co, K, Ci */
            shape.offsets = lengths_product(filters, 1, rank - 1);
            shape.channels_in = dims[rank - 1];
            shape.channels_out = dims[0];
            shape.offset_step = shape.channels_in;
            shape.channel_in_step = 1;
            shape.channel_out_step = product(shape.offsets, shape.channels_in);
            break;
        case MLUOP_LAYOUT_NCHW:
        case MLUOP_LAYOUT_NCDHW: /* Co, Ci, K */
            shape.offsets = lengths_product(filters, 2, rank);
            shape.channels_in = dims[1];
            shape.channels_out = dims[0];
            shape.offset_step = 1;
            shape.channel_in_step = shape.offsets;
            shape.channel_out_step = product(shape.offsets, shape.channels_in);
            break;
        default: /* HWCN and ARRAY: K, Ci, Co */
            shape.offsets = lengths_product(filters, 0, rank - 2);
            shape.channels_in = dims[rank - 2];
            shape.channels_out = dims[rank - 1];
            shape.offset_step = product(shape.channels_in, shape.channels_out);
            shape.channel_in_step = shape.channels_out;
            shape.channel_out_step = 1;
    }
    return shape;
}

bool is_floating(tensor_desc desc) {
    return desc->dtype == MLUOP_DTYPE_FLOAT || desc->dtype == MLUOP_DTYPE_HALF;
}

/* ---- what the scratch memory holds ---- */

struct work {
    const struct row_products *products;
    int64_t tiles;       /* of LANES channels */
    float *weights;      /* [tiles, K, depth, LANES] */
    int32_t *partners;   /* [K, sum_rows]: the row that a sum receives from, or NOBODY */
    const float *rows;   /* the rows themselves, or what their halves were widened to */
    float *widened_rows; /* NULL for float */
};

static int64_t tiles_of(const struct row_products *products) { return (products->width + LANES - 1) / LANES; }

static size_t weights_size(const struct row_products *products) {
    return (size_t)(tiles_of(products) * products->offsets * products->depth * LANES) * sizeof(float);
}

static size_t partners_size(const struct row_products *products) {
    return (size_t)(products->offsets * products->sum_rows) * sizeof(int32_t);
}

size_t row_products_scratch(const struct row_products *products) {
    size_t widened = products->is_half ? (size_t)products->row_values * sizeof(float) : 0;
    return weights_size(products) + partners_size(products) + widened;
}

static float filter_value(const struct row_products *products, int64_t place) {
    return products->is_half ? half_to_float(((const half *)products->filters)[place])
                             : ((const float *)products->filters)[place];
}

/* Items are tiles and offsets; channels behind the last are padded with 0. */
static void pack_weights(void *context, int64_t begin, int64_t end) {
    const struct work *work = context;
    const struct row_products *products = work->products;
    for (int64_t item = begin; item < end; item++) {
        int64_t tile = item / products->offsets, k = item % products->offsets;
        float *to = work->weights + item * products->depth * LANES;
        for (int64_t row = 0; row < products->depth; row++) {
            for (int64_t lane = 0; lane < LANES; lane++) {
                int64_t column = tile * LANES + lane;
                int64_t place =
                    k * products->offset_step + row * products->depth_step + column * products->width_step;
                to[row * LANES + lane] = column < products->width ? filter_value(products, place) : 0.0f;
            }
        }
    }
}

/* Within one offset a row receives at most once, so one partner each is enough. */
static void find_partners(void *context, int64_t begin, int64_t end) {
    const struct work *work = context;
    const struct row_products *products = work->products;
    for (int64_t k = begin; k < end; k++) {
        int32_t *partners = work->partners + k * products->sum_rows;
        const int32_t *pairs = products->pairs + 2 * k * products->pair_limit;
        const int32_t *to = pairs + products->to_side * products->pair_limit;
        const int32_t *from = pairs + (1 - products->to_side) * products->pair_limit;
        memset(partners, 0xff, (size_t)products->sum_rows * sizeof *partners);
        for (int64_t l = 0; l < products->counts[k]; l++) partners[to[l]] = from[l];
    }
}

static void widen_rows(void *context, int64_t begin, int64_t end) {
    const struct work *work = context;
    const half *from = work->products->rows;
    for (int64_t i = begin; i < end; i++) work->widened_rows[i] = half_to_float(from[i]);
}

/* ---- sums ---- */

/* sums[i] += rows[i] . weights for GROUP rows, all LANES channels. */
FOR_THIS_PROCESSOR
static void add_products(float *const sums[GROUP], const float *const rows[GROUP], const float *restrict weights,
                         int64_t depth) {
    /* One array per row: GCC keeps these in registers, an array of two dimensions it does not. */
    float sum0[LANES] = {0}, sum1[LANES] = {0}, sum2[LANES] = {0}, sum3[LANES] = {0};
    const float *row0 = rows[0], *row1 = rows[1], *row2 = rows[2], *row3 = rows[3];
    for (int64_t i = 0; i < depth; i++) {
        const float *weight = weights + i * LANES;
        float factor0 = row0[i], factor1 = row1[i], factor2 = row2[i], factor3 = row3[i];
        for (int lane = 0; lane < LANES; lane++) {
            sum0[lane] += factor0 * weight[lane];
            sum1[lane] += factor1 * weight[lane];
            sum2[lane] += factor2 * weight[lane];
            sum3[lane] += factor3 * weight[lane];
        }
    }
    for (int lane = 0; lane < LANES; lane++) {
        sums[0][lane] += sum0[lane];
        sums[1][lane] += sum1[lane];
        sums[2][lane] += sum2[lane];
        sums[3][lane] += sum3[lane];
    }
}

/* One kernel offset for the rows of a block. */
static void add_offset(const struct work *work, const int32_t *partners, int64_t count, const float *weights,
                       float sums[][LANES]) {
    int64_t depth = work->products->depth;
    float nowhere[LANES] = {0};
    float *to[GROUP];
    const float *rows[GROUP];
    int filled = 0;
    for (int64_t row = 0; row < count; row++) {
        if (partners[row] != NOBODY) {
            to[filled] = sums[row];
            rows[filled++] = work->rows + partners[row] * depth;
        }
        if (filled == GROUP || (row == count - 1 && filled > 0)) {
            /* A short group is filled up with a row whose sums go nowhere. */
            for (int i = filled; i < GROUP; i++) to[i] = nowhere, rows[i] = rows[0];
            add_products(to, rows, weights, depth);
            filled = 0;
        }
    }
}

static void store(const struct row_products *products, int64_t row, int64_t tile, const float sums[LANES]) {
    int64_t width = products->width, first = tile * LANES;
    int64_t count = width - first < LANES ? width - first : LANES;
    if (!products->is_half) {
        memcpy((float *)products->sums + row * width + first, sums, (size_t)count * sizeof(float));
        return;
    }
    half *to = (half *)products->sums + row * width + first;
    for (int64_t lane = 0; lane < count; lane++) to[lane] = float_to_half(sums[lane]);
}

/* Items are blocks of rows: nobody else adds to them, so the sums are the same with any number of threads. */
static void sum_blocks(void *context, int64_t begin, int64_t end) {
    const struct work *work = context;
    const struct row_products *products = work->products;
    for (int64_t block = begin; block < end; block++) {
        int64_t first = block * BLOCK;
        int64_t count = products->sum_rows - first < BLOCK ? products->sum_rows - first : BLOCK;
        for (int64_t tile = 0; tile < work->tiles; tile++) {
            float sums[BLOCK][LANES];
            memset(sums, 0, sizeof sums);
            for (int64_t k = 0; k < products->offsets; k++) {
                const float *weights = work->weights + (tile * products->offsets + k) * products->depth * LANES;
                add_offset(work, work->partners + k * products->sum_rows + first, count, weights, sums);
            }
            for (int64_t row = 0; row < count; row++) store(products, first + row, tile, sums[row]);
        }
    }
}

void sum_row_products(const struct row_products *products, void *scratch) {
    unsigned char *partners = (unsigned char *)scratch + weights_size(products);
    unsigned char *widened = partners + partners_size(products);
    struct work work = {
        .products = products,
        .tiles = tiles_of(products),
        .weights = scratch,
        .partners = (int32_t *)(void *)partners,
        .widened_rows = products->is_half ? (float *)(void *)widened : NULL,
    };
    work.rows = products->is_half ? work.widened_rows : products->rows;
    int64_t weights = work.tiles * products->offsets * products->depth * LANES;
    int64_t steps = product(products->offsets, products->sum_rows);
    parallel_for(work.tiles * products->offsets, weights, pack_weights, &work);
    parallel_for(products->offsets, steps, find_partners, &work);
    if (products->is_half) parallel_for(products->row_values, products->row_values, widen_rows, &work);
    int64_t cost = product(steps, product(work.tiles, products->depth));
    parallel_for((products->sum_rows + BLOCK - 1) / BLOCK, cost, sum_blocks, &work);
}
