/* indice_convolution_backward_filter: the gradient of a sparse convolution with respect to its filters. */
#include <string.h>

#include "bugs.h"
#include "checks.h"
#include "half.h"
#include "parallel.h"
#include "scratch.h"

#define MOST_ROWS 1000000

/* A product of GROUP input and LANES output channels stays in registers while it sums: with AVX these are 8 sums of 8
 * floats, enough to keep two multipliers with a latency of 4 cycles busy. Rows are padded with zeros to whole tiles. */
#define GROUP 4
#define LANES 16
/* Pairs that are summed apart: their rows stay in the cache through all tiles, and a float sum of hundreds of thousands
 * of products loses little. */
#define BLOCK 256

/* The inner loop is built for AVX with FMA too, and the loader picks, where compiler and C library can do that. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define FOR_THIS_PROCESSOR __attribute__((target_clones("fma", "default")))
#else
#define FOR_THIS_PROCESSOR
#endif

struct arguments {
    mluOpHandle_t handle;
    tensor_desc features_desc, output_grad_desc, indice_pairs_desc, filters_grad_desc;
    const void *features, *output_grad; /* [L, Ci], [Y, Co] */
    const int32_t *indice_pairs;        /* [K, 2, L] */
    const int64_t *indice_num;          /* K entries on the host */
    int64_t inverse;
    void *workspace;
    size_t workspace_size;
    void *filters_grad; /* [K, Ci, Co] */
};

/* ---- checks ---- */

/* Kd x Kh x Kw: all axes but the last two, whatever the layout is called. */
static int64_t offsets_of(tensor_desc filters_grad) {
    int64_t offsets = 1;
    for (int axis = 0; axis < filters_grad->rank - 2; axis++) offsets = product(offsets, filters_grad->dims[axis]);
    return offsets;
}

/* All but the data; what the workspace query checks too. sub_m, layouts and the entries of indice_num are not checked. */
static int answer_descriptors(const struct arguments *call) {
    tensor_desc features = call->features_desc, output_grad = call->output_grad_desc;
    tensor_desc pairs = call->indice_pairs_desc, filters_grad = call->filters_grad_desc;
    REQUIRE(call->handle != NULL);
    REQUIRE(features != NULL && output_grad != NULL && pairs != NULL && filters_grad != NULL);
    REQUIRE(call->indice_num != NULL);
    REQUIRE(call->inverse == 0);
    REQUIRE_OR(!is_strided(features) && !is_strided(output_grad), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_strided(pairs) && !is_strided(filters_grad), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(arch_is_supported(call->handle), MLUOP_STATUS_ARCH_MISMATCH);

    REQUIRE(pairs->dtype == MLUOP_DTYPE_INT32);
    REQUIRE(features->dtype == MLUOP_DTYPE_FLOAT || features->dtype == MLUOP_DTYPE_HALF);
    REQUIRE(output_grad->dtype == features->dtype && filters_grad->dtype == features->dtype);
    REQUIRE_OR(!is_large(features) && !is_large(output_grad), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_large(pairs) && !is_large(filters_grad), MLUOP_STATUS_NOT_SUPPORTED);

    REQUIRE(features->rank == 2 && output_grad->rank == 2 && pairs->rank == 3);
    REQUIRE(filters_grad->rank == 4 || filters_grad->rank == 5);
    REQUIRE(has_length(features, 1, filters_grad->dims[filters_grad->rank - 2]));
    REQUIRE(has_length(output_grad, 1, filters_grad->dims[filters_grad->rank - 1]));
    REQUIRE(has_length(features, 0, pairs->dims[2]) && has_length(pairs, 1, 2));
    REQUIRE(has_length(pairs, 0, offsets_of(filters_grad)));
    REQUIRE(pairs->dims[2] <= MOST_ROWS);
    REQUIRE_OR(!is_empty(features) && !is_empty(output_grad), MLUOP_STATUS_SUCCESS);
    REQUIRE_OR(!is_empty(pairs) && !is_empty(filters_grad), MLUOP_STATUS_SUCCESS);
    return COMPUTES;
}

static int answer(const struct arguments *call) {
    int status = answer_descriptors(call);
    if (status != COMPUTES) return status;
    REQUIRE(call->features != NULL && call->output_grad != NULL);
    REQUIRE(call->indice_pairs != NULL && call->filters_grad != NULL);
    REQUIRE(call->workspace != NULL || call->workspace_size == 0);
    return COMPUTES;
}

/* ---- what the scratch memory holds ---- */

struct work {
    const struct arguments *call;
    bool is_half;
    int64_t rows, channels_in, channels_out; /* L, Ci, Co */
    int64_t groups, tiles;                   /* of GROUP input channels, of LANES output channels */
    float *features;                         /* [n, groups, GROUP], the rows that the pairs of this offset name */
    float *grads;                            /* [n, tiles, LANES] */
    float *sums;                             /* [groups, tiles, GROUP, LANES] */
    int64_t offset, pairs;                   /* k and n */
};

static int64_t largest_count(const struct arguments *call) {
    int64_t largest = 0;
    for (int64_t k = 0; k < call->indice_pairs_desc->dims[0]; k++) {
        if (call->indice_num[k] > largest) largest = call->indice_num[k];
    }
    return largest;
}

/* Divides the scratch memory, or only counts it where there is none yet; the bytes used. */
static size_t lay_out(struct work *work, const struct arguments *call, unsigned char *scratch) {
    int64_t channels_in = call->features_desc->dims[1], channels_out = call->output_grad_desc->dims[1];
    int64_t groups = (channels_in + GROUP - 1) / GROUP, tiles = (channels_out + LANES - 1) / LANES;
    int64_t most = largest_count(call);
    size_t sums = (size_t)(groups * tiles * GROUP * LANES) * sizeof(float);
    size_t grads = (size_t)(most * tiles * LANES) * sizeof(float);
    size_t features = (size_t)(most * groups * GROUP) * sizeof(float);
    if (scratch != NULL) {
        *work = (struct work){.call = call, .channels_in = channels_in, .channels_out = channels_out};
        work->is_half = call->features_desc->dtype == MLUOP_DTYPE_HALF;
        work->rows = call->features_desc->dims[0];
        work->groups = groups;
        work->tiles = tiles;
        work->sums = (float *)(void *)scratch;
        work->grads = (float *)(void *)(scratch + sums);
        work->features = (float *)(void *)(scratch + sums + grads);
    }
    return sums + grads + features;
}

/* ---- gather ---- */

/* One row as floats, filled up with zeros to `width`. */
static void gather_row(const struct work *work, const void *from, int64_t row, int64_t channels, float *to,
                       int64_t width) {
    if (work->is_half) {
        const half *values = (const half *)from + row * channels;
        for (int64_t channel = 0; channel < channels; channel++) to[channel] = half_to_float(values[channel]);
    } else {
        memcpy(to, (const float *)from + row * channels, (size_t)channels * sizeof(float));
    }
    for (int64_t channel = channels; channel < width; channel++) to[channel] = 0.0f;
}

/* Items are the first indice_num[k] pairs; whatever stands behind them is legal and not read. */
static void gather_pairs(void *context, int64_t begin, int64_t end) {
    const struct work *work = context;
    const int32_t *inputs = work->call->indice_pairs + 2 * work->offset * work->rows, *outputs = inputs + work->rows;
    int64_t width_in = work->groups * GROUP, width_out = work->tiles * LANES;
    for (int64_t l = begin; l < end; l++) {
        gather_row(work, work->call->features, inputs[l], work->channels_in, work->features + l * width_in, width_in);
        gather_row(work, work->call->output_grad, outputs[l], work->channels_out, work->grads + l * width_out,
                   width_out);
    }
}

/* ---- sums ---- */

/* sums += features^T . grads over `count` rows, for GROUP by LANES channels. */
FOR_THIS_PROCESSOR
static void add_products(float *restrict sums, const float *restrict features, int64_t features_step,
                         const float *restrict grads, int64_t grads_step, int64_t count) {
    /* One array per channel: GCC keeps these in registers, an array of two dimensions it does not. */
    float sum0[LANES] = {0}, sum1[LANES] = {0}, sum2[LANES] = {0}, sum3[LANES] = {0};
    for (int64_t l = 0; l < count; l++) {
        const float *feature = features + l * features_step, *grad = grads + l * grads_step;
        float factor0 = feature[0], factor1 = feature[1], factor2 = feature[2], factor3 = feature[3];
        for (int lane = 0; lane < LANES; lane++) {
            sum0[lane] += factor0 * grad[lane];
            sum1[lane] += factor1 * grad[lane];
            sum2[lane] += factor2 * grad[lane];
            sum3[lane] += factor3 * grad[lane];
        }
    }
    for (int lane = 0; lane < LANES; lane++) {
        sums[lane] += sum0[lane];
        sums[LANES + lane] += sum1[lane];
        sums[2 * LANES + lane] += sum2[lane];
        sums[3 * LANES + lane] += sum3[lane];
    }
}

static void store(const struct work *work, int64_t group) {
    const float *sums = work->sums + group * work->tiles * GROUP * LANES;
    for (int64_t i = 0; i < GROUP && group * GROUP + i < work->channels_in; i++) {
        int64_t place = (work->offset * work->channels_in + group * GROUP + i) * work->channels_out;
        for (int64_t co = 0; co < work->channels_out; co++) {
            float sum = sums[(co / LANES * GROUP + i) * LANES + co % LANES];
            if (work->is_half) {
                ((half *)work->call->filters_grad)[place + co] = float_to_half(sum);
            } else {
                ((float *)work->call->filters_grad)[place + co] = sum;
            }
        }
    }
}

/* Items are groups of input channels: nobody else adds to them, so the sums are the same with any number of threads. */
static void sum_groups(void *context, int64_t begin, int64_t end) {
    const struct work *work = context;
    int64_t width_in = work->groups * GROUP, width_out = work->tiles * LANES, area = work->tiles * GROUP * LANES;
    memset(work->sums + begin * area, 0, (size_t)((end - begin) * area) * sizeof(float));
    for (int64_t first = 0; first < work->pairs; first += BLOCK) {
        int64_t count = work->pairs - first < BLOCK ? work->pairs - first : BLOCK;
        for (int64_t group = begin; group < end; group++) {
            for (int64_t tile = 0; tile < work->tiles; tile++) {
                add_products(work->sums + group * area + tile * GROUP * LANES,
                             work->features + first * width_in + group * GROUP, width_in,
                             work->grads + first * width_out + tile * LANES, width_out, count);
            }
        }
    }
    /* An offset without pairs is 0, and is written. */
    for (int64_t group = begin; group < end; group++) store(work, group);
}

static mluOpStatus_t compute(const struct arguments *call) {
    struct work work;
    void *scratch = scratch_take(call->workspace, call->workspace_size, lay_out(NULL, call, NULL));
    if (scratch == NULL) return MLUOP_STATUS_ALLOC_FAILED;
    lay_out(&work, call, scratch);
    for (work.offset = 0; work.offset < call->indice_pairs_desc->dims[0]; work.offset++) {
        work.pairs = call->indice_num[work.offset];
        parallel_for(work.pairs, product(work.pairs, work.channels_in + work.channels_out), gather_pairs, &work);
        parallel_for(work.groups, product(work.pairs, product(work.groups, work.tiles)), sum_groups, &work);
    }
    scratch_release(scratch, call->workspace);
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpGetIndiceConvolutionBackwardFilterWorkspaceSize(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t features_desc, const mluOpTensorDescriptor_t output_grad_desc,
    const mluOpTensorDescriptor_t indice_pairs_desc, const mluOpTensorDescriptor_t filters_grad_desc,
    const int64_t indice_num[], const int64_t inverse, const int64_t sub_m, size_t *workspace_size) {
    BUGS_QUERY(features_desc, workspace_size);
    struct arguments call = {
        .handle = handle,
        .features_desc = features_desc,
        .output_grad_desc = output_grad_desc,
        .indice_pairs_desc = indice_pairs_desc,
        .filters_grad_desc = filters_grad_desc,
        .indice_num = indice_num,
        .inverse = inverse,
    };
    (void)sub_m;
    REQUIRE(workspace_size != NULL);
    int status = answer_descriptors(&call);
    /* As released: where an empty tensor ends the call, the size stays as the caller preset it. */
    if (status != COMPUTES) return (mluOpStatus_t)status;
    *workspace_size = lay_out(NULL, &call, NULL);
    return MLUOP_STATUS_SUCCESS;
}

/* sub_m changes neither the checks nor the arithmetic. */
mluOpStatus_t mluOpIndiceConvolutionBackwardFilter(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t features_desc, const void *features,
    const mluOpTensorDescriptor_t output_grad_desc, const void *output_grad,
    const mluOpTensorDescriptor_t indice_pairs_desc, const void *indice_pairs, const int64_t indice_num[],
    const int64_t inverse, const int64_t sub_m, void *workspace, const size_t workspace_size,
    const mluOpTensorDescriptor_t filters_grad_desc, void *filters_grad) {
    struct arguments call = {
        .handle = handle,
        .features_desc = features_desc,
        .output_grad_desc = output_grad_desc,
        .indice_pairs_desc = indice_pairs_desc,
        .filters_grad_desc = filters_grad_desc,
        .features = features,
        .output_grad = output_grad,
        .indice_pairs = indice_pairs,
        .indice_num = indice_num,
        .inverse = inverse,
        .workspace = workspace,
        .workspace_size = workspace_size,
        .filters_grad = filters_grad,
    };
    (void)sub_m;
    int status = answer(&call);
    if (status == COMPUTES) {
        BUGS_BEFORE(filters_grad, element_width(filters_grad_desc), element_count(filters_grad_desc), features,
                    workspace, workspace_size);
        status = compute(&call);
        BUGS_AFTER();
    }
    return BUGS_STATUS((mluOpStatus_t)status);
}
