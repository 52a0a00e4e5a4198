/* What the opaque handle and descriptors of the API hold. */
#ifndef DESCRIPTORS_H
#define DESCRIPTORS_H

#include <stdbool.h>

#include "mluops_host.h"

#define MAX_RANK 16 /* more axes than any operator takes: those refuse them */
#define SPACE_AXES 3 /* only 3-D sparse convolutions exist */

struct mluOpContext {
    cnrtQueue_t queue;
    int arch;
    int64_t nram_bytes;
};

struct mluOpTensorStruct {
    mluOpTensorLayout_t layout;
    mluOpDataType_t dtype;
    int rank;
    bool has_strides;
    int64_t dims[MAX_RANK];
    int64_t strides[MAX_RANK]; /* in elements; only with has_strides */
};

struct mluOpSparseConvolutionStruct {
    bool is_set; /* false until the setter accepted its values */
    int batch;
    int pad[SPACE_AXES];
    int stride[SPACE_AXES];
    int dilation[SPACE_AXES];
    int input_space[SPACE_AXES];
    int filter_space[SPACE_AXES];
    int output_space[SPACE_AXES];
    int sub_m;
    int num_act_out;
};

typedef const struct mluOpTensorStruct *tensor_desc;
typedef const struct mluOpSparseConvolutionStruct *sparse_desc;

#endif
