/* indice_convolution_backward_data: the gradient of a sparse convolution with respect to its input. */
#include "bugs.h"
#include "checks.h"
#include "convolution.h"
#include "scratch.h"

#define MOST_ROWS 1000000

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

/* ---- checks ---- */

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

/* Each input row of a pair receives its output row of output_grad times the transposed W_k. §3.1's "[K, Co, Ci]" is a
 * slip: W_k is [Ci, Co]. sub_m does not occur here: it changes only the checks, never the arithmetic. */
static struct row_products products_of(const struct arguments *call) {
    struct filter_shape shape = shape_of(call->filters_desc);
    int64_t rows = call->indice_pairs_desc->dims[2];
    return (struct row_products){
        .rows = call->output_grad,
        .row_values = element_count(call->output_grad_desc),
        .filters = call->filters,
        .offsets = shape.offsets,
        .depth = shape.channels_out,
        .width = shape.channels_in,
        .offset_step = shape.offset_step,
        .depth_step = shape.channel_out_step,
        .width_step = shape.channel_in_step,
        .pairs = call->indice_pairs,
        .pair_limit = rows,
        .to_side = 0,
        .counts = call->indice_num,
        .sums = call->input_grad,
        .sum_rows = rows,
        .is_half = call->output_grad_desc->dtype == MLUOP_DTYPE_HALF,
    };
}

static mluOpStatus_t compute(const struct arguments *call) {
    struct row_products products = products_of(call);
    void *scratch = scratch_take(call->workspace, call->workspace_size, row_products_scratch(&products));
    if (scratch == NULL) return MLUOP_STATUS_ALLOC_FAILED;
    sum_row_products(&products, scratch);
    scratch_release(scratch, call->workspace);
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpGetIndiceConvolutionBackwardDataWorkspaceSize(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t output_grad_desc, const mluOpTensorDescriptor_t filters_desc,
    const mluOpTensorDescriptor_t indice_pairs_desc, const mluOpTensorDescriptor_t input_grad_desc,
    const int64_t indice_num[], const int64_t inverse, size_t *workspace_size) {
    BUGS_QUERY(output_grad_desc, workspace_size);
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
    *workspace_size = 0;
    if (status == COMPUTES) {
        struct row_products products = products_of(&call);
        *workspace_size = row_products_scratch(&products);
    }
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
