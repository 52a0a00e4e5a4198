"""The C functions: §2.2 of the document; the parameters travel in the sparse-convolution descriptor."""

from mluops_gtest.authoring.c_api import (
    ASKED_SIZE,
    HANDLE,
    PARAMS,
    WORKSPACE,
    WORKSPACE_SIZE,
    CFunction,
    CParams,
    CSignature,
    descriptor,
    host_array,
    scalar,
    tensor,
)

_SPARSE_CONVOLUTION = CParams(
    type="mluOpSparseConvolutionDescriptor_t",
    create="mluOpCreateSparseConvolutionDescriptor",
    destroy="mluOpDestroySparseConvolutionDescriptor",
    set="mluOpSetSparseConvolutionDescriptor",
    arguments=(
        *scalar("dimnb", "batch"),
        *host_array("pad", "stride", "dilation", "input_space", "filter_space", "output_space"),
        *scalar("sub_m", "transpose", "inverse"),
    ),
    getters={"num_act_out": "mluOpGetSparseConvolutionNumActOut"},
)

C_API = (
    CSignature(
        # The C order of the outputs; case files list out_indices first.
        CFunction(
            "mluOpGetIndicePairs",
            (
                HANDLE,
                PARAMS,
                *tensor("indices"),
                WORKSPACE,
                WORKSPACE_SIZE,
                *tensor("indice_pairs", "out_indices", "indice_num"),
            ),
        ),
        query=CFunction(
            "mluOpGetIndicePairsWorkspaceSize",
            (HANDLE, PARAMS, *descriptor("indices", "indice_pairs", "out_indices", "indice_num"), ASKED_SIZE),
        ),
        params=_SPARSE_CONVOLUTION,
    ),
)
