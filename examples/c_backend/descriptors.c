/* Tensor and sparse-convolution descriptors. */
#include "descriptors.h"

#include <stdlib.h>
#include <string.h>

/* ---- tensors ---- */

mluOpStatus_t mluOpCreateTensorDescriptor(mluOpTensorDescriptor_t *desc) {
    if (desc == NULL) return MLUOP_STATUS_BAD_PARAM;
    *desc = calloc(1, sizeof **desc);
    return *desc == NULL ? MLUOP_STATUS_ALLOC_FAILED : MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpDestroyTensorDescriptor(mluOpTensorDescriptor_t desc) {
    if (desc == NULL) return MLUOP_STATUS_BAD_PARAM;
    free(desc);
    return MLUOP_STATUS_SUCCESS;
}

static mluOpStatus_t set_tensor(mluOpTensorDescriptor_t desc, mluOpTensorLayout_t layout, mluOpDataType_t dtype,
                                int rank, const int64_t dims[], const int64_t strides[]) {
    if (desc == NULL || rank < 0 || rank > MAX_RANK || (dims == NULL && rank > 0)) return MLUOP_STATUS_BAD_PARAM;
    for (int axis = 0; axis < rank; axis++) {
        if (dims[axis] < 0) return MLUOP_STATUS_BAD_PARAM;
    }
    struct mluOpTensorStruct made = {
        .layout = layout, .dtype = dtype, .rank = rank, .has_strides = strides != NULL};
    for (int axis = 0; axis < rank; axis++) {
        made.dims[axis] = dims[axis];
        if (strides != NULL) made.strides[axis] = strides[axis];
    }
    *desc = made;
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpSetTensorDescriptor(mluOpTensorDescriptor_t desc, mluOpTensorLayout_t layout, mluOpDataType_t dtype,
                                       int dimNb, const int dimSize[]) {
    int64_t dims[MAX_RANK] = {0};
    if (dimNb < 0 || dimNb > MAX_RANK || (dimSize == NULL && dimNb > 0)) return MLUOP_STATUS_BAD_PARAM;
    for (int axis = 0; axis < dimNb; axis++) dims[axis] = dimSize[axis];
    return set_tensor(desc, layout, dtype, dimNb, dims, NULL);
}

mluOpStatus_t mluOpSetTensorDescriptor_v2(mluOpTensorDescriptor_t desc, mluOpTensorLayout_t layout,
                                          mluOpDataType_t dtype, int dimNb, const int64_t dimSize[]) {
    return set_tensor(desc, layout, dtype, dimNb, dimSize, NULL);
}

mluOpStatus_t mluOpSetTensorDescriptorEx_v2(mluOpTensorDescriptor_t desc, mluOpTensorLayout_t layout,
                                            mluOpDataType_t dtype, int dimNb, const int64_t dimSize[],
                                            const int64_t dimStride[]) {
    if (dimStride == NULL && dimNb > 0) return MLUOP_STATUS_BAD_PARAM;
    return set_tensor(desc, layout, dtype, dimNb, dimSize, dimStride);
}

/* ---- sparse convolutions ---- */

mluOpStatus_t mluOpCreateSparseConvolutionDescriptor(mluOpSparseConvolutionDescriptor_t *desc) {
    if (desc == NULL) return MLUOP_STATUS_BAD_PARAM;
    *desc = calloc(1, sizeof **desc);
    return *desc == NULL ? MLUOP_STATUS_ALLOC_FAILED : MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpDestroySparseConvolutionDescriptor(mluOpSparseConvolutionDescriptor_t desc) {
    if (desc == NULL) return MLUOP_STATUS_BAD_PARAM;
    free(desc);
    return MLUOP_STATUS_SUCCESS;
}

static bool all_at_least(int least, const int values[SPACE_AXES]) {
    return values[0] >= least && values[1] >= least && values[2] >= least;
}

mluOpStatus_t mluOpSetSparseConvolutionDescriptor(mluOpSparseConvolutionDescriptor_t desc, int dimNb, int batch,
                                                  const int pad[], const int stride[], const int dilation[],
                                                  const int input_space[], const int filter_space[],
                                                  const int output_space[], int sub_m, int transpose, int inverse) {
    if (desc == NULL || pad == NULL || stride == NULL || dilation == NULL) return MLUOP_STATUS_BAD_PARAM;
    if (input_space == NULL || filter_space == NULL || output_space == NULL) return MLUOP_STATUS_BAD_PARAM;
    /* The arrays have dimNb - 2 entries, so nothing may be read from them before this. */
    if (dimNb != SPACE_AXES + 2 || batch <= 0 || transpose != 0 || inverse != 0) return MLUOP_STATUS_BAD_PARAM;
    if (!all_at_least(0, pad) || !all_at_least(1, stride) || !all_at_least(1, dilation)) return MLUOP_STATUS_BAD_PARAM;
    if (!all_at_least(1, input_space) || !all_at_least(1, filter_space) || !all_at_least(1, output_space)) {
        return MLUOP_STATUS_BAD_PARAM;
    }
    struct mluOpSparseConvolutionStruct made = {.is_set = true, .batch = batch, .sub_m = sub_m};
    memcpy(made.pad, pad, sizeof made.pad);
    memcpy(made.stride, stride, sizeof made.stride);
    memcpy(made.dilation, dilation, sizeof made.dilation);
    memcpy(made.input_space, input_space, sizeof made.input_space);
    memcpy(made.filter_space, filter_space, sizeof made.filter_space);
    memcpy(made.output_space, output_space, sizeof made.output_space);
    *desc = made;
    return MLUOP_STATUS_SUCCESS;
}

mluOpStatus_t mluOpGetSparseConvolutionNumActOut(mluOpSparseConvolutionDescriptor_t desc, int *num_act_out) {
    if (desc == NULL || num_act_out == NULL) return MLUOP_STATUS_BAD_PARAM;
    *num_act_out = desc->num_act_out;
    return MLUOP_STATUS_SUCCESS;
}
