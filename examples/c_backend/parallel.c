#define _POSIX_C_SOURCE 200809L

#include "parallel.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#define MAX_THREADS 16
/* Steps that outweigh starting and joining a thread (some 50 us). */
#define STEPS_PER_THREAD 200000

struct job {
    parallel_work work;
    void *context;
    int64_t begin, end;
    pthread_t thread;
    bool started;
};

static void *run(void *argument) {
    struct job *job = argument;
    job->work(job->context, job->begin, job->end);
    return NULL;
}

static int64_t smaller(int64_t left, int64_t right) { return left < right ? left : right; }

/* As many as OMP_NUM_THREADS says, else one per core. */
static int64_t allowed_threads(void) {
    const char *told = getenv("OMP_NUM_THREADS");
    long count = told == NULL ? 0 : strtol(told, NULL, 10);
    return smaller(count > 0 ? count : sysconf(_SC_NPROCESSORS_ONLN), MAX_THREADS);
}

static int64_t thread_count(int64_t items, int64_t cost) {
    int64_t worthwhile = smaller(smaller(allowed_threads(), items), cost / STEPS_PER_THREAD);
    return worthwhile > 1 ? worthwhile : 1;
}

void parallel_for(int64_t items, int64_t cost, parallel_work work, void *context) {
    struct job jobs[MAX_THREADS];
    int64_t count = thread_count(items, cost);
    for (int64_t i = 0; i < count; i++) {
        jobs[i] = (struct job){.work = work, .context = context};
        jobs[i].begin = items / count * i + smaller(i, items % count);
        jobs[i].end = items / count * (i + 1) + smaller(i + 1, items % count);
    }
    for (int64_t i = 1; i < count; i++) {
        jobs[i].started = pthread_create(&jobs[i].thread, NULL, run, &jobs[i]) == 0;
    }
    run(&jobs[0]);
    for (int64_t i = 1; i < count; i++) {
        if (jobs[i].started) {
            pthread_join(jobs[i].thread, NULL);
        } else {
            run(&jobs[i]); /* no thread to be had */
        }
    }
}
