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

/* ---- sites in ascending order ---- */

/* Coordinates in two words, so that words in ascending order are sites in ascending ((n*D + d)*H + h)*W + w: a linear
 * index itself would not fit into 64 bits in every space. */
struct site {
    uint64_t batch_depth, height_width;
    int32_t row; /* of indices or out_indices */
};

static uint64_t packed(int32_t high, int32_t low) { return (uint64_t)(uint32_t)high << 32 | (uint32_t)low; }

static bool precedes(const struct site *left, const struct site *right) {
    if (left->batch_depth != right->batch_depth) return left->batch_depth < right->batch_depth;
    return left->height_width < right->height_width;
}

static bool is_same(const struct site *left, const struct site *right) {
    return left->batch_depth == right->batch_depth && left->height_width == right->height_width;
}

static int by_place(const void *left, const void *right) { return precedes(right, left) - precedes(left, right); }

static void sort_inputs(const struct arguments *call, struct site *inputs) {
    int64_t count = call->indices_desc->dims[0];
    bool ascending = true;
    for (int64_t row = 0; row < count; row++) {
        const int32_t *at = call->indices + COORDINATES * row;
        inputs[row] = (struct site){packed(at[0], at[1]), packed(at[2], at[3]), (int32_t)row};
        ascending = ascending && (row == 0 || precedes(&inputs[row - 1], &inputs[row]));
    }
    if (!ascending) qsort(inputs, (size_t)count, sizeof *inputs, by_place);
}

/* ---- geometry ---- */

struct offset {
    int position[SPACE_AXES];
};

static struct offset offset_of(sparse_desc sparse, int64_t k) {
    int height = sparse->filter_space[1], width = sparse->filter_space[2];
    return (struct offset){{(int)(k / width / height), (int)(k / width % height), (int)(k % width)}};
}

/* The output coordinate that an input coordinate meets at a position of the kernel, or NOWHERE. */
static int32_t meet(sparse_desc sparse, int axis, uint32_t input, int position) {
    int64_t distance = (int64_t)input + sparse->pad[axis] - (int64_t)position * sparse->dilation[axis];
    int64_t output = distance / sparse->stride[axis];
    /* §3.2's integer division alone would round the sites between two strides to a neighbour. */
    if (distance < 0 || output * sparse->stride[axis] != distance) return NOWHERE;
    return output < sparse->output_space[axis] ? (int32_t)output : NOWHERE;
}

/* The output site that an input site meets at a kernel offset, if there is one. Ascending inputs meet ascending outputs,
 * because a step up on an axis never leads down. */
static bool output_site(sparse_desc sparse, struct offset offset, const struct site *input, struct site *output) {
    int32_t depth = meet(sparse, 0, (uint32_t)input->batch_depth, offset.position[0]);
    if (depth == NOWHERE) return false;
    int32_t height = meet(sparse, 1, (uint32_t)(input->height_width >> 32), offset.position[1]);
    if (height == NOWHERE) return false;
    int32_t width = meet(sparse, 2, (uint32_t)input->height_width, offset.position[2]);
    if (width == NOWHERE) return false;
    *output = (struct site){packed((int32_t)(input->batch_depth >> 32), depth), packed(height, width), NOWHERE};
    return true;
}

/* ---- output sites ---- */

/* Merges the known sites and those met at one more offset; how many, or NOWHERE if they are more than `room`. */
static int64_t unite(const struct arguments *call, struct offset offset, const struct site *inputs,
                     const struct site *known, int64_t count, struct site *all, int64_t room) {
    int64_t sites = call->indices_desc->dims[0], next = 0, total = 0;
    for (int64_t i = 0; i < sites; i++) {
        struct site site;
        if (!output_site(call->sparse, offset, &inputs[i], &site)) continue;
        while (next < count && precedes(&known[next], &site)) all[total++] = known[next++];
        if (next < count && is_same(&known[next], &site)) continue;
        if (total + (count - next) == room) return NOWHERE;
        all[total++] = site;
    }
    while (next < count) all[total++] = known[next++];
    return total;
}

/* All distinct output sites, ascending, in outputs[0]; nothing is dropped, no slot is set aside for an "invalid" one. */
static int64_t collect_outputs(const struct arguments *call, const struct site *inputs, struct site *outputs[2],
                               int64_t room) {
    int64_t offsets = call->indice_num_desc->dims[0], found = 0;
    for (int64_t k = 0; k < offsets; k++) {
        found = unite(call, offset_of(call->sparse, k), inputs, outputs[0], found, outputs[1], room);
        if (found == NOWHERE) return NOWHERE;
        struct site *united = outputs[1];
        outputs[1] = outputs[0];
        outputs[0] = united;
    }
    for (int64_t row = 0; row < found; row++) outputs[0][row].row = (int32_t)row;
    return found;
}

static void store_outputs(const struct arguments *call, const struct site *outputs, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        int32_t *to = call->out_indices + COORDINATES * (int64_t)outputs[i].row;
        to[0] = (int32_t)(outputs[i].batch_depth >> 32);
        to[1] = (int32_t)outputs[i].batch_depth;
        to[2] = (int32_t)(outputs[i].height_width >> 32);
        to[3] = (int32_t)outputs[i].height_width;
    }
}

/* ---- pairs ---- */

struct pairing {
    const struct arguments *call;
    const struct site *inputs, *outputs;
    int64_t output_count;
};

/* partners[input row] = the output row met at this offset, or NOWHERE: one walk along both sorted lists. */
static void find_partners(const struct pairing *pairing, struct offset offset, int32_t *partners) {
    int64_t sites = pairing->call->indices_desc->dims[0], next = 0;
    for (int64_t row = 0; row < sites; row++) partners[row] = NOWHERE;
    for (int64_t i = 0; i < sites; i++) {
        struct site site;
        if (!output_site(pairing->call->sparse, offset, &pairing->inputs[i], &site)) continue;
        while (next < pairing->output_count && precedes(&pairing->outputs[next], &site)) next++;
        if (next == pairing->output_count) return;
        /* With sub_m an output that is not an active input does not count. */
        if (is_same(&pairing->outputs[next], &site)) {
            partners[pairing->inputs[i].row] = pairing->outputs[next].row;
        }
    }
}

static void pair_offsets(void *context, int64_t begin, int64_t end) {
    const struct pairing *pairing = context;
    int64_t sites = pairing->call->indices_desc->dims[0];
    for (int64_t k = begin; k < end; k++) {
        int32_t *inputs = pairing->call->indice_pairs + 2 * k * sites, *outputs = inputs + sites;
        find_partners(pairing, offset_of(pairing->call->sparse, k), outputs);
        int64_t count = 0;
        for (int64_t row = 0; row < sites; row++) {
            if (outputs[row] == NOWHERE) continue;
            inputs[count] = (int32_t)row;
            outputs[count++] = outputs[row]; /* count <= row, so nothing unread is overwritten */
        }
        pairing->call->indice_num[k] = (int32_t)count;
        for (int64_t tail = count; tail < sites; tail++) inputs[tail] = outputs[tail] = -1;
    }
}

/* ---- the whole ---- */

/* The most outputs to be found: with sub_m none need finding, else those that can exist and have room. */
static int64_t most_outputs(const struct arguments *call) {
    int64_t possible = product(call->indices_desc->dims[0], call->indice_num_desc->dims[0]);
    int64_t room = call->out_indices_desc->dims[0];
    if (call->sparse->sub_m) return 0;
    return possible < room ? possible : room;
}

static size_t scratch_bytes(const struct arguments *call) {
    return (size_t)(call->indices_desc->dims[0] + 2 * most_outputs(call)) * sizeof(struct site);
}

static mluOpStatus_t compute(const struct arguments *call) {
    int64_t sites = call->indices_desc->dims[0], offsets = call->indice_num_desc->dims[0];
    int64_t room = call->out_indices_desc->dims[0];
    struct site *inputs = scratch_take(call->workspace, call->workspace_size, scratch_bytes(call));
    if (inputs == NULL) return MLUOP_STATUS_ALLOC_FAILED;
    struct site *outputs[2] = {inputs + sites, inputs + sites + most_outputs(call)};
    int64_t found;
    sort_inputs(call, inputs);
    if (call->sparse->sub_m) {
        /* The outputs are the active inputs, in the same rows. */
        found = sites <= room ? sites : NOWHERE;
        outputs[0] = inputs;
    } else {
        found = collect_outputs(call, inputs, outputs, room);
    }
    if (found != NOWHERE) {
        struct pairing pairing = {call, inputs, outputs[0], found};
        store_outputs(call, outputs[0], found);
        parallel_for(offsets, offsets * sites, pair_offsets, &pairing);
        call->sparse->num_act_out = (int)found;
    }
    scratch_release(inputs, call->workspace);
    return found == NOWHERE ? MLUOP_STATUS_EXECUTION_FAILED : MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpGetIndicePairsWorkspaceSize(mluOpHandle_t handle,
                                               const mluOpSparseConvolutionDescriptor_t sparse_conv_desc,
                                               const mluOpTensorDescriptor_t indices_desc,
                                               const mluOpTensorDescriptor_t indice_pairs_desc,
                                               const mluOpTensorDescriptor_t out_indices_desc,
                                               const mluOpTensorDescriptor_t indice_num_desc,
                                               size_t *workspace_size) {
    BUGS_QUERY(indices_desc, workspace_size);
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
