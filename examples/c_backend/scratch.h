/* Memory that an operator needs while it computes. */
#ifndef SCRATCH_H
#define SCRATCH_H

#include <stddef.h>

/* The caller's workspace where it is large enough, else memory of our own; NULL when there is none. */
void *scratch_take(void *workspace, size_t workspace_size, size_t needed);
void scratch_release(void *scratch, void *workspace);

#endif
