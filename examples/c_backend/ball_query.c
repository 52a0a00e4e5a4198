/* ball_query: lists for each centre the first points, by index, that lie in a spherical shell around it. */
#include "bugs.h"
#include "checks.h"
#include "half.h"
#include "parallel.h"

/* Up to this device the cloud must have fewer elements than the second figure, on newer ones fewer than 2^31. */
#define LAST_NARROW_ARCH 370
#define NARROW_ELEMENTS INT64_C(536895361)

struct arguments {
    mluOpHandle_t handle;
    tensor_desc new_xyz_desc, xyz_desc, idx_desc;
    const void *new_xyz, *xyz; /* [B, M, 3], [B, N, 3]: both half or both float */
    float min_radius, max_radius;
    int nsample;
    int32_t *idx; /* [B, M, nsample] */
};

static bool cloud_is_large(const struct arguments *call) {
    bool narrow = call->handle->arch <= LAST_NARROW_ARCH;
    return is_large(call->xyz_desc) || (narrow && element_count(call->xyz_desc) >= NARROW_ELEMENTS);
}

static int answer(const struct arguments *call) {
    tensor_desc new_xyz = call->new_xyz_desc, xyz = call->xyz_desc, idx = call->idx_desc;
    /* Written so that NaN is refused. */
    REQUIRE(call->min_radius >= 0 && call->max_radius >= 0 && call->nsample >= 0);
    REQUIRE(call->handle != NULL);
    REQUIRE(new_xyz != NULL && xyz != NULL && idx != NULL);
    REQUIRE(new_xyz->rank == 3 && xyz->rank == 3 && idx->rank == 3);

    REQUIRE(has_length(xyz, 0, new_xyz->dims[0]));
    REQUIRE(has_length(idx, 0, new_xyz->dims[0]));
    REQUIRE(has_length(idx, 1, new_xyz->dims[1]));
    REQUIRE(has_length(new_xyz, 2, 3));
    REQUIRE(has_length(xyz, 2, 3));
    REQUIRE(has_length(idx, 2, call->nsample));

    REQUIRE_OR(!is_strided(new_xyz) && !is_strided(xyz) && !is_strided(idx), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE(new_xyz->dtype == MLUOP_DTYPE_HALF || new_xyz->dtype == MLUOP_DTYPE_FLOAT);
    REQUIRE(xyz->dtype == new_xyz->dtype && idx->dtype == MLUOP_DTYPE_INT32);
    REQUIRE_OR(!is_large(new_xyz) && !is_large(idx) && !cloud_is_large(call), MLUOP_STATUS_NOT_SUPPORTED);

    /* §1.1: no centre is an error, no point is not. */
    REQUIRE(!is_empty(new_xyz));
    REQUIRE_OR(xyz->dims[1] != 0 && call->nsample != 0, MLUOP_STATUS_SUCCESS);
    REQUIRE(call->new_xyz != NULL && call->xyz != NULL && call->idx != NULL);
    return COMPUTES;
}

struct point {
    float x, y, z;
};

static struct point point_at(tensor_desc desc, const void *data, int64_t place) {
    if (desc->dtype == MLUOP_DTYPE_HALF) {
        const half *at = (const half *)data + 3 * place;
        return (struct point){half_to_float(at[0]), half_to_float(at[1]), half_to_float(at[2])};
    }
    const float *at = (const float *)data + 3 * place;
    return (struct point){at[0], at[1], at[2]};
}

/* §3.1 step 6: a coincident point always counts; min_radius itself is inside, max_radius is not. NaN fails all three. */
static bool is_inside(struct point centre, struct point point, float low, float high) {
    float x = point.x - centre.x, y = point.y - centre.y, z = point.z - centre.z;
    float squared = x * x + y * y + z * z;
    return squared == 0 || (squared >= low && squared < high);
}

/* A row without a point in the shell keeps what the caller put there. */
static void fill_rows(void *context, int64_t begin, int64_t end) {
    const struct arguments *call = context;
    int64_t centres = call->new_xyz_desc->dims[1], points = call->xyz_desc->dims[1];
    float low = call->min_radius * call->min_radius, high = call->max_radius * call->max_radius;
    for (int64_t row = begin; row < end; row++) {
        struct point centre = point_at(call->new_xyz_desc, call->new_xyz, row);
        int64_t cloud = row / centres * points;
        int32_t *entries = call->idx + row * call->nsample;
        int found = 0;
        for (int64_t point = 0; point < points && found < call->nsample; point++) {
            if (!is_inside(centre, point_at(call->xyz_desc, call->xyz, cloud + point), low, high)) continue;
            entries[found++] = (int32_t)point;
        }
        /* §3.1 step 9: the first point, by index, fills the rest. */
        for (int entry = found; found > 0 && entry < call->nsample; entry++) entries[entry] = entries[0];
    }
}

static mluOpStatus_t compute(struct arguments *call) {
    int64_t rows = call->new_xyz_desc->dims[0] * call->new_xyz_desc->dims[1];
    parallel_for(rows, rows * call->xyz_desc->dims[1], fill_rows, call);
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpBallQuery(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t new_xyz_desc, const void *new_xyz,
    const mluOpTensorDescriptor_t xyz_desc, const void *xyz, const float min_radius, const float max_radius,
    const int nsample, const mluOpTensorDescriptor_t idx_desc, void *idx) {
    struct arguments call = {
        .handle = handle,
        .new_xyz_desc = new_xyz_desc,
        .xyz_desc = xyz_desc,
        .idx_desc = idx_desc,
        .new_xyz = new_xyz,
        .xyz = xyz,
        .min_radius = min_radius,
        .max_radius = max_radius,
        .nsample = nsample,
        .idx = idx,
    };
    int status = answer(&call);
    if (status == COMPUTES) {
        BUGS_BEFORE(idx, sizeof(int32_t), element_count(idx_desc), new_xyz, NULL, 0);
        status = compute(&call);
        BUGS_AFTER();
    }
    return BUGS_STATUS((mluOpStatus_t)status);
}
