/* Sums of rows that lie anywhere: what references scatter. */
#include "native.h"

#include <math.h>
#include <string.h>

/* So many rows before its turn a row is fetched: rows lie anywhere, and memory takes its time. */
enum { AHEAD = 4 };

/* Sum s adds, one after the other, the rows order[starts[s]], ... counts[s] of them, or their magnitudes. */
EXPORTED void mluops_sum_rows(const float *rows, int64_t width, const int64_t *order, const int64_t *starts,
                              const int64_t *counts, int64_t number, int magnitudes, double *sums) {
    for (int64_t s = 0; s < number; s++, sums += width) {
        const int64_t *chosen = order + starts[s];
        memset(sums, 0, (size_t)width * sizeof *sums);
        for (int64_t k = 0; k < counts[s]; k++) {
            const float *row = rows + chosen[k] * width;
            if (k + AHEAD < counts[s])
                for (int64_t i = 0; i < width; i += 16) __builtin_prefetch(rows + chosen[k + AHEAD] * width + i);
            if (magnitudes)
                for (int64_t i = 0; i < width; i++) sums[i] += fabs((double)row[i]);
            else
                for (int64_t i = 0; i < width; i++) sums[i] += (double)row[i];
        }
    }
}
