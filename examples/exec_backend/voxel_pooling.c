/* A kernel behind exec: in C11. It reads call.txt, so it needs no JSON reader. Try it from the checkout:
 *
 *   cc -std=c11 -O2 -o voxel_pooling examples/exec_backend/voxel_pooling.c
 *   mluops-test run --op voxel_pooling_forward --backend exec:./voxel_pooling
 *
 * Started as `voxel_pooling FOLDER` it works on one call; without an argument it serves: a line with a folder comes
 * in, the line "done" goes out (mluops-test run … --serve). Raw files are little-endian, and so must the host be.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, BAD_PARAM = 3, INTERNAL_ERROR = 4, ARCH_MISMATCH = 5, NOT_SUPPORTED = 7 };
enum { OLDEST_ARCH = 370, MAX_RANK = 8, PATH_SIZE = 4096 };
static const int64_t LARGE = INT64_C(1) << 31;

struct tensor {
  bool present, is_null, has_strides;
  char dtype[32], data[256];
  int rank;
  int64_t bytes, dims[MAX_RANK], strides[MAX_RANK];
};

enum { GEOM_XYZ, INPUT_FEATURES, OUTPUT_FEATURES, POS_MEMO, TENSORS };
enum { BATCH_SIZE, NUM_POINTS, NUM_CHANNELS, NUM_VOXEL_X, NUM_VOXEL_Y, NUM_VOXEL_Z, PARAMS };
static const char *const TENSOR_IDS[TENSORS] = {"geom_xyz", "input_features", "output_features", "pos_memo"};
static const char *const PARAM_NAMES[PARAMS] = {"batch_size",  "num_points",  "num_channels",
                                                "num_voxel_x", "num_voxel_y", "num_voxel_z"};

struct call {
  char op[128];
  bool has_handle;
  int arch;
  int64_t params[PARAMS];
  struct tensor tensors[TENSORS];
};

/* ---- the folder ---- */

static FILE *open_in(const char *folder, const char *name, const char *mode) {
  char path[PATH_SIZE];
  int length = snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = length > 0 && (size_t)length < sizeof path ? fopen(path, mode) : NULL;
  if (file == NULL) fprintf(stderr, "cannot open %s/%s\n", folder, name);
  return file;
}

static int find(const char *const *names, int count, const char *name) {
  for (int i = 0; i < count; i++)
    if (strcmp(names[i], name) == 0) return i;
  return -1;
}

/* Read up to MAX_RANK numbers; those of a higher rank are not needed, as no check lets them pass. */
static void read_numbers(const char *text, int64_t *numbers) {
  char *end;
  for (int i = 0; i < MAX_RANK; i++, text = end) {
    numbers[i] = strtoll(text, &end, 10);
    if (end == text) return;
  }
}

/* input|output ID DTYPE LAYOUT DATA BYTES RANK DIM…   or   input|output ID absent */
static void read_tensor(const char *rest, struct tensor *tensor) {
  int used = 0;
  if (sscanf(rest, "%31s %*s %255s %" SCNd64 " %d%n", tensor->dtype, tensor->data, &tensor->bytes, &tensor->rank,
             &used) < 4)
    return;
  tensor->present = true;
  tensor->is_null = strcmp(tensor->data, "null") == 0;
  read_numbers(rest + used, tensor->dims);
}

static bool read_call(const char *folder, struct call *call) {
  static char line[1 << 16], word[128], name[128];
  FILE *file = open_in(folder, "call.txt", "r");
  if (file == NULL) return false;
  memset(call, 0, sizeof *call);
  while (fgets(line, sizeof line, file) != NULL) {
    int used = 0;
    if (sscanf(line, "%127s %127s%n", word, name, &used) < 2) continue;
    const char *rest = line + used;
    int tensor = find(TENSOR_IDS, TENSORS, name), param = find(PARAM_NAMES, PARAMS, name);
    if (strcmp(word, "operator") == 0)
      memcpy(call->op, name, sizeof call->op);
    else if (strcmp(word, "handle") == 0)
      call->has_handle = sscanf(name, "%d", &call->arch) == 1;
    else if (strcmp(word, "param") == 0 && param >= 0)
      call->params[param] = strtoll(rest, NULL, 10);
    else if ((strcmp(word, "input") == 0 || strcmp(word, "output") == 0) && tensor >= 0)
      read_tensor(rest, &call->tensors[tensor]);
    else if (strcmp(word, "strides") == 0 && tensor >= 0) {
      call->tensors[tensor].has_strides = true;
      read_numbers(rest, call->tensors[tensor].strides);
    }
  }
  fclose(file);
  return true;
}

static void *read_input(const char *folder, const struct tensor *tensor) {
  FILE *file = open_in(folder, tensor->data, "rb");
  if (file == NULL) return NULL;
  void *values = malloc((size_t)tensor->bytes);
  if (values != NULL && fread(values, 1, (size_t)tensor->bytes, file) != (size_t)tensor->bytes) {
    free(values);
    values = NULL;
  }
  fclose(file);
  return values;
}

static bool write_output(const char *folder, const struct tensor *tensor, const void *values) {
  FILE *file = open_in(folder, tensor->data, "wb");
  if (file == NULL) return false;
  bool whole = fwrite(values, 1, (size_t)tensor->bytes, file) == (size_t)tensor->bytes;
  return fclose(file) == 0 && whole;
}

/* ---- the operator ---- */

static bool is_large(const struct tensor *tensor) {
  int64_t count = 1;
  for (int i = 0; i < tensor->rank; i++) {
    if (tensor->dims[i] >= LARGE) return true;
    count *= tensor->dims[i];
    if (count >= LARGE) return true;
  }
  return false;
}

/* The stride of an axis of length 1 is never taken, so it may be any number. */
static bool is_strided(const struct tensor *tensor) {
  int64_t dense = 1;
  for (int i = tensor->rank - 1; tensor->has_strides && i >= 0; i--) {
    if (tensor->dims[i] != 1 && tensor->strides[i] != dense) return true;
    dense *= tensor->dims[i];
  }
  return false;
}

static bool has(const struct tensor *tensor, const char *dtype, int rank) {
  return strcmp(tensor->dtype, dtype) == 0 && tensor->rank == rank;
}

/* The parameter checks in the order of the operator's document. */
static int check(const struct call *call) {
  const struct tensor *t = call->tensors;
  const int64_t *p = call->params;
  if (!call->has_handle) return BAD_PARAM;
  for (int i = 0; i < TENSORS; i++)
    if (!t[i].present) return BAD_PARAM;
  if (!has(&t[GEOM_XYZ], "int32", 3) || !has(&t[INPUT_FEATURES], "float", 3) ||
      !has(&t[OUTPUT_FEATURES], "float", 4) || !has(&t[POS_MEMO], "int32", 3))
    return BAD_PARAM;
  const int64_t geometry[] = {p[BATCH_SIZE], p[NUM_POINTS], 3};
  const int64_t features[] = {p[BATCH_SIZE], p[NUM_POINTS], p[NUM_CHANNELS]};
  const int64_t cells[] = {p[BATCH_SIZE], p[NUM_VOXEL_Y], p[NUM_VOXEL_X], p[NUM_CHANNELS]};
  if (memcmp(t[GEOM_XYZ].dims, geometry, sizeof geometry) != 0 ||
      memcmp(t[INPUT_FEATURES].dims, features, sizeof features) != 0 ||
      memcmp(t[OUTPUT_FEATURES].dims, cells, sizeof cells) != 0 ||
      memcmp(t[POS_MEMO].dims, geometry, sizeof geometry) != 0)
    return BAD_PARAM;
  for (int i = 0; i < PARAMS; i++)
    if (p[i] <= 0) return BAD_PARAM;
  for (int i = 0; i < TENSORS; i++)
    if (is_large(&t[i]) || is_strided(&t[i])) return NOT_SUPPORTED;
  for (int i = 0; i < TENSORS; i++)
    if (t[i].is_null) return BAD_PARAM;
  return call->arch < OLDEST_ARCH ? ARCH_MISMATCH : SUCCESS;
}

static void pool(const int64_t *p, const int32_t *geometry, const float *features, float *cells, int32_t *memo) {
  for (int64_t point = 0; point < p[BATCH_SIZE] * p[NUM_POINTS]; point++) {
    const int32_t x = geometry[3 * point], y = geometry[3 * point + 1], z = geometry[3 * point + 2];
    const int64_t batch = point / p[NUM_POINTS];
    const bool inside = x >= 0 && x < p[NUM_VOXEL_X] && y >= 0 && y < p[NUM_VOXEL_Y] && z >= 0 && z < p[NUM_VOXEL_Z];
    memo[3 * point] = inside ? (int32_t)batch : -1;
    memo[3 * point + 1] = inside ? y : -1;
    memo[3 * point + 2] = inside ? x : -1;
    if (!inside) continue;
    float *cell = cells + ((batch * p[NUM_VOXEL_Y] + y) * p[NUM_VOXEL_X] + x) * p[NUM_CHANNELS];
    for (int64_t channel = 0; channel < p[NUM_CHANNELS]; channel++)
      cell[channel] += features[point * p[NUM_CHANNELS] + channel];
  }
}

/* Inputs from their files, the sums, outputs into theirs. */
static int compute(const char *folder, const struct call *call) {
  const struct tensor *t = call->tensors;
  int32_t *geometry = read_input(folder, &t[GEOM_XYZ]);
  float *features = read_input(folder, &t[INPUT_FEATURES]);
  float *cells = calloc(1, (size_t)t[OUTPUT_FEATURES].bytes);
  int32_t *memo = malloc((size_t)t[POS_MEMO].bytes);
  bool written = false;
  if (geometry != NULL && features != NULL && cells != NULL && memo != NULL) {
    pool(call->params, geometry, features, cells, memo);
    written = write_output(folder, &t[OUTPUT_FEATURES], cells) && write_output(folder, &t[POS_MEMO], memo);
  }
  free(geometry);
  free(features);
  free(cells);
  free(memo);
  return written ? SUCCESS : INTERNAL_ERROR;
}

/* ---- the program ---- */

static bool work(const char *folder) {
  static struct call call;
  if (!read_call(folder, &call)) return false;
  FILE *result = open_in(folder, "result.json", "w");
  if (result == NULL) return false;
  if (strcmp(call.op, "voxel_pooling_forward") != 0) {
    fprintf(result, "{\"declined\": \"no kernel for %s\"}\n", call.op);
  } else {
    int status = check(&call);
    if (status == SUCCESS) status = compute(folder, &call);
    fprintf(result, "{\"status\": %d}\n", status);
  }
  return fclose(result) == 0;
}

int main(int argc, char **argv) {
  if (argc > 1) return work(argv[1]) ? 0 : 1;
  char folder[PATH_SIZE];
  while (fgets(folder, sizeof folder, stdin) != NULL) {
    folder[strcspn(folder, "\n")] = '\0';
    if (!work(folder)) return 1;
    puts("done");
    fflush(stdout);
  }
  return 0;
}
