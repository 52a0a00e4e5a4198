/* The C API of the operators and of the runtime under them, here on host memory.
 *
 * Values, types and argument orders are those of the device library, so a caller cannot tell the two apart. */
#ifndef MLUOPS_HOST_H
#define MLUOPS_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define MLUOP_API __attribute__((visibility("default")))
#else
#define MLUOP_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    MLUOP_STATUS_SUCCESS = 0,
    MLUOP_STATUS_NOT_INITIALIZED = 1,
    MLUOP_STATUS_ALLOC_FAILED = 2,
    MLUOP_STATUS_BAD_PARAM = 3,
    MLUOP_STATUS_INTERNAL_ERROR = 4,
    MLUOP_STATUS_ARCH_MISMATCH = 5,
    MLUOP_STATUS_EXECUTION_FAILED = 6,
    MLUOP_STATUS_NOT_SUPPORTED = 7,
    MLUOP_STATUS_NUMERICAL_OVERFLOW = 8
} mluOpStatus_t;

typedef enum {
    MLUOP_LAYOUT_NCHW = 0,
    MLUOP_LAYOUT_NHWC = 1,
    MLUOP_LAYOUT_HWCN = 2,
    MLUOP_LAYOUT_NDHWC = 3,
    MLUOP_LAYOUT_ARRAY = 4,
    MLUOP_LAYOUT_NCDHW = 5,
    MLUOP_LAYOUT_TNC = 6,
    MLUOP_LAYOUT_NTC = 7,
    MLUOP_LAYOUT_NC = 8,
    MLUOP_LAYOUT_NLC = 9,
    MLUOP_LAYOUT_NCL = 10
} mluOpTensorLayout_t;

typedef enum {
    MLUOP_DTYPE_INVALID = 0,
    MLUOP_DTYPE_HALF = 1,
    MLUOP_DTYPE_FLOAT = 2,
    MLUOP_DTYPE_INT8 = 3,
    MLUOP_DTYPE_INT16 = 4,
    MLUOP_DTYPE_INT31 = 5,
    MLUOP_DTYPE_INT32 = 6,
    MLUOP_DTYPE_UINT8 = 7,
    MLUOP_DTYPE_BOOL = 8,
    MLUOP_DTYPE_INT64 = 9,
    MLUOP_DTYPE_UINT32 = 11,
    MLUOP_DTYPE_UINT64 = 12,
    MLUOP_DTYPE_UINT16 = 13,
    MLUOP_DTYPE_DOUBLE = 14,
    MLUOP_DTYPE_COMPLEX_HALF = 15,
    MLUOP_DTYPE_COMPLEX_FLOAT = 16,
    MLUOP_DTYPE_BFLOAT16 = 17
} mluOpDataType_t;

typedef enum { MLUOP_REDUCE_DSUM = 0, MLUOP_REDUCE_DMEAN = 1, MLUOP_REDUCE_DMAX = 2 } mluOpReduceMode_t;

typedef enum {
    MLUOP_COMPUTATION_FAST = 0,
    MLUOP_COMPUTATION_HIGH_PRECISION = 1,
    MLUOP_COMPUTATION_ULTRAHIGH_PRECISION = 2
} mluOpComputationPreference_t;

typedef enum {
    MLUOP_LOSS_REDUCTION_NONE = 0,
    MLUOP_LOSS_REDUCTION_SUM = 1,
    MLUOP_LOSS_REDUCTION_MEAN = 2
} mluOpLossReduction_t;

typedef struct mluOpContext *mluOpHandle_t;
typedef struct mluOpTensorStruct *mluOpTensorDescriptor_t;
typedef struct mluOpSparseConvolutionStruct *mluOpSparseConvolutionDescriptor_t;

/* ---- runtime: every function returns 0 on success ---- */

typedef struct cnrtQueueStruct *cnrtQueue_t;
typedef struct cnrtNotifierStruct *cnrtNotifier_t;
typedef enum {
    CNRT_MEM_TRANS_DIR_HOST2DEV = 0,
    CNRT_MEM_TRANS_DIR_DEV2DEV = 1,
    CNRT_MEM_TRANS_DIR_DEV2HOST = 2,
    CNRT_MEM_TRANS_DIR_HOST2HOST = 3
} cnrtMemTransDir_t;

MLUOP_API int cnrtGetDeviceCount(unsigned *count);
MLUOP_API int cnrtSetDevice(int device);
MLUOP_API int cnrtQueueCreate(cnrtQueue_t *queue);
MLUOP_API int cnrtQueueDestroy(cnrtQueue_t queue);
MLUOP_API int cnrtQueueSync(cnrtQueue_t queue);
MLUOP_API int cnrtMalloc(void **memory, size_t bytes);
MLUOP_API int cnrtFree(void *memory);
MLUOP_API int cnrtMemcpy(void *to, const void *from, size_t bytes, cnrtMemTransDir_t direction);
MLUOP_API int cnrtNotifierCreate(cnrtNotifier_t *notifier);
MLUOP_API int cnrtNotifierDestroy(cnrtNotifier_t notifier);
MLUOP_API int cnrtPlaceNotifier(cnrtNotifier_t notifier, cnrtQueue_t queue);
MLUOP_API int cnrtWaitNotifier(cnrtNotifier_t notifier);
MLUOP_API int cnrtNotifierDuration(cnrtNotifier_t start, cnrtNotifier_t end, float *microseconds);

/* ---- handle ---- */

MLUOP_API mluOpStatus_t mluOpCreate(mluOpHandle_t *handle);
MLUOP_API mluOpStatus_t mluOpDestroy(mluOpHandle_t handle);
MLUOP_API mluOpStatus_t mluOpSetQueue(mluOpHandle_t handle, cnrtQueue_t queue);
MLUOP_API mluOpStatus_t mluOpGetQueue(mluOpHandle_t handle, cnrtQueue_t *queue);
MLUOP_API const char *mluOpGetErrorString(mluOpStatus_t status);
MLUOP_API void mluOpGetLibVersion(int *major, int *minor, int *patch);

/* Test hooks: let one host stand for other devices. The device library does not have them. */
MLUOP_API mluOpStatus_t mluOpTestSetArch(mluOpHandle_t handle, int arch);
MLUOP_API mluOpStatus_t mluOpTestSetNramBytes(mluOpHandle_t handle, int64_t bytes);

/* ---- descriptors ---- */

MLUOP_API mluOpStatus_t mluOpCreateTensorDescriptor(mluOpTensorDescriptor_t *desc);
MLUOP_API mluOpStatus_t mluOpDestroyTensorDescriptor(mluOpTensorDescriptor_t desc);
MLUOP_API mluOpStatus_t mluOpSetTensorDescriptor(mluOpTensorDescriptor_t desc, mluOpTensorLayout_t layout,
                                                 mluOpDataType_t dtype, int dimNb, const int dimSize[]);
MLUOP_API mluOpStatus_t mluOpSetTensorDescriptor_v2(mluOpTensorDescriptor_t desc, mluOpTensorLayout_t layout,
                                                    mluOpDataType_t dtype, int dimNb, const int64_t dimSize[]);
MLUOP_API mluOpStatus_t mluOpSetTensorDescriptorEx_v2(mluOpTensorDescriptor_t desc, mluOpTensorLayout_t layout,
                                                      mluOpDataType_t dtype, int dimNb, const int64_t dimSize[],
                                                      const int64_t dimStride[]);

MLUOP_API mluOpStatus_t mluOpCreateSparseConvolutionDescriptor(mluOpSparseConvolutionDescriptor_t *desc);
MLUOP_API mluOpStatus_t mluOpDestroySparseConvolutionDescriptor(mluOpSparseConvolutionDescriptor_t desc);
MLUOP_API mluOpStatus_t mluOpSetSparseConvolutionDescriptor(mluOpSparseConvolutionDescriptor_t desc, int dimNb,
                                                            int batch, const int pad[], const int stride[],
                                                            const int dilation[], const int input_space[],
                                                            const int filter_space[], const int output_space[],
                                                            int sub_m, int transpose, int inverse);
MLUOP_API mluOpStatus_t mluOpGetSparseConvolutionNumActOut(mluOpSparseConvolutionDescriptor_t desc,
                                                           int *num_act_out);

/* ---- operators ---- */

MLUOP_API mluOpStatus_t mluOpGetIndicePairsWorkspaceSize(
    mluOpHandle_t handle, const mluOpSparseConvolutionDescriptor_t sparse_conv_desc,
    const mluOpTensorDescriptor_t indices_desc, const mluOpTensorDescriptor_t indice_pairs_desc,
    const mluOpTensorDescriptor_t out_indices_desc, const mluOpTensorDescriptor_t indice_num_desc,
    size_t *workspace_size);

MLUOP_API mluOpStatus_t mluOpGetIndicePairs(
    mluOpHandle_t handle, const mluOpSparseConvolutionDescriptor_t sparse_conv_desc,
    const mluOpTensorDescriptor_t indices_desc, const void *indices, void *workspace, size_t workspace_size,
    const mluOpTensorDescriptor_t indice_pairs_desc, void *indice_pairs,
    const mluOpTensorDescriptor_t out_indices_desc, void *out_indices,
    const mluOpTensorDescriptor_t indice_num_desc, void *indice_num);

MLUOP_API mluOpStatus_t mluOpGetIndiceConvolutionForwardWorkspaceSize(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t features_desc, const mluOpTensorDescriptor_t filters_desc,
    const mluOpTensorDescriptor_t indice_pairs_desc, const mluOpTensorDescriptor_t features_out_desc,
    const int64_t indice_num[], const int64_t num_active_out, const int64_t inverse, const int64_t sub_m,
    size_t *workspace_size);

MLUOP_API mluOpStatus_t mluOpIndiceConvolutionForward(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t features_desc, const void *features,
    const mluOpTensorDescriptor_t filters_desc, const void *filters, const mluOpTensorDescriptor_t indice_pairs_desc,
    const void *indice_pairs, const int64_t indice_num[], const int64_t num_active_out, const int64_t inverse,
    const int64_t sub_m, void *workspace, const size_t workspace_size,
    const mluOpTensorDescriptor_t features_out_desc, void *features_out);

MLUOP_API mluOpStatus_t mluOpGetIndiceConvolutionBackwardDataWorkspaceSize(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t output_grad_desc, const mluOpTensorDescriptor_t filters_desc,
    const mluOpTensorDescriptor_t indice_pairs_desc, const mluOpTensorDescriptor_t input_grad_desc,
    const int64_t indice_num[], const int64_t inverse, size_t *workspace_size);

MLUOP_API mluOpStatus_t mluOpIndiceConvolutionBackwardData(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t output_grad_desc, const void *output_grad,
    const mluOpTensorDescriptor_t filters_desc, const void *filters, const mluOpTensorDescriptor_t indice_pairs_desc,
    const void *indice_pairs, const int64_t indice_num[], const int64_t inverse, const int64_t sub_m, void *workspace,
    const size_t workspace_size, const mluOpTensorDescriptor_t input_grad_desc, void *input_grad);

MLUOP_API mluOpStatus_t mluOpGetIndiceConvolutionBackwardFilterWorkspaceSize(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t features_desc, const mluOpTensorDescriptor_t output_grad_desc,
    const mluOpTensorDescriptor_t indice_pairs_desc, const mluOpTensorDescriptor_t filters_grad_desc,
    const int64_t indice_num[], const int64_t inverse, const int64_t sub_m, size_t *workspace_size);

MLUOP_API mluOpStatus_t mluOpIndiceConvolutionBackwardFilter(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t features_desc, const void *features,
    const mluOpTensorDescriptor_t output_grad_desc, const void *output_grad,
    const mluOpTensorDescriptor_t indice_pairs_desc, const void *indice_pairs, const int64_t indice_num[],
    const int64_t inverse, const int64_t sub_m, void *workspace, const size_t workspace_size,
    const mluOpTensorDescriptor_t filters_grad_desc, void *filters_grad);

MLUOP_API mluOpStatus_t mluOpBallQuery(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t new_xyz_desc, const void *new_xyz,
    const mluOpTensorDescriptor_t xyz_desc, const void *xyz, const float min_radius, const float max_radius,
    const int nsample, const mluOpTensorDescriptor_t idx_desc, void *idx);

MLUOP_API mluOpStatus_t mluOpVoxelPoolingForward(
    mluOpHandle_t handle, const int batch_size, const int num_points, const int num_channels, const int num_voxel_x,
    const int num_voxel_y, const int num_voxel_z, const mluOpTensorDescriptor_t geom_xyz_desc, const void *geom_xyz,
    const mluOpTensorDescriptor_t input_features_desc, const void *input_features,
    const mluOpTensorDescriptor_t output_features_desc, void *output_features,
    const mluOpTensorDescriptor_t pos_memo_desc, void *pos_memo);

MLUOP_API mluOpStatus_t mluOpGetMaskedIm2colForwardWorkspaceSize(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t feature_desc, const mluOpTensorDescriptor_t mask_h_idx_desc,
    const mluOpTensorDescriptor_t mask_w_idx_desc, const int kernel_h, const int kernel_w,
    const mluOpTensorDescriptor_t data_col_desc, size_t *workspace_size);

MLUOP_API mluOpStatus_t mluOpMaskedIm2colForward(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t feature_desc, const void *feature,
    const mluOpTensorDescriptor_t mask_h_idx_desc, const void *mask_h_idx,
    const mluOpTensorDescriptor_t mask_w_idx_desc, const void *mask_w_idx, const int kernel_h, const int kernel_w,
    const int pad_h, const int pad_w, void *workspace, const size_t workspace_size,
    const mluOpTensorDescriptor_t data_col_desc, void *data_col);

MLUOP_API mluOpStatus_t mluOpGetMaskedCol2imForwardWorkspaceSize(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t col_desc, const mluOpTensorDescriptor_t mask_h_idx_desc,
    const mluOpTensorDescriptor_t mask_w_idx_desc, const mluOpTensorDescriptor_t im_desc, size_t *workspace_size);

/* Size before workspace. */
MLUOP_API mluOpStatus_t mluOpMaskedCol2imForward(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t col_desc, const void *col,
    const mluOpTensorDescriptor_t mask_h_idx_desc, const void *mask_h_idx,
    const mluOpTensorDescriptor_t mask_w_idx_desc, const void *mask_w_idx, const size_t workspace_size,
    void *workspace, const mluOpTensorDescriptor_t im_desc, void *im);

MLUOP_API mluOpStatus_t mluOpGetDynamicPointToVoxelForwardWorkspaceSize(mluOpHandle_t handle,
                                                                        const mluOpTensorDescriptor_t feats_desc,
                                                                        const mluOpTensorDescriptor_t coors_desc,
                                                                        size_t *workspace_size);

MLUOP_API mluOpStatus_t mluOpDynamicPointToVoxelForward(
    mluOpHandle_t handle, const mluOpReduceMode_t reduce_type, const mluOpTensorDescriptor_t feats_desc,
    const void *feats, const mluOpTensorDescriptor_t coors_desc, void *coors, void *workspace,
    const size_t workspace_size, const mluOpTensorDescriptor_t voxel_feats_desc, void *voxel_feats,
    const mluOpTensorDescriptor_t voxel_coors_desc, void *voxel_coors,
    const mluOpTensorDescriptor_t point2voxel_map_desc, void *point2voxel_map,
    const mluOpTensorDescriptor_t voxel_points_count_desc, void *voxel_points_count,
    const mluOpTensorDescriptor_t voxel_num_desc, void *voxel_num);

MLUOP_API mluOpStatus_t mluOpGetThreeNNForwardWorkspaceSize(mluOpHandle_t handle,
                                                            const mluOpTensorDescriptor_t known_desc,
                                                            size_t *workspace_size);

MLUOP_API mluOpStatus_t mluOpThreeNNForward(mluOpHandle_t handle, const mluOpTensorDescriptor_t unknown_desc,
                                            const void *unknown, const mluOpTensorDescriptor_t known_desc,
                                            const void *known, void *workspace, const size_t workspace_size,
                                            const mluOpTensorDescriptor_t dist2_desc, void *dist2,
                                            const mluOpTensorDescriptor_t idx_desc, void *idx);

MLUOP_API mluOpStatus_t mluOpThreeInterpolateForward(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t features_desc, const void *features,
    const mluOpTensorDescriptor_t indices_desc, const void *indices, const mluOpTensorDescriptor_t weights_desc,
    const void *weights, const mluOpTensorDescriptor_t output_desc, void *output);

MLUOP_API mluOpStatus_t mluOpThreeInterpolateBackward(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t grad_output_desc, const void *grad_output,
    const mluOpTensorDescriptor_t indices_desc, const void *indices, const mluOpTensorDescriptor_t weights_desc,
    const void *weights, const mluOpTensorDescriptor_t grad_features_desc, void *grad_features);

/* One operator under two names: the released pair, then the pair that the design document prints. */
MLUOP_API mluOpStatus_t mluOpGetDynamicPointToVoxelBackwardWorkspaceSize(
    const mluOpHandle_t handle, const mluOpReduceMode_t reduce_type,
    const mluOpTensorDescriptor_t grad_voxel_feats_desc, const mluOpTensorDescriptor_t feats_desc,
    const mluOpTensorDescriptor_t voxel_feats_desc, const mluOpTensorDescriptor_t point2voxel_map_desc,
    const mluOpTensorDescriptor_t voxel_points_count_desc, const mluOpTensorDescriptor_t voxel_num_desc,
    size_t *workspace_size);

MLUOP_API mluOpStatus_t mluOpDynamicPointToVoxelBackward(
    const mluOpHandle_t handle, const mluOpReduceMode_t reduce_type,
    const mluOpTensorDescriptor_t grad_voxel_feats_desc, const void *grad_voxel_feats,
    const mluOpTensorDescriptor_t feats_desc, const void *feats, const mluOpTensorDescriptor_t voxel_feats_desc,
    const void *voxel_feats, const mluOpTensorDescriptor_t point2voxel_map_desc, const void *point2voxel_map,
    const mluOpTensorDescriptor_t voxel_points_count_desc, const void *voxel_points_count,
    const mluOpTensorDescriptor_t voxel_num_desc, const void *voxel_num, void *workspace, const size_t workspace_size,
    const mluOpTensorDescriptor_t grad_feats_desc, void *grad_feats);

MLUOP_API mluOpStatus_t mluOpGetDynamicScatterBackwardWorkspaceSize(const mluOpHandle_t handle,
                                                                    const mluOpReduceMode_t reduce_type,
                                                                    const mluOpTensorDescriptor_t feats_desc,
                                                                    size_t *workspace_size);

MLUOP_API mluOpStatus_t mluOpDynamicScatterBackward(
    const mluOpHandle_t handle, const mluOpReduceMode_t reduce_type,
    const mluOpTensorDescriptor_t grad_voxel_feats_desc, const void *grad_voxel_feats,
    const mluOpTensorDescriptor_t feats_desc, const void *feats, const mluOpTensorDescriptor_t voxel_feats_desc,
    const void *voxel_feats, const mluOpTensorDescriptor_t point2voxel_map_desc, const void *point2voxel_map,
    const mluOpTensorDescriptor_t voxel_points_count_desc, const void *voxel_points_count,
    const mluOpTensorDescriptor_t voxel_num_desc, void *voxel_num, void *workspace, const size_t workspace_size,
    const mluOpTensorDescriptor_t grad_feats_desc, void *grad_feats);

MLUOP_API mluOpStatus_t mluOpTinShiftForward(mluOpHandle_t handle, const mluOpTensorDescriptor_t input_desc,
                                             const void *input, const mluOpTensorDescriptor_t shifts_desc,
                                             const void *shifts, const mluOpTensorDescriptor_t output_desc,
                                             void *output);

MLUOP_API mluOpStatus_t mluOpGetVoxelizationWorkspaceSize(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t points_desc, const mluOpTensorDescriptor_t voxel_size_desc,
    const mluOpTensorDescriptor_t coors_range_desc, const int max_points, const int max_voxels, const int ndim,
    const bool deterministic, const mluOpTensorDescriptor_t voxels_desc, const mluOpTensorDescriptor_t coors_desc,
    const mluOpTensorDescriptor_t num_points_per_voxel_desc, const mluOpTensorDescriptor_t voxel_num_desc,
    size_t *workspace_size);

MLUOP_API mluOpStatus_t mluOpVoxelization(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t points_desc, const void *points,
    const mluOpTensorDescriptor_t voxel_size_desc, const void *voxel_size,
    const mluOpTensorDescriptor_t coors_range_desc, const void *coors_range, const int max_points,
    const int max_voxels, const int ndim, const bool deterministic, void *workspace, const size_t workspace_size,
    const mluOpTensorDescriptor_t voxels_desc, void *voxels, const mluOpTensorDescriptor_t coors_desc, void *coors,
    const mluOpTensorDescriptor_t num_points_per_voxel_desc, void *num_points_per_voxel,
    const mluOpTensorDescriptor_t voxel_num_desc, void *voxel_num);

/* Without weight its descriptor and its data are NULL, or the descriptor has no elements. */
MLUOP_API mluOpStatus_t mluOpFocalLossSigmoidForward(
    mluOpHandle_t handle, const mluOpComputationPreference_t prefer, const mluOpLossReduction_t reduction,
    const mluOpTensorDescriptor_t input_desc, const void *input, const mluOpTensorDescriptor_t target_desc,
    const void *target, const mluOpTensorDescriptor_t weight_desc, const void *weight, const float alpha,
    const float gamma, const mluOpTensorDescriptor_t output_desc, void *output);

MLUOP_API mluOpStatus_t mluOpMoeDispatchForward(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t gates_desc, const void *gates,
    const mluOpTensorDescriptor_t indices_desc, const void *indices, const mluOpTensorDescriptor_t locations_desc,
    const void *locations, const mluOpTensorDescriptor_t input_desc, const void *input, const int samples,
    const int capacity, const int hidden, const int num_experts, const mluOpTensorDescriptor_t dispatch_desc,
    void *dispatch);

MLUOP_API mluOpStatus_t mluOpBboxOverlaps(mluOpHandle_t handle, const int mode, const bool aligned, const int offset,
                                          const mluOpTensorDescriptor_t bbox1_desc, const void *bbox1,
                                          const mluOpTensorDescriptor_t bbox2_desc, const void *bbox2,
                                          const mluOpTensorDescriptor_t ious_desc, void *ious);

MLUOP_API mluOpStatus_t mluOpAbs(mluOpHandle_t handle, const mluOpTensorDescriptor_t x_desc, const void *x,
                                 const mluOpTensorDescriptor_t y_desc, void *y);

MLUOP_API mluOpStatus_t mluOpPointsInBoxes(mluOpHandle_t handle, const mluOpTensorDescriptor_t points_desc,
                                           const void *points, const mluOpTensorDescriptor_t boxes_desc,
                                           const void *boxes, const mluOpTensorDescriptor_t points_indices_desc,
                                           void *points_indices);

MLUOP_API mluOpStatus_t mluOpMsDeformAttnForward(
    mluOpHandle_t handle, const mluOpTensorDescriptor_t data_value_desc, const void *data_value,
    const mluOpTensorDescriptor_t data_spatial_shapes_desc, const void *data_spatial_shapes,
    const mluOpTensorDescriptor_t data_level_start_index_desc, const void *data_level_start_index,
    const mluOpTensorDescriptor_t data_sampling_loc_desc, const void *data_sampling_loc,
    const mluOpTensorDescriptor_t data_attn_weight_desc, const void *data_attn_weight, const int im2col_step,
    const mluOpTensorDescriptor_t data_col_desc, void *data_col);

#ifdef __cplusplus
}
#endif

#endif
