/* Plain loops, one thread, as a careful programmer writes them first; benchmarks/plain_c.py compiles them. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* diff1, diff2, diff3 and diff3_2 with the count of pairs that are not finite. */
void formulas(const float *e, const float *b, int64_t n, double *out) {
  double differences = 0, sizes = 0, squares = 0, square_sizes = 0, relative = 0, largest = 0;
  int64_t odd = 0;
  for (int64_t i = 0; i < n; i++) {
    double difference = fabs((double)e[i] - (double)b[i]), size = fabs((double)b[i]);
    if (!isfinite(e[i]) || !isfinite(b[i])) {
      odd++;
      continue;
    }
    differences += difference;
    sizes += size;
    squares += difference * difference;
    square_sizes += size * size;
    double one = size >= 1e-6 ? difference / (size + 1e-9) : difference;
    relative = one > relative ? one : relative;
    largest = difference > largest ? difference : largest;
  }
  out[0] = differences / (sizes + 1e-9);
  out[1] = sqrt(squares / (square_sizes + 1e-9));
  out[2] = relative;
  out[3] = largest;
  out[4] = (double)odd;
}

/* Numbers between spaces. */
void parse_floats(const char *text, int64_t n, float *out) {
  char *end;
  for (int64_t i = 0; i < n; i++) {
    out[i] = strtof(text, &end);
    text = end;
  }
}

/* voxel_pooling_forward: sums in double, rounded once. `sums` has room for every cell and channel, all 0. */
void pool(const int32_t *geometry, const float *features, int64_t batches, int64_t points, int64_t channels,
          int64_t width, int64_t height, int64_t depth, double *sums, float *out, int32_t *memo) {
  for (int64_t p = 0; p < batches * points; p++) {
    int32_t x = geometry[3 * p], y = geometry[3 * p + 1], z = geometry[3 * p + 2];
    memo[3 * p] = memo[3 * p + 1] = memo[3 * p + 2] = -1;
    if (x < 0 || x >= width || y < 0 || y >= height || z < 0 || z >= depth) continue;
    memo[3 * p] = (int32_t)(p / points), memo[3 * p + 1] = y, memo[3 * p + 2] = x;
    double *cell = sums + ((p / points * height + y) * width + x) * channels;
    for (int64_t c = 0; c < channels; c++) cell[c] += features[p * channels + c];
  }
  for (int64_t i = 0; i < batches * height * width * channels; i++) out[i] = (float)sums[i];
}

/* dynamic_scatter_backward: the first point with the voxel's value gets the gradient. `claimed` and `out` are all 0. */
void scatter(const float *gradients, const float *feats, const float *voxel_feats, const int32_t *voxel_of,
             int64_t points, int64_t voxels, int64_t channels, uint8_t *claimed, float *out) {
  for (int64_t p = 0; p < points; p++) {
    int64_t v = voxel_of[p];
    if (v < 0 || v >= voxels) continue;
    for (int64_t c = 0; c < channels; c++) {
      int64_t at = v * channels + c;
      if (claimed[at] || feats[p * channels + c] != voxel_feats[at]) continue;
      claimed[at] = 1;
      out[p * channels + c] = gradients[at];
    }
  }
}

/* three_interpolate_forward: the sum of three products in double, rounded once. */
void interpolate(const float *features, const int32_t *indices, const float *weights, int64_t batches, int64_t channels,
                 int64_t cells, int64_t points, float *out) {
  for (int64_t b = 0; b < batches; b++, indices += 3 * points, weights += 3 * points)
    for (int64_t c = 0; c < channels; c++, features += cells, out += points)
      for (int64_t n = 0; n < points; n++) {
        double sum = 0;
        for (int64_t t = 3 * n; t < 3 * n + 3; t++) sum += (double)features[indices[t]] * (double)weights[t];
        out[n] = (float)sum;
      }
}

/* three_interpolate_backward: sums in double, rounded once. `sums` has room for the cells of one channel. */
void interpolate_back(const float *gradients, const int32_t *indices, const float *weights, int64_t batches,
                      int64_t channels, int64_t cells, int64_t points, double *sums, float *out) {
  for (int64_t b = 0; b < batches; b++, indices += 3 * points, weights += 3 * points)
    for (int64_t c = 0; c < channels; c++, gradients += points, out += cells) {
      memset(sums, 0, (size_t)cells * sizeof *sums);
      for (int64_t t = 0; t < 3 * points; t++) sums[indices[t]] += (double)gradients[t / 3] * (double)weights[t];
      for (int64_t i = 0; i < cells; i++) out[i] = (float)sums[i];
    }
}

static double distance(const float *a, const float *b) {
  double x = (double)a[0] - b[0], y = (double)a[1] - b[1], z = (double)a[2] - b[2];
  return x * x + y * y + z * z;
}

/* three_nn_forward: every query against every point; equals by index. */
void nearest(const float *queries, const float *points, int64_t batches, int64_t count, int64_t of_batch, int32_t *out) {
  for (int64_t b = 0; b < batches; b++, points += 3 * of_batch)
    for (int64_t q = 0; q < count; q++, queries += 3, out += 3) {
      double first = INFINITY, second = INFINITY, third = INFINITY;
      for (int64_t p = 0; p < of_batch; p++) {
        double d = distance(queries, points + 3 * p);
        if (d >= third) continue;
        third = d, out[2] = (int32_t)p;
        if (d >= second) continue;
        third = second, out[2] = out[1], second = d, out[1] = (int32_t)p;
        if (d >= first) continue;
        second = first, out[1] = out[0], first = d, out[0] = (int32_t)p;
      }
    }
}

/* ball_query: the first `most` points between the squared radii; the first of them again behind the last. `out` is all 0. */
void ball(const float *centres, const float *points, int64_t batches, int64_t count, int64_t of_batch, int64_t most,
          float low, float high, int32_t *out) {
  for (int64_t b = 0; b < batches; b++, points += 3 * of_batch)
    for (int64_t c = 0; c < count; c++, centres += 3, out += most) {
      int64_t found = 0;
      for (int64_t p = 0; p < of_batch && found < most; p++) {
        double d = distance(centres, points + 3 * p);
        if (d != 0 && (d < low || d >= high)) continue;
        for (int64_t i = found ? most : 0; i < most; i++) out[i] = (int32_t)p;
        out[found++] = (int32_t)p;
      }
    }
}

/* masked_im2col_forward: every window element copied, 0 outside of the image. */
void columns(const float *image, const int32_t *rows, const int32_t *cols, int64_t channels, int64_t height,
             int64_t width, int64_t masks, int64_t kernel_h, int64_t kernel_w, int64_t pad_h, int64_t pad_w,
             float *out) {
  for (int64_t c = 0; c < channels; c++)
    for (int64_t i = 0; i < kernel_h; i++)
      for (int64_t j = 0; j < kernel_w; j++)
        for (int64_t m = 0; m < masks; m++) {
          int64_t y = rows[m] - pad_h + i, x = cols[m] - pad_w + j;
          int inside = y >= 0 && y < height && x >= 0 && x < width;
          *out++ = inside ? image[(c * height + y) * width + x] : 0;
        }
}

/* get_indice_pairs by a dense grid of rows + 1, all 0. `three` has 3 numbers each of kernel, stride, pad, dilation and
 * output space; `pairs` is all -1. */
void pair(const int32_t *sites, int64_t count, const int64_t *three, int64_t batches, int64_t sub_m, int32_t *grid,
          int32_t *pairs) {
  const int64_t *kernel = three, *stride = three + 3, *pad = three + 6, *dilation = three + 9, *space = three + 12;
  int64_t cells = space[0] * space[1] * space[2];
  for (int pass = sub_m ? 1 : 0; pass < 2; pass++) {
    if (sub_m)
      for (int64_t s = 0; s < count; s++) {
        const int32_t *at = sites + 4 * s;
        grid[at[0] * cells + (at[1] * space[1] + at[2]) * space[2] + at[3]] = (int32_t)s + 1;
      }
    int64_t offset = 0;
    for (int64_t i = 0; i < kernel[0]; i++)
      for (int64_t j = 0; j < kernel[1]; j++)
        for (int64_t k = 0; k < kernel[2]; k++, offset++) {
          int32_t *ins = pairs + 2 * offset * count, *outs = ins + count;
          for (int64_t s = 0; s < count; s++) {
            const int32_t *at = sites + 4 * s;
            int64_t z = at[1] + pad[0] - i * dilation[0], y = at[2] + pad[1] - j * dilation[1],
                    x = at[3] + pad[2] - k * dilation[2];
            if (z < 0 || y < 0 || x < 0 || z % stride[0] || y % stride[1] || x % stride[2]) continue;
            z /= stride[0], y /= stride[1], x /= stride[2];
            if (z >= space[0] || y >= space[1] || x >= space[2]) continue;
            int32_t *cell = grid + at[0] * cells + (z * space[1] + y) * space[2] + x;
            if (!pass) *cell = 1;
            else if (*cell) *ins++ = (int32_t)s, *outs++ = *cell - 1;
          }
        }
    if (!sub_m && !pass) {
      int32_t row = 0;
      for (int64_t i = 0; i < batches * cells; i++)
        if (grid[i]) grid[i] = ++row;
    }
  }
}
