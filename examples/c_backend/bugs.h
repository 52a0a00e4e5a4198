/* Deliberate mistakes, one per -DBUG_..., to see what the harness says of each; without such a flag nothing is here.
 *
 * Every operator calls BUGS_BEFORE when its checks are done, BUGS_AFTER when it has computed, and BUGS_STATUS when it
 * answers; every workspace query begins with BUGS_QUERY. A library of your own does without this file and these lines.
 * BUG_RACE is where the threads are: in voxel_pooling_forward.c. */
#ifndef BUGS_H
#define BUGS_H

#if defined(BUG_PAST_END) || defined(BUG_WRITES_INPUT) || defined(BUG_DOUBLE_FREE) || defined(BUG_SEGFAULT) ||         \
    defined(BUG_ENDLESS_LOOP) || defined(BUG_WRONG_STATUS) || defined(BUG_UNINITIALISED) ||                           \
    defined(BUG_WORKSPACE_OVERRUN) || defined(BUG_TILE_EDGE) || defined(BUG_READS_PAST_END) ||                        \
    defined(BUG_READS_BEFORE_START)

#include <stdlib.h>
#include <string.h>

#include "mluops_host.h"

#define BUG_TILE 64 /* elements of the tile whose edge BUG_TILE_EDGE mistakes */

struct bug_scene {
    unsigned char *output;
    size_t width, count; /* bytes per element, elements */
    const void *input;
    unsigned char *workspace;
    size_t workspace_size;
    unsigned char last[8]; /* the last element before the call */
};

static inline void bug_flip(const volatile void *byte) { *(volatile unsigned char *)byte ^= 0xffu; }

static inline void bug_read(const volatile unsigned char *byte) { (void)*byte; }

static inline void bug_before(struct bug_scene *scene) {
#if defined(BUG_SEGFAULT)
    volatile int *volatile nowhere = NULL;
    *nowhere = 1;
#elif defined(BUG_ENDLESS_LOOP)
    volatile int waiting = 1;
    while (waiting) continue;
#endif
    memcpy(scene->last, scene->output + (scene->count - 1) * scene->width, scene->width);
}

static inline void bug_after(const struct bug_scene *scene) {
    (void)scene;
#if defined(BUG_PAST_END)
    bug_flip(scene->output + scene->count * scene->width);
#elif defined(BUG_READS_PAST_END)
    bug_read(scene->output + scene->count * scene->width);
#elif defined(BUG_READS_BEFORE_START)
    bug_read((const unsigned char *)scene->input - 1);
#elif defined(BUG_WRITES_INPUT)
    bug_flip(scene->input);
#elif defined(BUG_DOUBLE_FREE)
    void *volatile scratch = malloc(BUG_TILE);
    free(scratch);
    free(scratch);
#elif defined(BUG_UNINITIALISED)
    memcpy(scene->output + (scene->count - 1) * scene->width, scene->last, scene->width);
#elif defined(BUG_WORKSPACE_OVERRUN)
    if (scene->workspace != NULL) bug_flip(scene->workspace + scene->workspace_size);
#elif defined(BUG_TILE_EDGE)
    /* The first element of the second tile repeats the last one of the first. */
    unsigned char *edge = scene->output + BUG_TILE * scene->width;
    if (scene->count > BUG_TILE) memcpy(edge, edge - scene->width, scene->width);
#endif
}

static inline mluOpStatus_t bug_status(mluOpStatus_t status) {
#if defined(BUG_WRONG_STATUS)
    return status == MLUOP_STATUS_SUCCESS ? MLUOP_STATUS_EXECUTION_FAILED : MLUOP_STATUS_SUCCESS;
#else
    return status;
#endif
}

#define BUGS_BEFORE(output, width, count, input, workspace, workspace_size)                                   \
    struct bug_scene bug_scene = {(void *)(output), (width),          (size_t)(count), (input), (workspace), \
                                  (workspace_size), {0}};                                                    \
    bug_before(&bug_scene)
#define BUGS_AFTER() bug_after(&bug_scene)
#define BUGS_STATUS(status) bug_status(status)

#else

#define BUGS_BEFORE(output, width, count, input, workspace, workspace_size) ((void)0)
#define BUGS_AFTER() ((void)0)
#define BUGS_STATUS(status) (status)

#endif

/* `desc` is one that the query takes, and of a tensor that may be empty. */
#if defined(BUG_QUERY_SUCCESS)
#define BUGS_QUERY(desc, workspace_size) return MLUOP_STATUS_SUCCESS
#elif defined(BUG_QUERY_DESCRIPTOR)
/* One check is missing. */
#define BUGS_QUERY(desc, workspace_size) REQUIRE_OR((desc) != NULL, MLUOP_STATUS_SUCCESS)
#elif defined(BUG_QUERY_ORDER)
/* Strides come first. */
#define BUGS_QUERY(desc, workspace_size) \
    REQUIRE_OR((desc) == NULL || !is_strided(desc), MLUOP_STATUS_NOT_SUPPORTED)
#elif defined(BUG_QUERY_SIZE)
#define BUGS_QUERY(desc, workspace_size) REQUIRE_OR((workspace_size) != NULL, MLUOP_STATUS_SUCCESS)
#elif defined(BUG_QUERY_EMPTY)
#define BUGS_QUERY(desc, workspace_size) REQUIRE((desc) == NULL || !is_empty(desc))
#else
#define BUGS_QUERY(desc, workspace_size) ((void)0)
#endif
#endif
