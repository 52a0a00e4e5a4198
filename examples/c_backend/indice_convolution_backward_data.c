/* indice_convolution_backward_data: the gradient of a sparse convolution with respect to its input. */
#include <string.h>

#include "bugs.h"
#include "checks.h"
#include "half.h"
#include "parallel.h"
#include "scratch.h"

#define MOST_ROWS 1000000
#define NOBODY (-1)

/* Sums are made for BLOCK input rows and LANES channels at a time, of which GROUP rows stay in registers: with AVX these
 * are 8 sums of 8 floats, enough to keep two multipliers with a latency of 4 cycles busy. */
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

struct arguments {
    mluOpHandle_t handle;
    tensor_desc output_grad_desc, filters_desc, indice_pairs_desc, input_grad_desc;
    const void *output_grad, *filters; /* [Y, Co], and a layout of [K, Ci, Co] */
    const int32_t *indice_pairs;       /* [K, 2, L] */
    const int64_t *indice_num;         /* K entries on the host */
    int64_t inverse, sub_m;
    void *workspace;
    size_t workspace_size;
    void *input_grad; /* [L, Ci] */
};

/* ---- filters ---- */

/* Kernel offsets K, input channels Ci, output channels Co, and how far apart neighbours are in memory. */
struct filter_shape {
    int64_t offsets, channels_in, channels_out;
    int64_t offset_step, channel_in_step, channel_out_step;
};

/* A layout whose axes are not those of the tensor has no K, Ci and Co. */
static bool layout_fits(tensor_desc filters) {
    switch (filters->layout) {
        case MLUOP_LAYOUT_NHWC:
        case MLUOP_LAYOUT_NCHW:
        case MLUOP_LAYOUT_HWCN: return filters->rank == 4;
        case MLUOP_LAYOUT_NDHWC:
        case MLUOP_LAYOUT_NCDHW: return filters->rank == 5;
        case MLUOP_LAYOUT_ARRAY: return filters->rank == 4 || filters->rank == 5;
        default: return false;
    }
}

static int64_t lengths_product(tensor_desc desc, int first, int end) {
    int64_t result = 1;
    for (int axis = first; axis < end; axis++) result = product(result, desc->dims[axis]);
    return result;
}

static struct filter_shape shape_of(tensor_desc filters) {
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
        default: /* HWCN and ARRAY: K, Ci, Co. §3.1's "[K, Co, Ci]" is a slip: W_k is [Ci, Co]. */
            shape.offsets = lengths_product(filters, 0, rank - 2);
            shape.channels_in = dims[rank - 2];
            shape.channels_out = dims[rank - 1];
            shape.offset_step = product(shape.channels_in, shape.channels_out);
            shape.channel_in_step = shape.channels_out;
            shape.channel_out_step = 1;
    }
    return shape;
}

/* ---- checks ---- */

static bool is_floating(tensor_desc desc) {
    return desc->dtype == MLUOP_DTYPE_FLOAT || desc->dtype == MLUOP_DTYPE_HALF;
}

/* All but the data; what the workspace query can check too. */
static int answer_descriptors(const struct arguments *call) {
    tensor_desc output_grad = call->output_grad_desc, filters = call->filters_desc;
    tensor_desc pairs = call->indice_pairs_desc, input_grad = call->input_grad_desc;
    REQUIRE(call->handle != NULL);
    REQUIRE(output_grad != NULL && filters != NULL && pairs != NULL && input_grad != NULL);
    REQUIRE(call->indice_num != NULL);
    REQUIRE_OR(arch_is_supported(call->handle), MLUOP_STATUS_ARCH_MISMATCH);

    REQUIRE(output_grad->rank == 2 && (filters->rank == 4 || filters->rank == 5));
    REQUIRE(pairs->rank == 3 && input_grad->rank == 2 && has_length(pairs, 1, 2));
    REQUIRE_OR(pairs->dims[2] <= MOST_ROWS, MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE(is_floating(output_grad) && is_floating(filters) && is_floating(input_grad));
    REQUIRE(pairs->dtype == MLUOP_DTYPE_INT32);
    REQUIRE(layout_fits(filters));
    REQUIRE_OR(!is_strided(output_grad) && !is_strided(filters), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_strided(pairs) && !is_strided(input_grad), MLUOP_STATUS_NOT_SUPPORTED);

    struct filter_shape shape = shape_of(filters);
    /* indice_num has K entries; before it is known that both tensors agree on K, the smaller one is safe to read. */
    int64_t offsets = shape.offsets < pairs->dims[0] ? shape.offsets : pairs->dims[0];
    int64_t largest = 0;
    REQUIRE((call->inverse == 0 || call->inverse == 1) && (call->sub_m == 0 || call->sub_m == 1));
    for (int64_t k = 0; k < offsets; k++) {
        REQUIRE(call->indice_num[k] >= 0);
        if (call->indice_num[k] > largest) largest = call->indice_num[k];
    }
    REQUIRE_OR(call->inverse == 0, MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE(has_length(pairs, 0, shape.offsets));
    REQUIRE(has_length(output_grad, 1, shape.channels_out));
    REQUIRE(has_length(input_grad, 1, shape.channels_in) && has_length(input_grad, 0, pairs->dims[2]));
    REQUIRE(largest <= pairs->dims[2]);
    if (call->sub_m) {
        REQUIRE(has_length(input_grad, 0, output_grad->dims[0]));
        REQUIRE(offsets % 2 == 1 && call->indice_num[offsets / 2] == largest);
    }
    REQUIRE(output_grad->dims[0] >= largest);
    REQUIRE(input_grad->dtype == output_grad->dtype && filters->dtype == output_grad->dtype);
    REQUIRE_OR(!is_large(input_grad) && !is_large(output_grad), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_large(filters) && !is_large(pairs), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_empty(input_grad) && !is_empty(output_grad), MLUOP_STATUS_SUCCESS);
    REQUIRE_OR(!is_empty(filters) && !is_empty(pairs), MLUOP_STATUS_SUCCESS);
    return COMPUTES;
}

static int answer(const struct arguments *call) {
    int status = answer_descriptors(call);
    if (status != COMPUTES) return status;
    REQUIRE(call->output_grad != NULL && call->filters != NULL);
    REQUIRE(call->indice_pairs != NULL && call->input_grad != NULL);
    REQUIRE(call->workspace != NULL || call->workspace_size == 0);
    return COMPUTES;
}

/* ---- what the scratch memory holds ---- */

struct work {
    const struct arguments *call;
    struct filter_shape shape;
    int64_t rows;         /* L */
    int64_t tiles;        /* of LANES input channels */
    float *weights;       /* [tiles, K, Co, LANES] */
    int32_t *partners;    /* [K, L]: the output row that an input row meets, or NOBODY */
    const float *grads;   /* [Y, Co]: output_grad itself, or what its halves were widened to */
    float *widened_grads; /* NULL for float */
};

/* Divides the scratch memory, or only counts it where there is none yet; the bytes used. */
static size_t lay_out(struct work *work, const struct arguments *call, unsigned char *scratch) {
    struct filter_shape shape = shape_of(call->filters_desc);
    int64_t rows = call->indice_pairs_desc->dims[2], tiles = (shape.channels_in + LANES - 1) / LANES;
    size_t weights = (size_t)(tiles * shape.offsets * shape.channels_out * LANES) * sizeof(float);
    size_t partners = (size_t)(shape.offsets * rows) * sizeof(int32_t);
    bool is_half = call->output_grad_desc->dtype == MLUOP_DTYPE_HALF;
    size_t grads = is_half ? (size_t)element_count(call->output_grad_desc) * sizeof(float) : 0;
    if (scratch != NULL) {
        *work = (struct work){.call = call, .shape = shape, .rows = rows, .tiles = tiles};
        work->weights = (float *)(void *)scratch;
        work->partners = (int32_t *)(void *)(scratch + weights);
        work->widened_grads = is_half ? (float *)(void *)(scratch + weights + partners) : NULL;
        work->grads = is_half ? work->widened_grads : call->output_grad;
    }
    return weights + partners + grads;
}

static float filter_value(const struct work *work, int64_t place) {
    const void *filters = work->call->filters;
    return work->widened_grads != NULL ? half_to_float(((const half *)filters)[place])
                                       : ((const float *)filters)[place];
}

/* Items are tiles and offsets; channels behind Ci are padded with 0. */
static void pack_weights(void *context, int64_t begin, int64_t end) {
    struct work *work = context;
    struct filter_shape shape = work->shape;
    for (int64_t item = begin; item < end; item++) {
        int64_t tile = item / shape.offsets, k = item % shape.offsets;
        float *to = work->weights + item * shape.channels_out * LANES;
        for (int64_t co = 0; co < shape.channels_out; co++) {
            for (int64_t lane = 0; lane < LANES; lane++) {
                int64_t ci = tile * LANES + lane;
                int64_t place = k * shape.offset_step + ci * shape.channel_in_step + co * shape.channel_out_step;
                to[co * LANES + lane] = ci < shape.channels_in ? filter_value(work, place) : 0.0f;
            }
        }
    }
}

/* Within one offset an input row occurs at most once, so one partner each is enough. */
static void find_partners(void *context, int64_t begin, int64_t end) {
    struct work *work = context;
    for (int64_t k = begin; k < end; k++) {
        int32_t *partners = work->partners + k * work->rows;
        const int32_t *inputs = work->call->indice_pairs + 2 * k * work->rows, *outputs = inputs + work->rows;
        memset(partners, 0xff, (size_t)work->rows * sizeof *partners);
        /* Whatever stands behind the first indice_num[k] entries is legal and not read. */
        for (int64_t l = 0; l < work->call->indice_num[k]; l++) partners[inputs[l]] = outputs[l];
    }
}

static void widen_grads(void *context, int64_t begin, int64_t end) {
    struct work *work = context;
    const half *from = work->call->output_grad;
    for (int64_t i = begin; i < end; i++) work->widened_grads[i] = half_to_float(from[i]);
}

/* ---- sums ---- */

/* sums[i] += grads[i] . weights for GROUP rows, all LANES channels. */
FOR_THIS_PROCESSOR
static void add_products(float *const sums[GROUP], const float *const grads[GROUP], const float *restrict weights,
                         int64_t channels_out) {
    /* One array per row: GCC keeps these in registers, an array of two dimensions it does not. */
    float sum0[LANES] = {0}, sum1[LANES] = {0}, sum2[LANES] = {0}, sum3[LANES] = {0};
    const float *grad0 = grads[0], *grad1 = grads[1], *grad2 = grads[2], *grad3 = grads[3];
    for (int64_t co = 0; co < channels_out; co++) {
        const float *weight = weights + co * LANES;
        float factor0 = grad0[co], factor1 = grad1[co], factor2 = grad2[co], factor3 = grad3[co];
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
    float nowhere[LANES] = {0};
    float *to[GROUP];
    const float *grads[GROUP];
    int filled = 0;
    for (int64_t row = 0; row < count; row++) {
        if (partners[row] != NOBODY) {
            to[filled] = sums[row];
            grads[filled++] = work->grads + partners[row] * work->shape.channels_out;
        }
        if (filled == GROUP || (row == count - 1 && filled > 0)) {
            /* A short group is filled up with a row whose sums go nowhere. */
            for (int i = filled; i < GROUP; i++) to[i] = nowhere, grads[i] = grads[0];
            add_products(to, grads, weights, work->shape.channels_out);
            filled = 0;
        }
    }
}

static void store(const struct work *work, int64_t row, int64_t tile, const float sums[LANES]) {
    int64_t channels = work->shape.channels_in, first = tile * LANES;
    int64_t count = channels - first < LANES ? channels - first : LANES;
    if (work->widened_grads == NULL) {
        memcpy((float *)work->call->input_grad + row * channels + first, sums, (size_t)count * sizeof(float));
        return;
    }
    half *to = (half *)work->call->input_grad + row * channels + first;
    for (int64_t lane = 0; lane < count; lane++) to[lane] = float_to_half(sums[lane]);
}

/* Items are blocks of input rows: nobody else adds to them, so the sums are the same with any number of threads. */
static void sum_blocks(void *context, int64_t begin, int64_t end) {
    const struct work *work = context;
    struct filter_shape shape = work->shape;
    for (int64_t block = begin; block < end; block++) {
        int64_t first = block * BLOCK;
        int64_t count = work->rows - first < BLOCK ? work->rows - first : BLOCK;
        for (int64_t tile = 0; tile < work->tiles; tile++) {
            float sums[BLOCK][LANES];
            memset(sums, 0, sizeof sums);
            for (int64_t k = 0; k < shape.offsets; k++) {
                const float *weights = work->weights + (tile * shape.offsets + k) * shape.channels_out * LANES;
                add_offset(work, work->partners + k * work->rows + first, count, weights, sums);
            }
            for (int64_t row = 0; row < count; row++) store(work, first + row, tile, sums[row]);
        }
    }
}

/* sub_m does not occur here: it changes only the checks, never the arithmetic. */
static mluOpStatus_t compute(const struct arguments *call) {
    struct work work;
    void *scratch = scratch_take(call->workspace, call->workspace_size, lay_out(NULL, call, NULL));
    if (scratch == NULL) return MLUOP_STATUS_ALLOC_FAILED;
    lay_out(&work, call, scratch);
    struct filter_shape shape = work.shape;
    int64_t weights = work.tiles * shape.offsets * shape.channels_out * LANES;
    int64_t grads = element_count(call->output_grad_desc), pairs = shape.offsets * work.rows;
    parallel_for(work.tiles * shape.offsets, weights, pack_weights, &work);
    parallel_for(shape.offsets, pairs, find_partners, &work);
    if (work.widened_grads != NULL) parallel_for(grads, grads, widen_grads, &work);
    int64_t products = product(pairs, product(work.tiles, shape.channels_out));
    parallel_for((work.rows + BLOCK - 1) / BLOCK, products, sum_blocks, &work);
    scratch_release(scratch, call->workspace);
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpGetIndiceConvolutionBackwardDataWorkspaceSize(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t output_grad_desc, const mluOpTensorDescriptor_t filters_desc,
    const mluOpTensorDescriptor_t indice_pairs_desc, const mluOpTensorDescriptor_t input_grad_desc,
    const int64_t indice_num[], const int64_t inverse, size_t *workspace_size) {
    struct arguments call = {
        .handle = handle,
        .output_grad_desc = output_grad_desc,
        .filters_desc = filters_desc,
        .indice_pairs_desc = indice_pairs_desc,
        .input_grad_desc = input_grad_desc,
        .indice_num = indice_num,
        .inverse = inverse,
    };
    REQUIRE(workspace_size != NULL);
    int status = answer_descriptors(&call);
    if (status != COMPUTES && status != MLUOP_STATUS_SUCCESS) return (mluOpStatus_t)status;
    *workspace_size = status == COMPUTES ? lay_out(NULL, &call, NULL) : 0;
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpIndiceConvolutionBackwardData(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t output_grad_desc, const void *output_grad,
    const mluOpTensorDescriptor_t filters_desc, const void *filters, const mluOpTensorDescriptor_t indice_pairs_desc,
    const void *indice_pairs, const int64_t indice_num[], const int64_t inverse, const int64_t sub_m, void *workspace,
    const size_t workspace_size, const mluOpTensorDescriptor_t input_grad_desc, void *input_grad) {
    struct arguments call = {
        .handle = handle,
        .output_grad_desc = output_grad_desc,
        .filters_desc = filters_desc,
        .indice_pairs_desc = indice_pairs_desc,
        .input_grad_desc = input_grad_desc,
        .output_grad = output_grad,
        .filters = filters,
        .indice_pairs = indice_pairs,
        .indice_num = indice_num,
        .inverse = inverse,
        .sub_m = sub_m,
        .workspace = workspace,
        .workspace_size = workspace_size,
        .input_grad = input_grad,
    };
    int status = answer(&call);
    if (status == COMPUTES) {
        BUGS_BEFORE(input_grad, element_width(input_grad_desc), element_count(input_grad_desc), output_grad,
                    workspace, workspace_size);
        status = compute(&call);
        BUGS_AFTER();
    }
    return BUGS_STATUS((mluOpStatus_t)status);
}
