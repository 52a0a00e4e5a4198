/* Where and how much two float arrays differ: a histogram of relative errors, and the largest error of every cell of a
 * coarse map. One read, one division per unequal element. */
#include "native.h"

#include <math.h>
#include <string.h>

/* `count` elements from flat index `start` on; a line of the map has `width` elements. `down` and `across` give the first
 * cell of each line and the cell of each place within a line; `counts` has `bins` entries, bin 0 holds the exponent
 * `lowest` and everything below it. */
EXPORTED void mluops_profile(const float *evaluated, const float *baseline, int64_t start, int64_t count, int64_t width,
                             const int64_t *down, const int64_t *across, int64_t bins, int64_t lowest, double epsilon,
                             int64_t *counts, double *cells) {
    int64_t line = start / width, place = start % width;
    for (int64_t i = 0; i < count; line++, place = 0) {
        double *of_line = cells + down[line];
        int64_t end = i + (width - place) < count ? i + (width - place) : count;
        for (; i < end; i++, place++) {
            float e = evaluated[i], b = baseline[i];
            if (e == b || (isnan(e) && isnan(b))) continue;
            double size = fabs((double)b), error = fabs((double)e - (double)b) / (size + epsilon);
            if (!isfinite(e) || !isfinite(b)) error = INFINITY;
            uint64_t bits;
            memcpy(&bits, &error, sizeof bits);
            int64_t bin = (int64_t)(bits >> 52) - 1023 - lowest;
            counts[bin < 0 ? 0 : bin >= bins ? bins - 1 : bin]++;
            double *cell = of_line + across[place];
            if (error > *cell) *cell = error;
        }
    }
}
