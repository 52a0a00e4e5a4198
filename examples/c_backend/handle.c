/* The handle: queue, and which device this host stands for. */
#include <stdlib.h>

#include "descriptors.h"

#define DEFAULT_ARCH 590
#define DEFAULT_NRAM_BYTES 655360

mluOpStatus_t mluOpCreate(mluOpHandle_t *handle) {
    if (handle == NULL) return MLUOP_STATUS_BAD_PARAM;
    *handle = malloc(sizeof **handle);
    if (*handle == NULL) return MLUOP_STATUS_ALLOC_FAILED;
    **handle = (struct mluOpContext){.arch = DEFAULT_ARCH, .nram_bytes = DEFAULT_NRAM_BYTES};
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpDestroy(mluOpHandle_t handle) {
    if (handle == NULL) return MLUOP_STATUS_BAD_PARAM;
    free(handle);
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpSetQueue(mluOpHandle_t handle, cnrtQueue_t queue) {
    if (handle == NULL) return MLUOP_STATUS_BAD_PARAM;
    handle->queue = queue;
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpGetQueue(mluOpHandle_t handle, cnrtQueue_t *queue) {
    if (handle == NULL || queue == NULL) return MLUOP_STATUS_BAD_PARAM;
    *queue = handle->queue;
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpTestSetArch(mluOpHandle_t handle, int arch) {
    if (handle == NULL) return MLUOP_STATUS_BAD_PARAM;
    handle->arch = arch;
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpTestSetNramBytes(mluOpHandle_t handle, int64_t bytes) {
    if (handle == NULL || bytes < 0) return MLUOP_STATUS_BAD_PARAM;
    handle->nram_bytes = bytes;
    return MLUOP_STATUS_SUCCESS;
}

const char *mluOpGetErrorString(mluOpStatus_t status) {
    switch (status) {
        case MLUOP_STATUS_SUCCESS: return "MLUOP_STATUS_SUCCESS";
        case MLUOP_STATUS_NOT_INITIALIZED: return "MLUOP_STATUS_NOT_INITIALIZED";
        case MLUOP_STATUS_ALLOC_FAILED: return "MLUOP_STATUS_ALLOC_FAILED";
        case MLUOP_STATUS_BAD_PARAM: return "MLUOP_STATUS_BAD_PARAM";
        case MLUOP_STATUS_INTERNAL_ERROR: return "MLUOP_STATUS_INTERNAL_ERROR";
        case MLUOP_STATUS_ARCH_MISMATCH: return "MLUOP_STATUS_ARCH_MISMATCH";
        case MLUOP_STATUS_EXECUTION_FAILED: return "MLUOP_STATUS_EXECUTION_FAILED";
        case MLUOP_STATUS_NOT_SUPPORTED: return "MLUOP_STATUS_NOT_SUPPORTED";
        case MLUOP_STATUS_NUMERICAL_OVERFLOW: return "MLUOP_STATUS_NUMERICAL_OVERFLOW";
    }
    return "not a status of this library";
}

void mluOpGetLibVersion(int *major, int *minor, int *patch) {
    if (major != NULL) *major = 1;
    if (minor != NULL) *minor = 0;
    if (patch != NULL) *patch = 0;
}
