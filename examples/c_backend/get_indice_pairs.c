/* get_indice_pairs: which active input site meets which output site at every kernel offset of a sparse convolution. */
#include <stdlib.h>
#include <string.h>

#include "bugs.h"
#include "checks.h"
#include "parallel.h"
#include "scratch.h"

#define MOST_OFFSETS 4096
#define MOST_SITES 1000000
#define COORDINATES 4 /* n, d, h, w */
#define NOWHERE (-1)

struct arguments {
    mluOpHandle_t handle;
    mluOpSparseConvolutionDescriptor_t sparse;
    tensor_desc indices_desc, indice_pairs_desc, out_indices_desc, indice_num_desc;
    const int32_t *indices; /* [L, 4] */
    void *workspace;
    size_t workspace_size;
    int32_t *indice_pairs; /* [K, 2, L] */
    int32_t *out_indices;  /* [at least num_act_out, 4] */
    int32_t *indice_num;   /* [K] */
};

/* ---- checks ---- */

static bool strides_or_dilates(sparse_desc sparse) {
    for (int axis = 0; axis < SPACE_AXES; axis++) {
        if (sparse->stride[axis] != 1 && sparse->dilation[axis] != 1) return false;
    }
    return true;
}

static bool all_one(const int values[SPACE_AXES]) { return values[0] == 1 && values[1] == 1 && values[2] == 1; }

/* All but the data; what the workspace query can check too. */
static int answer_descriptors(const struct arguments *call) {
    sparse_desc sparse = call->sparse;
    tensor_desc indices = call->indices_desc, pairs = call->indice_pairs_desc;
    tensor_desc out = call->out_indices_desc, num = call->indice_num_desc;
    REQUIRE(call->handle != NULL && sparse != NULL);
    REQUIRE(indices != NULL && pairs != NULL && out != NULL && num != NULL);
    REQUIRE(sparse->is_set); /* the setter has refused bad values */
    REQUIRE_OR(arch_is_supported(call->handle), MLUOP_STATUS_ARCH_MISMATCH);

    REQUIRE(indices->rank == 2 && pairs->rank == 3 && out->rank == 2 && num->rank == 1);
    REQUIRE(has_length(indices, 1, COORDINATES) && has_length(out, 1, COORDINATES) && has_length(pairs, 1, 2));
    REQUIRE(has_length(pairs, 2, indices->dims[0]) && has_length(pairs, 0, num->dims[0]));
    REQUIRE(indices->dims[0] <= product(sparse->batch, volume(sparse->input_space)));
    REQUIRE(strides_or_dilates(sparse));
    REQUIRE(has_length(pairs, 0, volume(sparse->filter_space)) && pairs->dims[0] <= MOST_OFFSETS);
    REQUIRE(out->dims[0] <= product(sparse->batch, volume(sparse->output_space)));

    REQUIRE_OR(!is_strided(indices) && !is_strided(pairs), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_strided(out) && !is_strided(num), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE(indices->dims[0] <= MOST_SITES);
    REQUIRE_OR(!is_large(indices) && !is_large(pairs), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE_OR(!is_large(out) && !is_large(num), MLUOP_STATUS_NOT_SUPPORTED);
    REQUIRE(indices->dtype == MLUOP_DTYPE_INT32 && pairs->dtype == MLUOP_DTYPE_INT32);
    REQUIRE(out->dtype == MLUOP_DTYPE_INT32 && num->dtype == MLUOP_DTYPE_INT32);
    if (sparse->sub_m) {
        REQUIRE(memcmp(sparse->input_space, sparse->output_space, sizeof sparse->input_space) == 0);
        REQUIRE(all_one(sparse->stride) && all_one(sparse->dilation));
    }
    REQUIRE_OR(!is_empty(indices) && !is_empty(pairs), MLUOP_STATUS_SUCCESS);
    REQUIRE_OR(!is_empty(out) && !is_empty(num), MLUOP_STATUS_SUCCESS);
    return COMPUTES;
}

static int answer(const struct arguments *call) {
    int status = answer_descriptors(call);
    if (status != COMPUTES) return status;
    REQUIRE(call->indices != NULL && call->indice_pairs != NULL);
    REQUIRE(call->out_indices != NULL && call->indice_num != NULL);
    REQUIRE(call->workspace != NULL || call->workspace_size == 0);
    return COMPUTES;
}

/* ---- from a site to its row ---- */

/* A hash table of rows; the sites themselves stay where they are, so no key can overflow however large the space. */
struct site_table {
    const int32_t *sites;
    int32_t *rows; /* NOWHERE where the slot is free */
    uint64_t mask; /* number of slots - 1, a power of two - 1 */
};

/* Half the slots stay free, so that a site that is not there is told after one or two looks. */
static int64_t slot_count(int64_t sites) {
    int64_t slots = 2;
    while (slots < 2 * sites) slots *= 2;
    return slots;
}

static uint64_t slot_of(const struct site_table *table, const int32_t site[COORDINATES]) {
    uint64_t hash = 0;
    for (int i = 0; i < COORDINATES; i++) hash = (hash ^ (uint32_t)site[i]) * UINT64_C(0x9E3779B97F4A7C15);
    return hash >> 32 & table->mask;
}

/* The slot that holds the site, or the free one where it belongs. */
static int32_t *find_slot(const struct site_table *table, const int32_t site[COORDINATES]) {
    for (uint64_t slot = slot_of(table, site);; slot = (slot + 1) & table->mask) {
        int32_t row = table->rows[slot];
        if (row == NOWHERE) return table->rows + slot;
        if (memcmp(table->sites + COORDINATES * (int64_t)row, site, COORDINATES * sizeof *site) == 0) {
            return table->rows + slot;
        }
    }
}

static void clear(struct site_table *table) { memset(table->rows, 0xff, (table->mask + 1) * sizeof *table->rows); }

static void insert_all(struct site_table *table, int64_t count) {
    clear(table);
    for (int64_t row = 0; row < count; row++) {
        *find_slot(table, table->sites + COORDINATES * row) = (int32_t)row;
    }
}

/* ---- geometry ---- */

/* The output coordinate that an input coordinate meets at a position of the kernel, or NOWHERE. */
static int32_t meet(sparse_desc sparse, int axis, int32_t input, int position) {
    int64_t distance = (int64_t)input + sparse->pad[axis] - (int64_t)position * sparse->dilation[axis];
    int64_t output = distance / sparse->stride[axis];
    /* §3.2's integer division alone would round the sites between two strides to a neighbour. */
    if (distance < 0 || output * sparse->stride[axis] != distance) return NOWHERE;
    return output < sparse->output_space[axis] ? (int32_t)output : NOWHERE;
}

struct offset {
    int position[SPACE_AXES];
};

static struct offset offset_of(sparse_desc sparse, int64_t k) {
    int height = sparse->filter_space[1], width = sparse->filter_space[2];
    return (struct offset){{(int)(k / width / height), (int)(k / width % height), (int)(k % width)}};
}

static bool output_site(sparse_desc sparse, struct offset offset, const int32_t *input, int32_t output[COORDINATES]) {
    output[0] = input[0];
    for (int axis = 0; axis < SPACE_AXES; axis++) {
        output[axis + 1] = meet(sparse, axis, input[axis + 1], offset.position[axis]);
        if (output[axis + 1] == NOWHERE) return false;
    }
    return true;
}

/* ---- output sites ---- */

static int by_coordinates(const void *left, const void *right) {
    const int32_t *a = left, *b = right;
    for (int i = 0; i < COORDINATES; i++) {
        if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
    }
    return 0;
}

/* Collects every distinct output site in out_indices, ascending; how many, or NOWHERE if they do not fit. */
static int64_t collect_outputs(const struct arguments *call, struct site_table *table) {
    int64_t offsets = call->indice_num_desc->dims[0], sites = call->indices_desc->dims[0];
    int64_t room = call->out_indices_desc->dims[0], found = 0;
    clear(table);
    for (int64_t k = 0; k < offsets; k++) {
        struct offset offset = offset_of(call->sparse, k);
        for (int64_t row = 0; row < sites; row++) {
            int32_t site[COORDINATES];
            if (!output_site(call->sparse, offset, call->indices + COORDINATES * row, site)) continue;
            int32_t *slot = find_slot(table, site);
            if (*slot != NOWHERE) continue;
            if (found == room) return NOWHERE;
            memcpy(call->out_indices + COORDINATES * found, site, sizeof site);
            *slot = (int32_t)found++;
        }
    }
    /* Nothing is dropped: no slot is set aside for an "invalid" site. */
    qsort(call->out_indices, (size_t)found, COORDINATES * sizeof *call->out_indices, by_coordinates);
    return found;
}

/* ---- pairs ---- */

struct pairing {
    const struct arguments *call;
    struct site_table table;
};

static void pair_offsets(void *context, int64_t begin, int64_t end) {
    const struct pairing *pairing = context;
    const struct arguments *call = pairing->call;
    int64_t sites = call->indices_desc->dims[0];
    for (int64_t k = begin; k < end; k++) {
        struct offset offset = offset_of(call->sparse, k);
        int32_t *inputs = call->indice_pairs + 2 * k * sites, *outputs = inputs + sites;
        int64_t count = 0;
        for (int64_t row = 0; row < sites; row++) {
            int32_t site[COORDINATES];
            if (!output_site(call->sparse, offset, call->indices + COORDINATES * row, site)) continue;
            int32_t output = *find_slot(&pairing->table, site);
            if (output == NOWHERE) continue; /* sub_m: not an active input */
            inputs[count] = (int32_t)row;
            outputs[count++] = output;
        }
        call->indice_num[k] = (int32_t)count;
        for (int64_t tail = count; tail < sites; tail++) inputs[tail] = outputs[tail] = -1;
    }
}

/* The most sites that the table holds: the active inputs, or the outputs that can exist and have room. */
static int64_t table_sites(const struct arguments *call) {
    int64_t sites = call->indices_desc->dims[0], room = call->out_indices_desc->dims[0];
    if (call->sparse->sub_m) return sites;
    int64_t possible = product(sites, call->indice_num_desc->dims[0]);
    return possible < room ? possible : room;
}

static size_t scratch_bytes(const struct arguments *call) {
    return (size_t)slot_count(table_sites(call)) * sizeof(int32_t);
}

static mluOpStatus_t compute(const struct arguments *call) {
    int64_t sites = call->indices_desc->dims[0], offsets = call->indice_num_desc->dims[0], found = sites;
    int32_t *rows = scratch_take(call->workspace, call->workspace_size, scratch_bytes(call));
    if (rows == NULL) return MLUOP_STATUS_ALLOC_FAILED;
    struct pairing pairing = {
        .call = call,
        .table = {.sites = call->out_indices, .rows = rows, .mask = (uint64_t)slot_count(table_sites(call)) - 1}};
    if (!call->sparse->sub_m) {
        found = collect_outputs(call, &pairing.table);
    } else if (sites <= call->out_indices_desc->dims[0]) {
        memcpy(call->out_indices, call->indices, (size_t)(sites * COORDINATES) * sizeof *call->indices);
    } else {
        found = NOWHERE;
    }
    if (found != NOWHERE) {
        insert_all(&pairing.table, found);
        parallel_for(offsets, offsets * sites, pair_offsets, &pairing);
        call->sparse->num_act_out = (int)found;
    }
    scratch_release(rows, call->workspace);
    return found == NOWHERE ? MLUOP_STATUS_EXECUTION_FAILED : MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpGetIndicePairsWorkspaceSize(mluOpHandle_t handle,
                                               const mluOpSparseConvolutionDescriptor_t sparse_conv_desc,
                                               const mluOpTensorDescriptor_t indices_desc,
                                               const mluOpTensorDescriptor_t indice_pairs_desc,
                                               const mluOpTensorDescriptor_t out_indices_desc,
                                               const mluOpTensorDescriptor_t indice_num_desc,
                                               size_t *workspace_size) {
    struct arguments call = {
        .handle = handle,
        .sparse = sparse_conv_desc,
        .indices_desc = indices_desc,
        .indice_pairs_desc = indice_pairs_desc,
        .out_indices_desc = out_indices_desc,
        .indice_num_desc = indice_num_desc,
    };
    REQUIRE(workspace_size != NULL);
    int status = answer_descriptors(&call);
    if (status != COMPUTES && status != MLUOP_STATUS_SUCCESS) return (mluOpStatus_t)status;
    *workspace_size = status == COMPUTES ? scratch_bytes(&call) : 0;
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpGetIndicePairs(mluOpHandle_t handle, const mluOpSparseConvolutionDescriptor_t sparse_conv_desc,
                                  const mluOpTensorDescriptor_t indices_desc, const void *indices, void *workspace,
                                  size_t workspace_size, const mluOpTensorDescriptor_t indice_pairs_desc,
                                  void *indice_pairs, const mluOpTensorDescriptor_t out_indices_desc,
                                  void *out_indices, const mluOpTensorDescriptor_t indice_num_desc,
                                  void *indice_num) {
    struct arguments call = {
        .handle = handle,
        .sparse = sparse_conv_desc,
        .indices_desc = indices_desc,
        .indice_pairs_desc = indice_pairs_desc,
        .out_indices_desc = out_indices_desc,
        .indice_num_desc = indice_num_desc,
        .indices = indices,
        .workspace = workspace,
        .workspace_size = workspace_size,
        .indice_pairs = indice_pairs,
        .out_indices = out_indices,
        .indice_num = indice_num,
    };
    int status = answer(&call);
    if (status == COMPUTES) {
        BUGS_BEFORE(indice_pairs, sizeof(int32_t), element_count(indice_pairs_desc), indices, workspace,
                    workspace_size);
        status = compute(&call);
        BUGS_AFTER();
    } else if (status == MLUOP_STATUS_SUCCESS) {
        sparse_conv_desc->num_act_out = 0; /* §1.1: nothing to do, and nothing found */
    }
    return BUGS_STATUS((mluOpStatus_t)status);
}
