/* bbox_overlaps: intersection over union, or over the first area, of every two boxes or of those in equal rows. */
#include "bugs.h"
#include "checks.h"
#include "half.h"
#include "parallel.h"

struct arguments {
    mluOpHandle_t handle;
    int mode;
    bool aligned;
    int offset;
    tensor_desc bbox1_desc, bbox2_desc, ious_desc;
    const void *bbox1, *bbox2; /* [M, 4], [N, 4] */
    void *ious;                /* [M, N]; [M] when aligned */
};

static bool has_corners(tensor_desc boxes) { return has_length(boxes, 1, 4) || has_length(boxes, 0, 0); }

static int answer(const struct arguments *call) {
    tensor_desc bbox1 = call->bbox1_desc, bbox2 = call->bbox2_desc, ious = call->ious_desc;
    REQUIRE(call->handle != NULL);
    REQUIRE(bbox1 != NULL && bbox2 != NULL && ious != NULL);
    REQUIRE(bbox1->dtype == MLUOP_DTYPE_HALF || bbox1->dtype == MLUOP_DTYPE_FLOAT);
    REQUIRE(bbox2->dtype == bbox1->dtype && ious->dtype == bbox1->dtype);
    REQUIRE(bbox1->rank == 2 && bbox2->rank == 2);
    REQUIRE_OR(!is_strided(bbox1) && !is_strided(bbox2) && !is_strided(ious), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE(call->mode == 0 || call->mode == 1);
    REQUIRE(has_corners(bbox1) && has_corners(bbox2));
    REQUIRE(call->offset == 0 || call->offset == 1);
    int64_t rows = bbox1->dims[0];
    REQUIRE(ious->rank > 0 && has_length(ious, 0, rows));
    if (call->aligned) {
        REQUIRE(has_length(bbox2, 0, rows));
        if (rows == 0) {
            /* As released: [0, 1] and the like, and not [0]. */
            REQUIRE(has_length(ious, ious->rank - 1, 1));
            return MLUOP_STATUS_SUCCESS;
        }
        REQUIRE(ious->rank == 1);
    } else {
        REQUIRE(ious->rank == 2 && has_length(ious, 1, bbox2->dims[0]));
        REQUIRE_OR(!is_empty(ious), MLUOP_STATUS_SUCCESS);
    }
    REQUIRE_OR(!is_large(bbox1) && !is_large(bbox2) && !is_large(ious), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE(call->bbox1 != NULL && call->bbox2 != NULL && call->ious != NULL);
    return COMPUTES;
}

struct box {
    float x1, y1, x2, y2;
};

static struct box load(const void *boxes, tensor_desc desc, int64_t row) {
    if (desc->dtype == MLUOP_DTYPE_HALF) {
        const half *at = (const half *)boxes + 4 * row;
        return (struct box){half_to_float(at[0]), half_to_float(at[1]), half_to_float(at[2]), half_to_float(at[3])};
    }
    const float *at = (const float *)boxes + 4 * row;
    return (struct box){at[0], at[1], at[2], at[3]};
}

static float larger(float left, float right) { return left > right ? left : right; }
static float smaller(float left, float right) { return left < right ? left : right; }

/* §3.2: the offset is added to every length. */
static float overlap(struct box a, struct box b, float offset, int mode) {
    float width = larger(smaller(a.x2, b.x2) - larger(a.x1, b.x1) + offset, 0);
    float height = larger(smaller(a.y2, b.y2) - larger(a.y1, b.y1) + offset, 0);
    float met = width * height;
    float area = (a.x2 - a.x1 + offset) * (a.y2 - a.y1 + offset);
    if (mode == 0) area = area + (b.x2 - b.x1 + offset) * (b.y2 - b.y1 + offset) - met;
    return met / larger(area, offset);
}

/* Elements of ious, row after row. */
static void write_overlaps(void *context, int64_t begin, int64_t end) {
    const struct arguments *call = context;
    int64_t columns = call->aligned ? 1 : call->bbox2_desc->dims[0];
    for (int64_t place = begin; place < end; place++) {
        struct box first = load(call->bbox1, call->bbox1_desc, place / columns);
        struct box second = load(call->bbox2, call->bbox2_desc, call->aligned ? place : place % columns);
        float ratio = overlap(first, second, (float)call->offset, call->mode);
        if (call->ious_desc->dtype == MLUOP_DTYPE_HALF) {
            ((half *)call->ious)[place] = float_to_half(ratio);
        } else {
            ((float *)call->ious)[place] = ratio;
        }
    }
}

mluOpStatus_t mluOpBboxOverlaps(mluOpHandle_t handle, const int mode, const bool aligned, const int offset,
                                const mluOpTensorDescriptor_t bbox1_desc, const void *bbox1,
                                const mluOpTensorDescriptor_t bbox2_desc, const void *bbox2,
                                const mluOpTensorDescriptor_t ious_desc, void *ious) {
    struct arguments call = {
        .handle = handle,
        .mode = mode,
        .aligned = aligned,
        .offset = offset,
        .bbox1_desc = bbox1_desc,
        .bbox2_desc = bbox2_desc,
        .ious_desc = ious_desc,
        .bbox1 = bbox1,
        .bbox2 = bbox2,
        .ious = ious,
    };
    int status = answer(&call);
    if (status == COMPUTES) {
        int64_t elements = element_count(ious_desc);
        BUGS_BEFORE(ious, element_width(ious_desc), elements, bbox1, NULL, 0);
        parallel_for(elements, 25 * elements, write_overlaps, &call);
        status = MLUOP_STATUS_SUCCESS;
        BUGS_AFTER();
    }
    return BUGS_STATUS((mluOpStatus_t)status);
}
