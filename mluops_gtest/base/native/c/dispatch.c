/* The functions that Python calls, and the choice of the kernels that this processor runs. */
#include "native.h"

#include <stddef.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#ifndef SOURCES
#define SOURCES ""
#endif

/* The order is that of base/native/library.py. */
enum level { BASELINE, AVX2, AVX512, LEVELS };

static int supported(enum level level) {
#if defined(__x86_64__)
    unsigned a, b, c = 0, d;
    __builtin_cpu_init();
    int f16c = __get_cpuid(1, &a, &b, &c, &d) && (c >> 29 & 1);
    int avx2 = __builtin_cpu_supports("avx2") && f16c;
    if (level == AVX2) return avx2;
    if (level == AVX512)
        return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
    return level == BASELINE;
}

static const kernels *kernels_of(enum level level) {
#if defined(__x86_64__)
    if (level == AVX512) return kernels_avx512;
    if (level == AVX2) return kernels_avx2;
#endif
    (void)level;
    return kernels_baseline;
}

static const kernels *chosen = NULL;

/* The digest of the sources that this was built from. */
EXPORTED const char *mluops_sources(void) { return SOURCES; }

/* Use the kernels of at most that level; returns the level that is used. */
EXPORTED int mluops_use(int most) {
    int level = most < LEVELS - 1 ? most : LEVELS - 1;
    while (level > 0 && !supported((enum level)level)) level--;
    chosen = kernels_of((enum level)level);
    return level;
}

EXPORTED void mluops_compare(int kind, const pair *given, figures *found, cell_sums *sums, uint8_t *equal) {
    chosen[kind].compare(given, found, sums, equal);
}

/* The same with one address: each that Python hands over takes as long as the comparison of a few parts. */
EXPORTED void mluops_compare_cell(int kind, one_cell *cell) {
    chosen[kind].compare(&cell->given, &cell->found, &cell->sums, &cell->equal);
}

EXPORTED int64_t mluops_weigh(int kind, const pair *given, cell_sums *sums, const uint8_t *wanted) {
    return chosen[kind].weigh(given, sums, wanted);
}

EXPORTED int64_t mluops_beyond(int kind, const pair *given, double threshold, double scale) {
    return chosen[kind].beyond(given, threshold, scale);
}
