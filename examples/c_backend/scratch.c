#include "scratch.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

void *scratch_take(void *workspace, size_t workspace_size, size_t needed) {
    if (workspace != NULL && workspace_size >= needed && (uintptr_t)workspace % alignof(max_align_t) == 0) {
        return workspace;
    }
    return malloc(needed > 0 ? needed : 1);
}

void scratch_release(void *scratch, void *workspace) {
    if (scratch != workspace) free(scratch);
}
