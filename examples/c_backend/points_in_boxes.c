/* points_in_boxes: the first box of its batch, turned about z, that holds each point; -1 where there is none. */
#include <math.h>

#include "bugs.h"
#include "checks.h"
#include "parallel.h"

/* What is known of a box before any point is looked at. */
struct box {
    float x, y, z, half_x, half_y, half_z, cosine, sine;
};

struct arguments {
    mluOpHandle_t handle;
    tensor_desc points_desc, boxes_desc, indices_desc;
    const float *points, *boxes; /* [B, M, 3], [B, T, 7] */
    int32_t *indices;            /* [B, M] */
};

static int answer(const struct arguments *call) {
    tensor_desc points = call->points_desc, boxes = call->boxes_desc, indices = call->indices_desc;
    REQUIRE(call->handle != NULL);
    REQUIRE(points != NULL && boxes != NULL && indices != NULL);
    REQUIRE(points->rank == 3 && boxes->rank == 3 && indices->rank == 2);
    REQUIRE(points->dtype == MLUOP_DTYPE_FLOAT && boxes->dtype == MLUOP_DTYPE_FLOAT);
    REQUIRE(indices->dtype == MLUOP_DTYPE_INT32);
    REQUIRE(points->layout == MLUOP_LAYOUT_ARRAY && boxes->layout == MLUOP_LAYOUT_ARRAY);
    REQUIRE(indices->layout == MLUOP_LAYOUT_ARRAY);
    REQUIRE(has_length(boxes, 0, points->dims[0]) && has_length(indices, 0, points->dims[0]));
    REQUIRE(has_length(indices, 1, points->dims[1]));
    REQUIRE(has_length(points, 2, 3) && has_length(boxes, 2, 7));

    REQUIRE_OR(!is_strided(points) && !is_strided(boxes) && !is_strided(indices), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_large(points) && !is_large(boxes), MLUOP_STATUS_NOT_SUPPORTED);
    /* §1.1: without boxes nothing is written, not even -1. */
    REQUIRE_OR(!is_empty(points) && !is_empty(boxes), MLUOP_STATUS_SUCCESS);
    REQUIRE(call->points != NULL && call->boxes != NULL && call->indices != NULL);
    /* §3.4: the boxes of a batch, and at least one point beside them. */
    REQUIRE(28 * boxes->dims[1] + 36 <= call->handle->nram_bytes);
    return COMPUTES;
}

static struct box read_box(const float *box) {
    return (struct box){
        .x = box[0],
        .y = box[1],
        .z = box[2],
        .half_x = box[3] / 2 + 1e-5f,
        .half_y = box[4] / 2 + 1e-5f,
        .half_z = box[5] / 2,
        .cosine = cosf(box[6]),
        .sine = sinf(box[6]),
    };
}

static int holds(const struct box *box, const float *point) {
    if (!(fabsf(point[2] - box->z) <= box->half_z)) return 0;
    float east = point[0] - box->x, north = point[1] - box->y;
    /* §1.2 turns by -rz: the sine changes its sign. */
    return fabsf(east * box->cosine + north * box->sine) < box->half_x &&
           fabsf(north * box->cosine - east * box->sine) < box->half_y;
}

/* §3.1: one box after the other against a tile of points; who is in a box already waits for no other. */
#define TILE 512

static void name_boxes(void *context, int64_t begin, int64_t end) {
    const struct arguments *call = context;
    int64_t points = call->points_desc->dims[1], boxes = call->boxes_desc->dims[1];
    while (begin < end) {
        int64_t batch = begin / points, stop = (batch + 1) * points;
        if (stop > end) stop = end;
        if (stop > begin + TILE) stop = begin + TILE;
        for (int64_t row = begin; row < stop; row++) call->indices[row] = -1;
        for (int64_t number = 0; number < boxes; number++) {
            struct box box = read_box(call->boxes + 7 * (batch * boxes + number));
            for (int64_t row = begin; row < stop; row++) {
                if (call->indices[row] < 0 && holds(&box, call->points + 3 * row)) call->indices[row] = (int32_t)number;
            }
        }
        begin = stop;
    }
}

mluOpStatus_t mluOpPointsInBoxes(mluOpHandle_t handle, const mluOpTensorDescriptor_t points_desc, const void *points,
                                 const mluOpTensorDescriptor_t boxes_desc, const void *boxes,
                                 const mluOpTensorDescriptor_t points_indices_desc, void *points_indices) {
    struct arguments call = {
        .handle = handle,
        .points_desc = points_desc,
        .boxes_desc = boxes_desc,
        .indices_desc = points_indices_desc,
        .points = points,
        .boxes = boxes,
        .indices = points_indices,
    };
    int status = answer(&call);
    if (status == COMPUTES) {
        BUGS_BEFORE(points_indices, sizeof(int32_t), element_count(points_indices_desc), points, NULL, 0);
        int64_t rows = points_desc->dims[0] * points_desc->dims[1];
        parallel_for(rows, rows * boxes_desc->dims[1], name_boxes, &call);
        BUGS_AFTER();
        status = MLUOP_STATUS_SUCCESS;
    }
    return BUGS_STATUS((mluOpStatus_t)status);
}
