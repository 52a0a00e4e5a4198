/* A kernel that returns while its thread goes on writing, for 150 ms. */
#include <pthread.h>
#include <time.h>

static volatile unsigned char *place;
static long size;

static void *count(void *unused) {
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (unsigned value = 0;; value++) {
        for (long i = 0; i < size; i++) place[i] = (unsigned char)(value >> 8 * (i % 4));
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((now.tv_sec - start.tv_sec) * 1000000000l + now.tv_nsec - start.tv_nsec > 150000000l) return unused;
    }
}

int count_in_a_thread(void *array, long bytes) {
    pthread_t thread;
    place = array;
    size = bytes;
    return pthread_create(&thread, NULL, count, NULL) || pthread_detach(thread);
}
