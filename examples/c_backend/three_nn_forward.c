/* three_nn_forward: the three nearest known points of every unknown point, their squared distances and indices. */
#include <math.h>

#include "bugs.h"
#include "checks.h"
#include "half.h"
#include "parallel.h"
#include "scratch.h"

/* Known points whose distances are computed at once: 1 KiB that stays in the first-level cache. */
#define TILE 256

struct arguments {
    mluOpHandle_t handle;
    tensor_desc unknown_desc, known_desc, dist2_desc, idx_desc;
    const void *unknown, *known; /* [B, N, 3], [B, M, 3] */
    void *workspace;
    size_t workspace_size;
    void *dist2;  /* [B, N, 3] */
    int32_t *idx; /* [B, N, 3] */
    float *axes;  /* known as [B, 3, M]: what the loops over known points read */
};

static int answer(const struct arguments *call) {
    tensor_desc unknown = call->unknown_desc, known = call->known_desc, dist2 = call->dist2_desc, idx = call->idx_desc;
    REQUIRE(call->handle != NULL);
    REQUIRE(unknown != NULL && known != NULL && dist2 != NULL && idx != NULL);
    REQUIRE(unknown->rank == 3 && known->rank == 3 && dist2->rank == 3 && idx->rank == 3);
    REQUIRE(has_length(known, 0, unknown->dims[0]) && has_length(dist2, 0, unknown->dims[0]));
    REQUIRE(has_length(idx, 0, unknown->dims[0]));
    REQUIRE(has_length(dist2, 1, unknown->dims[1]) && has_length(idx, 1, unknown->dims[1]));
    REQUIRE(has_length(unknown, 2, 3) && has_length(known, 2, 3) && has_length(dist2, 2, 3) && has_length(idx, 2, 3));
    REQUIRE(unknown->dtype == MLUOP_DTYPE_HALF || unknown->dtype == MLUOP_DTYPE_FLOAT);
    REQUIRE(known->dtype == unknown->dtype && dist2->dtype == unknown->dtype && idx->dtype == MLUOP_DTYPE_INT32);

    REQUIRE_OR(!is_strided(unknown) && !is_strided(known), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_strided(dist2) && !is_strided(idx), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_large(unknown) && !is_large(known), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE(!is_empty(unknown));
    /* §1.1: without known points nothing is written. */
    REQUIRE_OR(!is_empty(known), MLUOP_STATUS_SUCCESS);
    /* §3.8 lists the pointers second; here they come last, as in the device library. */
    REQUIRE(call->workspace != NULL || call->workspace_size == 0);
    REQUIRE(call->unknown != NULL && call->known != NULL && call->dist2 != NULL && call->idx != NULL);
    return COMPUTES;
}

static float load(const void *data, tensor_desc desc, int64_t place) {
    if (desc->dtype == MLUOP_DTYPE_HALF) return half_to_float(((const half *)data)[place]);
    return ((const float *)data)[place];
}

static void store(void *data, tensor_desc desc, int64_t place, float value) {
    if (desc->dtype == MLUOP_DTYPE_HALF) {
        ((half *)data)[place] = float_to_half(value);
    } else {
        ((float *)data)[place] = value;
    }
}

/* §3.1 step 1. */
static void transpose_known(void *context, int64_t begin, int64_t end) {
    const struct arguments *call = context;
    int64_t points = call->known_desc->dims[1];
    for (int64_t point = begin; point < end; point++) {
        float *axes = call->axes + point / points * 3 * points + point % points;
        for (int64_t axis = 0; axis < 3; axis++) {
            axes[axis * points] = load(call->known, call->known_desc, 3 * point + axis);
        }
    }
}

struct neighbours {
    float dist2[3];
    int64_t idx[3];
};

/* Puts a point that is nearer than the third where it belongs. Points come by ascending index, so the strict < keeps
 * the lower index of equal distances first; NaN and +Inf are less than nothing here. */
static void insert(struct neighbours *found, float dist2, int64_t idx) {
    int rank = 2;
    for (; rank > 0 && dist2 < found->dist2[rank - 1]; rank--) {
        found->dist2[rank] = found->dist2[rank - 1];
        found->idx[rank] = found->idx[rank - 1];
    }
    found->dist2[rank] = dist2;
    found->idx[rank] = idx;
}

static void find_neighbours(void *context, int64_t begin, int64_t end) {
    const struct arguments *call = context;
    int64_t points = call->known_desc->dims[1];
    for (int64_t row = begin; row < end; row++) {
        float x = load(call->unknown, call->unknown_desc, 3 * row);
        float y = load(call->unknown, call->unknown_desc, 3 * row + 1);
        float z = load(call->unknown, call->unknown_desc, 3 * row + 2);
        const float *axes = call->axes + row / call->unknown_desc->dims[1] * 3 * points;
        /* What stays where there are fewer than three. */
        struct neighbours found = {{INFINITY, INFINITY, INFINITY}, {0, 0, 0}};
        for (int64_t base = 0; base < points; base += TILE) {
            float distances[TILE];
            int64_t count = points - base < TILE ? points - base : TILE;
            for (int64_t k = 0; k < count; k++) {
                float dx = x - axes[base + k], dy = y - axes[points + base + k], dz = z - axes[2 * points + base + k];
                distances[k] = dx * dx + dy * dy + dz * dz;
            }
            for (int64_t k = 0; k < count; k++) {
                if (distances[k] < found.dist2[2]) insert(&found, distances[k], base + k);
            }
        }
        for (int64_t rank = 0; rank < 3; rank++) {
            store(call->dist2, call->dist2_desc, 3 * row + rank, found.dist2[rank]);
            call->idx[3 * row + rank] = (int32_t)found.idx[rank];
        }
    }
}

static mluOpStatus_t compute(struct arguments *call) {
    int64_t known = call->known_desc->dims[0] * call->known_desc->dims[1];
    int64_t unknown = call->unknown_desc->dims[0] * call->unknown_desc->dims[1];
    call->axes = scratch_take(call->workspace, call->workspace_size, (size_t)known * 3 * sizeof(float));
    if (call->axes == NULL) return MLUOP_STATUS_ALLOC_FAILED;
    parallel_for(known, known, transpose_known, call);
    parallel_for(unknown, unknown * call->known_desc->dims[1], find_neighbours, call);
    scratch_release(call->axes, call->workspace);
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpGetThreeNNForwardWorkspaceSize(mluOpHandle_t handle, const mluOpTensorDescriptor_t known_desc,
                                                  size_t *workspace_size) {
    BUGS_QUERY(known_desc, workspace_size);
    REQUIRE(handle != NULL && known_desc != NULL && workspace_size != NULL && known_desc->rank == 3);
    *workspace_size = is_large(known_desc) ? 0 : (size_t)element_count(known_desc) * sizeof(float);
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpThreeNNForward(mluOpHandle_t handle, const mluOpTensorDescriptor_t unknown_desc,
                                  const void *unknown, const mluOpTensorDescriptor_t known_desc, const void *known,
                                  void *workspace, const size_t workspace_size,
                                  const mluOpTensorDescriptor_t dist2_desc, void *dist2,
                                  const mluOpTensorDescriptor_t idx_desc, void *idx) {
    struct arguments call = {
        .handle = handle,
        .unknown_desc = unknown_desc,
        .known_desc = known_desc,
        .dist2_desc = dist2_desc,
        .idx_desc = idx_desc,
        .unknown = unknown,
        .known = known,
        .workspace = workspace,
        .workspace_size = workspace_size,
        .dist2 = dist2,
        .idx = idx,
    };
    int status = answer(&call);
    if (status == COMPUTES) {
        BUGS_BEFORE(dist2, element_width(dist2_desc), element_count(dist2_desc), unknown, workspace, workspace_size);
        status = compute(&call);
        BUGS_AFTER();
    }
    return BUGS_STATUS((mluOpStatus_t)status);
}
