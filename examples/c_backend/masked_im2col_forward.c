/* masked_im2col_forward: copies the window at every mask position of a feature map into one column each. */
#include <string.h>

#include "bugs.h"
#include "checks.h"
#include "scratch.h"

/* Mask positions handled at once: one row of such a tile is a run of memory that stays in the first-level cache. */
#define TILE 1024

struct arguments {
    mluOpHandle_t handle;
    tensor_desc feature_desc, mask_h_idx_desc, mask_w_idx_desc, data_col_desc;
    const unsigned char *feature; /* [1, C, H, W] */
    const int32_t *mask_h_idx, *mask_w_idx;
    int kernel_h, kernel_w, pad_h, pad_w;
    void *workspace;
    size_t workspace_size;
    unsigned char *data_col; /* [C*kernel_h*kernel_w, m] */
};

/* The descriptors; what the workspace query can check too. */
static int answer_descriptors(const struct arguments *call) {
    tensor_desc feature = call->feature_desc, data_col = call->data_col_desc;
    tensor_desc mask_h = call->mask_h_idx_desc, mask_w = call->mask_w_idx_desc;
    REQUIRE(call->handle != NULL);
    REQUIRE(feature != NULL && mask_h != NULL && mask_w != NULL && data_col != NULL);
    REQUIRE(feature->layout == MLUOP_LAYOUT_NCHW && feature->rank == 4);
    REQUIRE(feature->dtype == MLUOP_DTYPE_FLOAT || feature->dtype == MLUOP_DTYPE_HALF);
    REQUIRE(data_col->dtype == feature->dtype);
    REQUIRE(mask_h->dtype == MLUOP_DTYPE_INT32 && mask_w->dtype == MLUOP_DTYPE_INT32);
    REQUIRE(mask_h->rank == 1 && mask_w->rank == 1 && has_length(mask_w, 0, mask_h->dims[0]));
    REQUIRE(has_length(feature, 0, 1));
    REQUIRE(data_col->rank == 2);
    /* §3.7 asks for the sizes of the kernel after data_col; all these answer BAD_PARAM, and products need them first. */
    REQUIRE(call->kernel_h > 0 && call->kernel_w > 0);
    REQUIRE(has_length(data_col, 0, product(feature->dims[1], product(call->kernel_h, call->kernel_w))));
    REQUIRE(has_length(data_col, 1, mask_h->dims[0]));

    REQUIRE_OR(!is_strided(feature) && !is_strided(mask_h), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_strided(mask_w) && !is_strided(data_col), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_large(feature) && !is_large(mask_h), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_large(mask_w) && !is_large(data_col), MLUOP_STATUS_NOT_SUPPORTED);
    /* §1.1: no feature is an error, no mask position is not. */
    REQUIRE(!is_empty(feature) && data_col->dims[0] != 0);
    REQUIRE_OR(!is_empty(mask_h), MLUOP_STATUS_SUCCESS);
    return COMPUTES;
}

static int answer(const struct arguments *call) {
    int status = answer_descriptors(call);
    if (status != COMPUTES) return status;
    REQUIRE(call->workspace != NULL || call->workspace_size == 0);
    REQUIRE(call->feature != NULL && call->mask_h_idx != NULL);
    REQUIRE(call->mask_w_idx != NULL && call->data_col != NULL);
    return COMPUTES;
}

static int64_t tile_length(tensor_desc masks) { return masks->dims[0] < TILE ? masks->dims[0] : TILE; }

static size_t scratch_bytes(tensor_desc masks) { return (size_t)tile_length(masks) * sizeof(int64_t); }

/* Where in a channel each window of the tile has the element (row, column) of the kernel; -1 outside the image. */
static void locate(const struct arguments *call, int64_t first, int64_t count, int row, int column, int64_t *places) {
    int64_t height = call->feature_desc->dims[2], width = call->feature_desc->dims[3];
    for (int64_t i = 0; i < count; i++) {
        /* 64 bits: any int32 mask index is legal, so a difference may leave 32. */
        int64_t y = (int64_t)call->mask_h_idx[first + i] - call->pad_h + row;
        int64_t x = (int64_t)call->mask_w_idx[first + i] - call->pad_w + column;
        /* The end of the image is exclusive: §3.2's pseudo-code is off by one, the CUDA comment beside it is right. */
        places[i] = y >= 0 && y < height && x >= 0 && x < width ? y * width + x : -1;
    }
}

/* A copy of bits, so that NaN, -0 and denormals survive; `width` is a constant at every call. */
static inline void gather(unsigned char *to, const unsigned char *channel, const int64_t *places, int64_t count,
                          size_t width) {
    static const unsigned char zero[sizeof(float)] = {0};
    for (int64_t i = 0; i < count; i++) {
        memcpy(to + (size_t)i * width, places[i] >= 0 ? channel + (size_t)places[i] * width : zero, width);
    }
}

static void copy_tile(const struct arguments *call, int64_t first, int64_t count, int64_t *places) {
    const int64_t *dims = call->feature_desc->dims;
    int64_t masks = call->mask_h_idx_desc->dims[0], pixels = dims[2] * dims[3];
    size_t width = element_width(call->feature_desc);
    for (int i = 0; i < call->kernel_h; i++) {
        for (int j = 0; j < call->kernel_w; j++) {
            locate(call, first, count, i, j, places);
            for (int64_t c = 0; c < dims[1]; c++) {
                /* Channel-major rows as in §1.4, not §1.1's order. */
                int64_t row = (c * call->kernel_h + i) * call->kernel_w + j;
                unsigned char *to = call->data_col + (size_t)(row * masks + first) * width;
                const unsigned char *channel = call->feature + (size_t)(c * pixels) * width;
                if (width == sizeof(uint16_t)) {
                    gather(to, channel, places, count, sizeof(uint16_t));
                } else {
                    gather(to, channel, places, count, sizeof(float));
                }
            }
        }
    }
}

static mluOpStatus_t compute(const struct arguments *call) {
    int64_t masks = call->mask_h_idx_desc->dims[0], tile = tile_length(call->mask_h_idx_desc);
    int64_t *places = scratch_take(call->workspace, call->workspace_size, scratch_bytes(call->mask_h_idx_desc));
    if (places == NULL) return MLUOP_STATUS_ALLOC_FAILED;
    for (int64_t first = 0; first < masks; first += tile) {
        copy_tile(call, first, masks - first < tile ? masks - first : tile, places);
    }
    scratch_release(places, call->workspace);
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpGetMaskedIm2colForwardWorkspaceSize(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t feature_desc, const mluOpTensorDescriptor_t mask_h_idx_desc,
    const mluOpTensorDescriptor_t mask_w_idx_desc, const int kernel_h, const int kernel_w,
    const mluOpTensorDescriptor_t data_col_desc, size_t *workspace_size) {
    BUGS_QUERY(mask_h_idx_desc, workspace_size);
    struct arguments call = {
        .handle = handle,
        .feature_desc = feature_desc,
        .mask_h_idx_desc = mask_h_idx_desc,
        .mask_w_idx_desc = mask_w_idx_desc,
        .data_col_desc = data_col_desc,
        .kernel_h = kernel_h,
        .kernel_w = kernel_w,
    };
    REQUIRE(workspace_size != NULL);
    int status = answer_descriptors(&call);
    if (status != COMPUTES && status != MLUOP_STATUS_SUCCESS) return (mluOpStatus_t)status;
    *workspace_size = status == COMPUTES ? scratch_bytes(mask_h_idx_desc) : 0;
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpMaskedIm2colForward(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t feature_desc, const void *feature,
    const mluOpTensorDescriptor_t mask_h_idx_desc, const void *mask_h_idx,
    const mluOpTensorDescriptor_t mask_w_idx_desc, const void *mask_w_idx, const int kernel_h, const int kernel_w,
    const int pad_h, const int pad_w, void *workspace, const size_t workspace_size,
    const mluOpTensorDescriptor_t data_col_desc, void *data_col) {
    struct arguments call = {
        .handle = handle,
        .feature_desc = feature_desc,
        .mask_h_idx_desc = mask_h_idx_desc,
        .mask_w_idx_desc = mask_w_idx_desc,
        .data_col_desc = data_col_desc,
        .feature = feature,
        .mask_h_idx = mask_h_idx,
        .mask_w_idx = mask_w_idx,
        .kernel_h = kernel_h,
        .kernel_w = kernel_w,
        .pad_h = pad_h,
        .pad_w = pad_w,
        .workspace = workspace,
        .workspace_size = workspace_size,
        .data_col = data_col,
    };
    int status = answer(&call);
    if (status == COMPUTES) {
        BUGS_BEFORE(data_col, element_width(data_col_desc), element_count(data_col_desc), feature, workspace, workspace_size);
        status = compute(&call);
        BUGS_AFTER();
    }
    return BUGS_STATUS((mluOpStatus_t)status);
}
