/* masked_col2im_forward: writes the columns of a matrix to the mask positions of an image that is 0 elsewhere. */
#include <string.h>

#include "bugs.h"
#include "checks.h"
#include "parallel.h"
#include "scratch.h"

/* Not a status either: SUCCESS without masks, where im is cleared and no other pointer is looked at. */
enum { CLEARS = COMPUTES - 1 };

struct arguments {
    mluOpHandle_t handle;
    tensor_desc col_desc, mask_h_idx_desc, mask_w_idx_desc, im_desc;
    const unsigned char *col; /* [C, m] */
    const int32_t *mask_h_idx, *mask_w_idx;
    size_t workspace_size;
    void *workspace;
    unsigned char *im; /* [1, C, H, W] */
};

/* The descriptors; what the workspace query can check too. */
static int answer_descriptors(const struct arguments *call) {
    tensor_desc col = call->col_desc, im = call->im_desc;
    tensor_desc mask_h = call->mask_h_idx_desc, mask_w = call->mask_w_idx_desc;
    REQUIRE(call->handle != NULL);
    REQUIRE(col != NULL && mask_h != NULL && mask_w != NULL && im != NULL);
    REQUIRE(col->rank == 2 && im->rank == 4 && mask_h->rank == 1 && mask_w->rank == 1);
    REQUIRE(im->layout == MLUOP_LAYOUT_NCHW);
    REQUIRE(col->dtype == MLUOP_DTYPE_FLOAT || col->dtype == MLUOP_DTYPE_HALF);
    REQUIRE(im->dtype == col->dtype);
    REQUIRE(mask_h->dtype == MLUOP_DTYPE_INT32 && mask_w->dtype == MLUOP_DTYPE_INT32);
    REQUIRE(has_length(im, 0, 1));
    REQUIRE(has_length(mask_w, 0, mask_h->dims[0]));
    REQUIRE(has_length(col, 1, mask_h->dims[0]) && has_length(col, 0, im->dims[1]));

    REQUIRE_OR(!is_strided(col) && !is_strided(mask_h), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_strided(mask_w) && !is_strided(im), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_large(col) && !is_large(mask_h) && !is_large(im), MLUOP_STATUS_NOT_SUPPORTED);
    /* §1.1: no image is an error, no mask position is not. */
    REQUIRE(!is_empty(im));
    return is_empty(mask_h) ? CLEARS : COMPUTES;
}

static int answer(const struct arguments *call) {
    int status = answer_descriptors(call);
    if (status != COMPUTES) return status;
    REQUIRE(call->workspace != NULL || call->workspace_size == 0);
    REQUIRE(call->col != NULL && call->mask_h_idx != NULL);
    REQUIRE(call->mask_w_idx != NULL && call->im != NULL);
    return COMPUTES;
}

static size_t scratch_bytes(tensor_desc masks) { return (size_t)masks->dims[0] * sizeof(int64_t); }

struct copy {
    const struct arguments *call;
    const int64_t *pixels; /* of each mask, linear in a channel */
};

/* A copy of bits, so that NaN, -0 and denormals survive; `width` is a constant at every call. */
static inline void scatter(unsigned char *channel, const unsigned char *row, const int64_t *pixels, int64_t count,
                           size_t width) {
    for (int64_t j = 0; j < count; j++) memcpy(channel + (size_t)pixels[j] * width, row + (size_t)j * width, width);
}

/* Each channel is cleared right before its masks are written, while it is in the cache. */
static void write_channels(void *context, int64_t begin, int64_t end) {
    const struct copy *copy = context;
    const struct arguments *call = copy->call;
    const int64_t *dims = call->im_desc->dims;
    int64_t masks = call->mask_h_idx_desc->dims[0];
    size_t width = element_width(call->im_desc), plane = (size_t)(dims[2] * dims[3]) * width;
    for (int64_t c = begin; c < end; c++) {
        unsigned char *channel = call->im + (size_t)c * plane;
        const unsigned char *row = call->col + (size_t)(c * masks) * width;
        memset(channel, 0, plane);
        if (width == sizeof(uint16_t)) {
            scatter(channel, row, copy->pixels, masks, sizeof(uint16_t));
        } else {
            scatter(channel, row, copy->pixels, masks, sizeof(float));
        }
    }
}

static mluOpStatus_t compute(const struct arguments *call) {
    int64_t masks = call->mask_h_idx_desc->dims[0], width = call->im_desc->dims[3];
    int64_t *pixels = scratch_take(call->workspace, call->workspace_size, scratch_bytes(call->mask_h_idx_desc));
    if (pixels == NULL) return MLUOP_STATUS_ALLOC_FAILED;
    /* §1.2's (x, y, c) is im[0, c, y, x] with y from mask_h_idx. */
    for (int64_t j = 0; j < masks; j++) pixels[j] = call->mask_h_idx[j] * width + call->mask_w_idx[j];
    struct copy copy = {call, pixels};
    parallel_for(call->im_desc->dims[1], element_count(call->im_desc), write_channels, &copy);
    scratch_release(pixels, call->workspace);
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpGetMaskedCol2imForwardWorkspaceSize(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t col_desc, const mluOpTensorDescriptor_t mask_h_idx_desc,
    const mluOpTensorDescriptor_t mask_w_idx_desc, const mluOpTensorDescriptor_t im_desc, size_t *workspace_size) {
    BUGS_QUERY(mask_h_idx_desc, workspace_size);
    struct arguments call = {
        .handle = handle,
        .col_desc = col_desc,
        .mask_h_idx_desc = mask_h_idx_desc,
        .mask_w_idx_desc = mask_w_idx_desc,
        .im_desc = im_desc,
    };
    REQUIRE(workspace_size != NULL);
    int status = answer_descriptors(&call);
    /* Without masks the size is left as it is: the caller presets 0. */
    if (status == CLEARS) return MLUOP_STATUS_SUCCESS;
    if (status != COMPUTES) return (mluOpStatus_t)status;
    *workspace_size = scratch_bytes(mask_h_idx_desc);
    return MLUOP_STATUS_SUCCESS;
}

/* The size comes before the workspace, unlike in masked_im2col_forward. */
mluOpStatus_t mluOpMaskedCol2imForward(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t col_desc, const void *col,
    const mluOpTensorDescriptor_t mask_h_idx_desc, const void *mask_h_idx,
    const mluOpTensorDescriptor_t mask_w_idx_desc, const void *mask_w_idx, const size_t workspace_size,
    void *workspace, const mluOpTensorDescriptor_t im_desc, void *im) {
    struct arguments call = {
        .handle = handle,
        .col_desc = col_desc,
        .mask_h_idx_desc = mask_h_idx_desc,
        .mask_w_idx_desc = mask_w_idx_desc,
        .im_desc = im_desc,
        .col = col,
        .mask_h_idx = mask_h_idx,
        .mask_w_idx = mask_w_idx,
        .workspace_size = workspace_size,
        .workspace = workspace,
        .im = im,
    };
    int status = answer(&call);
    if (status == CLEARS) {
        memset(im, 0, (size_t)element_count(im_desc) * element_width(im_desc));
        status = MLUOP_STATUS_SUCCESS;
    } else if (status == COMPUTES) {
        BUGS_BEFORE(im, element_width(im_desc), element_count(im_desc), col, workspace, workspace_size);
        status = compute(&call);
        BUGS_AFTER();
    }
    return BUGS_STATUS((mluOpStatus_t)status);
}
