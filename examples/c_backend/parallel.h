/* A loop spread over the processor's cores, or over as many threads as OMP_NUM_THREADS says. */
#ifndef PARALLEL_H
#define PARALLEL_H

#include <stdint.h>

/* Does the items begin <= item < end. */
typedef void (*parallel_work)(void *context, int64_t begin, int64_t end);

/* Splits 0 <= item < items into one contiguous range per thread and returns when all are done; `cost` is the number of
 * elementary steps in the whole loop: short loops stay on this thread. */
void parallel_for(int64_t items, int64_t cost, parallel_work work, void *context);

#endif
