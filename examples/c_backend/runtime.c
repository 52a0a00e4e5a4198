/* The runtime on host memory: one device, queues that are always done, notifiers that read the clock. */
#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mluops_host.h"

#define FAILED 1
#define ALIGNMENT 64 /* a cache line, and the widest vector */

struct cnrtQueueStruct {
    int device;
};

struct cnrtNotifierStruct {
    struct timespec placed;
};

int cnrtGetDeviceCount(unsigned *count) {
    if (count == NULL) return FAILED;
    *count = 1;
    return 0;
}

int cnrtSetDevice(int device) { return device == 0 ? 0 : FAILED; }

int cnrtQueueCreate(cnrtQueue_t *queue) {
    if (queue == NULL) return FAILED;
    *queue = calloc(1, sizeof **queue);
    return *queue == NULL ? FAILED : 0;
}

int cnrtQueueDestroy(cnrtQueue_t queue) {
    free(queue);
    return queue == NULL ? FAILED : 0;
}

int cnrtQueueSync(cnrtQueue_t queue) {
    (void)queue; /* every operator is done when it returns */
    return 0;
}

int cnrtMalloc(void **memory, size_t bytes) {
    if (memory == NULL || bytes > SIZE_MAX - ALIGNMENT) return FAILED;
    /* aligned_alloc wants a multiple of the alignment; 0 bytes still get an address of their own. */
    size_t rounded = (bytes + (bytes == 0) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    *memory = aligned_alloc(ALIGNMENT, rounded);
    return *memory == NULL ? FAILED : 0;
}

int cnrtFree(void *memory) {
    free(memory);
    return 0;
}

int cnrtMemcpy(void *to, const void *from, size_t bytes, cnrtMemTransDir_t direction) {
    if (direction > CNRT_MEM_TRANS_DIR_HOST2HOST || ((to == NULL || from == NULL) && bytes != 0)) return FAILED;
    if (bytes != 0) memcpy(to, from, bytes);
    return 0;
}

int cnrtNotifierCreate(cnrtNotifier_t *notifier) {
    if (notifier == NULL) return FAILED;
    *notifier = calloc(1, sizeof **notifier);
    return *notifier == NULL ? FAILED : 0;
}

int cnrtNotifierDestroy(cnrtNotifier_t notifier) {
    free(notifier);
    return notifier == NULL ? FAILED : 0;
}

int cnrtPlaceNotifier(cnrtNotifier_t notifier, cnrtQueue_t queue) {
    (void)queue;
    if (notifier == NULL) return FAILED;
    return clock_gettime(CLOCK_MONOTONIC, &notifier->placed) == 0 ? 0 : FAILED;
}

int cnrtWaitNotifier(cnrtNotifier_t notifier) { return notifier == NULL ? FAILED : 0; }

int cnrtNotifierDuration(cnrtNotifier_t start, cnrtNotifier_t end, float *microseconds) {
    if (start == NULL || end == NULL || microseconds == NULL) return FAILED;
    double seconds = difftime(end->placed.tv_sec, start->placed.tv_sec);
    long nanoseconds = end->placed.tv_nsec - start->placed.tv_nsec;
    *microseconds = (float)(seconds * 1e6 + (double)nanoseconds * 1e-3);
    return 0;
}
