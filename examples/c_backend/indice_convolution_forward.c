/* indice_convolution_forward: a sparse convolution over given pairs of rows. */
#include "bugs.h"
#include "checks.h"
#include "convolution.h"
#include "scratch.h"

#define MOST_ROWS 1000000

struct arguments {
    mluOpHandle_t handle;
    tensor_desc features_desc, filters_desc, indice_pairs_desc, features_out_desc;
    const void *features, *filters; /* [L, Ci], and a layout of [K, Ci, Co] */
    const int32_t *indice_pairs;    /* [K, 2, L] */
    const int64_t *indice_num;      /* K entries on the host */
    int64_t num_act_out, inverse, sub_m;
    void *workspace;
    size_t workspace_size;
    void *features_out; /* [Y, Co] */
};

/* ---- checks ---- */

static bool layout_is_supported(tensor_desc filters) {
    return filters->layout == MLUOP_LAYOUT_NDHWC || filters->layout == MLUOP_LAYOUT_NCDHW ||
           filters->layout == MLUOP_LAYOUT_ARRAY;
}

/* All but the data; what the workspace query can check too. */
static int answer_descriptors(const struct arguments *call) {
    tensor_desc features = call->features_desc, filters = call->filters_desc;
    tensor_desc pairs = call->indice_pairs_desc, out = call->features_out_desc;
    REQUIRE(call->handle != NULL);
    REQUIRE(features != NULL && filters != NULL && pairs != NULL && out != NULL);
    REQUIRE(call->indice_num != NULL);
    REQUIRE_OR(arch_is_supported(call->handle), MLUOP_STATUS_ARCH_MISMATCH);

    REQUIRE(is_floating(features) && is_floating(filters) && pairs->dtype == MLUOP_DTYPE_INT32 && is_floating(out));
    REQUIRE(filters->dtype == features->dtype && out->dtype == features->dtype);
    REQUIRE((call->sub_m == 0 || call->sub_m == 1) && (call->inverse == 0 || call->inverse == 1));
    REQUIRE_OR(call->inverse == 0 && layout_is_supported(filters), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE(features->rank == 2 && pairs->rank == 3 && out->rank == 2);
    REQUIRE_OR(pairs->dims[2] <= MOST_ROWS && filters->rank == 5, MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_strided(features) && !is_strided(filters), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_strided(pairs) && !is_strided(out), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_large(features) && !is_large(filters), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_large(pairs) && !is_large(out), MLUOP_STATUS_NOT_SUPPORTED);

    struct filter_shape shape = shape_of(filters);
    REQUIRE(has_length(features, 0, pairs->dims[2]) && has_length(features, 1, shape.channels_in));
    REQUIRE(has_length(pairs, 0, shape.offsets) && has_length(pairs, 1, 2));
    REQUIRE(has_length(out, 0, call->num_act_out) && has_length(out, 1, shape.channels_out));
    for (int64_t k = 0; k < shape.offsets; k++) {
        REQUIRE(call->indice_num[k] >= 0 && call->indice_num[k] <= pairs->dims[2]);
    }
    /* §1.1 forbids an empty filter, yet such a filter comes with another empty tensor, for which it asks SUCCESS. */
    REQUIRE_OR(!is_empty(features) && !is_empty(filters), MLUOP_STATUS_SUCCESS);
    REQUIRE_OR(!is_empty(pairs) && !is_empty(out), MLUOP_STATUS_SUCCESS);
    return COMPUTES;
}

static int answer(const struct arguments *call) {
    int status = answer_descriptors(call);
    if (status != COMPUTES) return status;
    REQUIRE(call->features != NULL && call->filters != NULL);
    REQUIRE(call->indice_pairs != NULL && call->features_out != NULL);
    REQUIRE(call->workspace != NULL || call->workspace_size == 0);
    return COMPUTES;
}

/* Each output row of a pair receives its input row of features times W_k. §1.2 exchanges the rows of a pair; row 0 is the
 * input, as §3.1 gathers it. sub_m does not occur here: the pairs already are those of a submanifold. */
static struct row_products products_of(const struct arguments *call) {
    struct filter_shape shape = shape_of(call->filters_desc);
    return (struct row_products){
        .rows = call->features,
        .row_values = element_count(call->features_desc),
        .filters = call->filters,
        .offsets = shape.offsets,
        .depth = shape.channels_in,
        .width = shape.channels_out,
        .offset_step = shape.offset_step,
        .depth_step = shape.channel_in_step,
        .width_step = shape.channel_out_step,
        .pairs = call->indice_pairs,
        .pair_limit = call->indice_pairs_desc->dims[2],
        .to_side = 1,
        .counts = call->indice_num,
        .sums = call->features_out,
        .sum_rows = call->features_out_desc->dims[0],
        .is_half = call->features_desc->dtype == MLUOP_DTYPE_HALF,
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

mluOpStatus_t mluOpGetIndiceConvolutionForwardWorkspaceSize(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t features_desc, const mluOpTensorDescriptor_t filters_desc,
    const mluOpTensorDescriptor_t indice_pairs_desc, const mluOpTensorDescriptor_t features_out_desc,
    const int64_t indice_num[], const int64_t num_active_out, const int64_t inverse, const int64_t sub_m,
    size_t *workspace_size) {
    BUGS_QUERY(features_desc, workspace_size);
    struct arguments call = {
        .handle = handle,
        .features_desc = features_desc,
        .filters_desc = filters_desc,
        .indice_pairs_desc = indice_pairs_desc,
        .features_out_desc = features_out_desc,
        .indice_num = indice_num,
        .num_act_out = num_active_out,
        .inverse = inverse,
        .sub_m = sub_m,
    };
    int status = answer_descriptors(&call);
    /* An early success leaves the size unwritten: the caller presets 0. */
    if (status != COMPUTES) return (mluOpStatus_t)status;
    REQUIRE(workspace_size != NULL);
    struct row_products products = products_of(&call);
    *workspace_size = row_products_scratch(&products);
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpIndiceConvolutionForward(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t features_desc, const void *features,
    const mluOpTensorDescriptor_t filters_desc, const void *filters, const mluOpTensorDescriptor_t indice_pairs_desc,
    const void *indice_pairs, const int64_t indice_num[], const int64_t num_active_out, const int64_t inverse,
    const int64_t sub_m, void *workspace, const size_t workspace_size,
    const mluOpTensorDescriptor_t features_out_desc, void *features_out) {
    struct arguments call = {
        .handle = handle,
        .features_desc = features_desc,
        .filters_desc = filters_desc,
        .indice_pairs_desc = indice_pairs_desc,
        .features_out_desc = features_out_desc,
        .features = features,
        .filters = filters,
        .indice_pairs = indice_pairs,
        .indice_num = indice_num,
        .num_act_out = num_active_out,
        .inverse = inverse,
        .sub_m = sub_m,
        .workspace = workspace,
        .workspace_size = workspace_size,
        .features_out = features_out,
    };
    int status = answer(&call);
    if (status == COMPUTES) {
        BUGS_BEFORE(features_out, element_width(features_out_desc), element_count(features_out_desc), features,
                    workspace, workspace_size);
        status = compute(&call);
        BUGS_AFTER();
    }
    return BUGS_STATUS((mluOpStatus_t)status);
}
