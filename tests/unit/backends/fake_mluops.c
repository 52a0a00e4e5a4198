/* A library that computes nothing: it writes down how it is called, and misbehaves as told.
 *
 * -DRUNTIME adds the device runtime, -DNOTIFIERS its notifiers, -DHOOKS the test hooks, -DDOCUMENT_NAMES the document's
 * names of dynamic_scatter_backward instead of the released ones, -DNO_SPARSE leaves out the sparse-convolution
 * descriptor, -DNO_CORE the tensor descriptors, -DNO_IM2COL and -DNO_FREE one function each. For processes that a test cannot
 * reach into, -DREFUSING='"function"' and -DBEHAVIOUR='"how"' are in force from the start. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the test sees ---- */

static char journal[1 << 20];
static size_t journal_length;
#ifndef REFUSING
#define REFUSING ""
#endif
#ifndef BEHAVIOUR
#define BEHAVIOUR ""
#endif
static char refusing[128] = REFUSING, behaviour[64] = BEHAVIOUR;
static int refusal = 3; /* BAD_PARAM */
static int64_t wanted_workspace;
static int live[8];
enum { HANDLES, TENSORS, SPARSES, QUEUES, BUFFERS, NOTIFIERS_LIVE };

const char *fakeJournal(void) { return journal; }
int fakeLive(int kind) { return live[kind]; }
void fakeReset(void) {
    journal[journal_length = 0] = 0;
    refusing[0] = behaviour[0] = 0;
    wanted_workspace = 0;
}
void fakeRefuse(const char *function, int code) {
    snprintf(refusing, sizeof refusing, "%s", function);
    refusal = code;
}
void fakeBehave(const char *how) { snprintf(behaviour, sizeof behaviour, "%s", how); }
void fakeWantWorkspace(int64_t bytes) { wanted_workspace = bytes; }

static void say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    journal_length += (size_t)vsnprintf(journal + journal_length, sizeof journal - journal_length, format, arguments);
    va_end(arguments);
}

/* Every function starts a line of the journal and answers the refusal if it is the one told to. */
#define ENTER()                                            \
    say("\n%s", __func__);                                 \
    if (strcmp(refusing, __func__) == 0) return refusal

static int behaves(const char *how) { return strcmp(behaviour, how) == 0; }

/* ---- handle and descriptors ---- */

struct handle { int arch; int64_t nram; void *queue; };
struct tensor { int layout, dtype, rank; int64_t dims[8], strides[8]; int strided; };
struct sparse { int num_act_out; };

int mluOpCreate(struct handle **handle) {
    ENTER();
    *handle = calloc(1, sizeof **handle);
    live[HANDLES]++;
    return 0;
}
int mluOpDestroy(struct handle *handle) {
    ENTER();
    free(handle);
    live[HANDLES]--;
    return 0;
}
int mluOpSetQueue(struct handle *handle, void *queue) {
    ENTER();
    say(" %s", queue ? "queue" : "NULL");
    handle->queue = queue;
    return 0;
}
#ifdef HOOKS
int mluOpTestSetArch(struct handle *handle, int arch) {
    ENTER();
    say(" %d", handle->arch = arch);
    return 0;
}
int mluOpTestSetNramBytes(struct handle *handle, int64_t bytes) {
    ENTER();
    say(" %lld", (long long)(handle->nram = bytes));
    return 0;
}
#endif

static void say_longs(const int64_t *values, int count) {
    say(" [");
    for (int i = 0; i < count; i++) say("%s%lld", i ? "," : "", (long long)values[i]);
    say("]");
}
static void say_ints(const char *name, const int *values, int count) {
    say(" %s=", name);
    if (!values) say("NULL");
    for (int i = 0; values && i < count; i++) say("%s%d", i ? "," : "", values[i]);
}

#ifndef NO_CORE
int mluOpCreateTensorDescriptor(struct tensor **desc) {
    ENTER();
    *desc = behaves("make nothing") ? NULL : calloc(1, sizeof **desc);
    live[TENSORS] += *desc != NULL;
    return 0;
}
int mluOpDestroyTensorDescriptor(struct tensor *desc) {
    ENTER();
    free(desc);
    live[TENSORS]--;
    return 0;
}
static void set(struct tensor *desc, int layout, int dtype, int rank, const int64_t *dims) {
    *desc = (struct tensor){layout, dtype, rank, {0}, {0}, 0};
    memcpy(desc->dims, dims, sizeof *dims * (size_t)rank);
    say(" layout=%d dtype=%d", layout, dtype);
    say_longs(dims, rank);
}
int mluOpSetTensorDescriptor_v2(struct tensor *desc, int layout, int dtype, int rank, const int64_t *dims) {
    ENTER();
    set(desc, layout, dtype, rank, dims);
    return 0;
}
int mluOpSetTensorDescriptorEx_v2(struct tensor *desc, int layout, int dtype, int rank, const int64_t *dims,
                                  const int64_t *strides) {
    ENTER();
    set(desc, layout, dtype, rank, dims);
    say_longs(strides, rank);
    return 0;
}
#endif

#ifndef NO_SPARSE
int mluOpCreateSparseConvolutionDescriptor(struct sparse **desc) {
    ENTER();
    *desc = calloc(1, sizeof **desc);
    live[SPARSES]++;
    return 0;
}
int mluOpDestroySparseConvolutionDescriptor(struct sparse *desc) {
    ENTER();
    free(desc);
    live[SPARSES]--;
    return 0;
}
int mluOpSetSparseConvolutionDescriptor(struct sparse *desc, int dimnb, int batch, const int *pad, const int *stride,
                                        const int *dilation, const int *input_space, const int *filter_space,
                                        const int *output_space, int sub_m, int transpose, int inverse) {
    ENTER();
    say(" dimnb=%d batch=%d", dimnb, batch);
    say_ints("pad", pad, 4); /* one entry more than a caller has: the spare zeros are read */
    say_ints("stride", stride, 3);
    say_ints("dilation", dilation, 3);
    say_ints("input_space", input_space, 3);
    say_ints("filter_space", filter_space, 3);
    say_ints("output_space", output_space, 3);
    say(" sub_m=%d transpose=%d inverse=%d", sub_m, transpose, inverse);
    desc->num_act_out = 0;
    return 0;
}
int mluOpGetSparseConvolutionNumActOut(struct sparse *desc, int *count) {
    ENTER();
    *count = desc->num_act_out;
    return 0;
}
#endif

/* ---- runtime ---- */

#ifdef RUNTIME
int cnrtSetDevice(int device) {
    ENTER();
    say(" %d", device);
    return 0;
}
int cnrtQueueCreate(void **queue) {
    ENTER();
    *queue = malloc(1);
    live[QUEUES]++;
    return 0;
}
int cnrtQueueDestroy(void *queue) {
    ENTER();
    free(queue);
    live[QUEUES]--;
    return 0;
}
int cnrtQueueSync(void *queue) {
    ENTER();
    say(" %s", queue ? "queue" : "NULL");
    return 0;
}
int cnrtMalloc(void **memory, size_t bytes) {
    ENTER();
    say(" %zu", bytes);
    *memory = malloc(bytes);
    live[BUFFERS]++;
    return 0;
}
#ifndef NO_FREE
int cnrtFree(void *memory) {
    ENTER();
    free(memory);
    live[BUFFERS]--;
    return 0;
}
#endif
int cnrtMemcpy(void *to, const void *from, size_t bytes, int direction) {
    ENTER();
    say(" %zu %d", bytes, direction);
    memcpy(to, from, bytes);
    return 0;
}
#endif

#ifdef NOTIFIERS
int cnrtNotifierCreate(void **notifier) {
    ENTER();
    *notifier = malloc(1);
    live[NOTIFIERS_LIVE]++;
    return 0;
}
int cnrtNotifierDestroy(void *notifier) {
    ENTER();
    free(notifier);
    live[NOTIFIERS_LIVE]--;
    return 0;
}
int cnrtPlaceNotifier(void *notifier, void *queue) {
    ENTER();
    say(" %s", notifier && queue ? "queue" : "NULL");
    return 0;
}
int cnrtWaitNotifier(void *notifier) {
    ENTER();
    return notifier == NULL;
}
int cnrtNotifierDuration(void *start, void *end, float *microseconds) {
    ENTER();
    *microseconds = start != end ? 1500.0f : 0.0f;
    return 0;
}
#endif

/* ---- operators ---- */

static void say_pointer(const char *name, const void *pointer) { say(" %s=%s", name, pointer ? "there" : "NULL"); }
static void say_desc(const char *name, const struct tensor *desc) {
    say(" %s", name);
    if (desc) say_longs(desc->dims, desc->rank);
    else say("=NULL");
}
static void say_tensor(const char *name, const struct tensor *desc, const void *data) {
    say_desc(name, desc);
    say("@%s", data ? "there" : "NULL");
}
static size_t bytes_of(const struct tensor *desc) {
    size_t bytes = desc->dtype == 1 ? 2 : 4; /* half, else four bytes */
    for (int i = 0; i < desc->rank; i++) bytes *= (size_t)desc->dims[i];
    return bytes;
}
static int ask(size_t *size) {
    if (size == NULL) return say(" size=NULL"), 3;
    *size = (size_t)wanted_workspace;
    return 0;
}

/* What every operator does at its end, by the behaviour that the test chose. */
static int behave(const void *input, void *workspace, size_t workspace_size, const struct tensor *desc, void *output) {
    unsigned char *bytes = output, *scratch = workspace;
    if (behaves("fill")) memset(output, 1, bytes_of(desc));
    if (behaves("past the end")) bytes[bytes_of(desc) + 2] = 0;
    if (behaves("before the start")) bytes[-8] = bytes[-4] = 0;
    if (behaves("change the input")) ((unsigned char *)input)[9] ^= 1;
    if (behaves("overrun the workspace")) scratch[workspace_size] = 0;
    if (behaves("follow the output")) bytes[100] = 0;
    if (behaves("use the workspace")) memset(workspace, 0, workspace_size);
    say(" first=%02x", scratch ? *scratch : 0);
    return behaves("answer 99") ? 99 : behaves("refuse") ? 7 : 0;
}

int mluOpGetMaskedIm2colForwardWorkspaceSize(struct handle *handle, struct tensor *feature, struct tensor *mask_h,
                                             struct tensor *mask_w, int kernel_h, int kernel_w, struct tensor *data_col,
                                             size_t *size) {
    ENTER();
    say_pointer("handle", handle);
    say_desc("feature", feature);
    say_desc("mask_h_idx", mask_h);
    say_desc("mask_w_idx", mask_w);
    say(" kernel=%d,%d", kernel_h, kernel_w);
    say_desc("data_col", data_col);
    return ask(size);
}
#ifndef NO_IM2COL
int mluOpMaskedIm2colForward(struct handle *handle, struct tensor *feature_desc, const void *feature,
                             struct tensor *mask_h_desc, const void *mask_h, struct tensor *mask_w_desc,
                             const void *mask_w, int kernel_h, int kernel_w, int pad_h, int pad_w, void *workspace,
                             size_t workspace_size, struct tensor *data_col_desc, void *data_col) {
    ENTER();
    say_pointer("handle", handle);
    say_tensor("feature", feature_desc, feature);
    say_tensor("mask_h_idx", mask_h_desc, mask_h);
    say_tensor("mask_w_idx", mask_w_desc, mask_w);
    say(" kernel=%d,%d pad=%d,%d", kernel_h, kernel_w, pad_h, pad_w);
    say_pointer("workspace", workspace);
    say(" size=%zu", workspace_size);
    say_tensor("data_col", data_col_desc, data_col);
    return behave(feature, workspace, workspace_size, data_col_desc, data_col);
}
#endif

int mluOpGetIndicePairsWorkspaceSize(struct handle *handle, struct sparse *sparse, struct tensor *indices,
                                     struct tensor *pairs, struct tensor *out, struct tensor *num, size_t *size) {
    ENTER();
    say_pointer("handle", handle);
    say_pointer("sparse", sparse);
    say_desc("indices", indices);
    say_desc("indice_pairs", pairs);
    say_desc("out_indices", out);
    say_desc("indice_num", num);
    return ask(size);
}
int mluOpGetIndicePairs(struct handle *handle, struct sparse *sparse, struct tensor *indices_desc, const void *indices,
                        void *workspace, size_t workspace_size, struct tensor *pairs_desc, void *pairs,
                        struct tensor *out_desc, void *out, struct tensor *num_desc, void *num) {
    ENTER();
    say_pointer("handle", handle);
    say_pointer("sparse", sparse);
    say_tensor("indices", indices_desc, indices);
    say_pointer("workspace", workspace);
    say(" size=%zu", workspace_size);
    say_tensor("indice_pairs", pairs_desc, pairs);
    say_tensor("out_indices", out_desc, out);
    say_tensor("indice_num", num_desc, num);
    if (sparse) sparse->num_act_out = 42;
    return behave(indices, workspace, workspace_size, num_desc, num);
}

int mluOpGetIndiceConvolutionBackwardDataWorkspaceSize(struct handle *handle, struct tensor *output_grad,
                                                       struct tensor *filters, struct tensor *pairs,
                                                       struct tensor *input_grad, const int64_t *indice_num,
                                                       int64_t inverse, size_t *size) {
    ENTER();
    say_pointer("handle", handle);
    say_desc("output_grad", output_grad);
    say_desc("filters", filters);
    say_desc("indice_pairs", pairs);
    say_desc("input_grad", input_grad);
    if (indice_num) say_longs(indice_num, 4);
    else say(" NULL");
    say(" inverse=%lld", (long long)inverse);
    return ask(size);
}
int mluOpIndiceConvolutionBackwardData(struct handle *handle, struct tensor *output_grad_desc, const void *output_grad,
                                       struct tensor *filters_desc, const void *filters, struct tensor *pairs_desc,
                                       const void *pairs, const int64_t *indice_num, int64_t inverse, int64_t sub_m,
                                       void *workspace, size_t workspace_size, struct tensor *input_grad_desc,
                                       void *input_grad) {
    ENTER();
    say_pointer("handle", handle);
    say_tensor("output_grad", output_grad_desc, output_grad);
    say_tensor("filters", filters_desc, filters);
    say_tensor("indice_pairs", pairs_desc, pairs);
    if (indice_num) say_longs(indice_num, 4);
    else say(" NULL");
    say(" inverse=%lld sub_m=%lld", (long long)inverse, (long long)sub_m);
    say_pointer("workspace", workspace);
    say(" size=%zu", workspace_size);
    say_tensor("input_grad", input_grad_desc, input_grad);
    if (behaves("change the host array")) ((int64_t *)indice_num)[1]++;
    return behave(output_grad, workspace, workspace_size, input_grad_desc, input_grad);
}

int mluOpVoxelPoolingForward(struct handle *handle, int batch, int points, int channels, int x, int y, int z,
                             struct tensor *geom_desc, const void *geom, struct tensor *features_desc,
                             const void *features, struct tensor *output_desc, void *output, struct tensor *memo_desc,
                             void *memo) {
    ENTER();
    say_pointer("handle", handle);
    say(" %d,%d,%d,%d,%d,%d", batch, points, channels, x, y, z);
    say_tensor("geom_xyz", geom_desc, geom);
    say_tensor("input_features", features_desc, features);
    say_tensor("output_features", output_desc, output);
    say_tensor("pos_memo", memo_desc, memo);
    return behave(geom, NULL, 0, output_desc, output);
}

#ifdef DOCUMENT_NAMES
int mluOpGetDynamicScatterBackwardWorkspaceSize(struct handle *handle, int reduce, struct tensor *feats,
                                                size_t *size) {
    ENTER();
    say_pointer("handle", handle);
    say(" reduce=%d", reduce);
    say_desc("feats", feats);
    return ask(size);
}
#define SCATTER mluOpDynamicScatterBackward
#else
int mluOpGetDynamicPointToVoxelBackwardWorkspaceSize(struct handle *handle, int reduce, struct tensor *grad_voxel_feats,
                                                     struct tensor *feats, struct tensor *voxel_feats,
                                                     struct tensor *map, struct tensor *count, struct tensor *number,
                                                     size_t *size) {
    ENTER();
    say_pointer("handle", handle);
    say(" reduce=%d", reduce);
    say_desc("grad_voxel_feats", grad_voxel_feats);
    say_desc("feats", feats);
    say_desc("voxel_feats", voxel_feats);
    say_desc("point2voxel_map", map);
    say_desc("voxel_points_count", count);
    say_desc("voxel_num", number);
    return ask(size);
}
#define SCATTER mluOpDynamicPointToVoxelBackward
#endif
int SCATTER(struct handle *handle, int reduce, struct tensor *grad_voxel_feats_desc, const void *grad_voxel_feats,
            struct tensor *feats_desc, const void *feats, struct tensor *voxel_feats_desc, const void *voxel_feats,
            struct tensor *map_desc, const void *map, struct tensor *count_desc, const void *count,
            struct tensor *number_desc, const void *number, void *workspace, size_t workspace_size,
            struct tensor *grad_feats_desc, void *grad_feats) {
    ENTER();
    say_pointer("handle", handle);
    say(" reduce=%d", reduce);
    say_tensor("grad_voxel_feats", grad_voxel_feats_desc, grad_voxel_feats);
    say_tensor("feats", feats_desc, feats);
    say_tensor("voxel_feats", voxel_feats_desc, voxel_feats);
    say_tensor("point2voxel_map", map_desc, map);
    say_tensor("voxel_points_count", count_desc, count);
    say_tensor("voxel_num", number_desc, number);
    say_pointer("workspace", workspace);
    say(" size=%zu", workspace_size);
    say_tensor("grad_feats", grad_feats_desc, grad_feats);
    return behave(feats, workspace, workspace_size, grad_feats_desc, grad_feats);
}
