"""indice_convolution_backward_data: the gradient of a sparse convolution with respect to its input."""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

import numpy as np

from mluops_gtest.authoring import (
    SIZE_NULL,
    DType,
    Layout,
    OpCall,
    Operator,
    OutputSpec,
    ParamField,
    ParamMessage,
    QueryChecks,
    Status,
    TensorDesc,
    TensorSpec,
    axis,
    checks,
)
from mluops_gtest.authoring.exact_numbers import ExactElement, offset_weights, pairs_naming, products, total
from mluops_gtest.authoring.left_open import find_nonfinite, find_subnormal

from .._shared.connections import axis_letters, extents, offsets_size, pairs_in_use, pairs_size, weights_by_offset
from .._shared.convolution import (
    CRITERIA,
    FLOATS,
    convolution_function,
    counts_fit_pairs,
    define_products,
    inverse_supported,
    rows_within_limit,
    sound_pairs,
    torch_products,
)
from .._shared.products import Products, gather_sums, stacked_weights


def _rows_out(call: OpCall) -> int:
    return call.tensor("output_grad").dims[0]


def _layout_fits_rank(call: OpCall) -> bool:
    rank = len(call.tensor("filters").dims)
    return len(axis_letters(call.tensor("filters").layout, rank)) == rank


def _centre_is_largest(call: OpCall) -> bool:
    counts = call.param("indice_num")
    return all(count <= counts[len(counts) // 2] for count in counts)


# The parameter checks in their normative order; the first that does not hold decides the status.
CHECKS: Final = (
    checks.handle("§3.8.1"),
    checks.descriptors(doc="§3.8.1"),
    checks.arrays(doc="released"),
    checks.arch("§3.8.1"),
    checks.ranks(doc="§3.8.4"),
    checks.dims("indice_pairs.1", doc="§3.8.4"),
    rows_within_limit("§1.4, as released", Status.NOT_SUPPORTED),
    checks.dtypes("output_grad", "filters", "input_grad", "indice_pairs", doc="§3.8.4"),
    checks.layouts("filters", doc="§3.8.4"),
    # §3.8.4 looks at the layout's name alone; a layout whose axes are not those of the tensor has no K, Ci, Co.
    checks.require("filters_layout_rank", _layout_fits_rank, "the layout of filters must fit its rank", "§1.1, §3.8.4"),
    checks.strided(doc="§1.4"),
    checks.params("inverse", "sub_m", doc="§3.8.5"),
    checks.params("indice_num", doc="§3.8.5", name="{}_negative"),
    inverse_supported("§1.4, §3.8.5"),
    checks.dims("indice_pairs.0", "output_grad.1", "input_grad.1", "input_grad.0 = indice_pairs.2", doc="§3.8.5"),
    counts_fit_pairs("§3.8.5"),
    checks.require(
        "sub_m_rows",
        lambda call: call.param("sub_m") == 0 or call.tensor("input_grad").dims[0] == _rows_out(call),
        "with sub_m input_grad and output_grad must have equally many rows",
        "§1.4, §3.8.5",
    ),
    checks.require(
        "sub_m_centre",
        lambda call: call.param("sub_m") == 0 or _centre_is_largest(call),
        "with sub_m the middle entry of indice_num must be the largest",
        "§3.8.5",
    ),
    checks.require(
        "output_grad_rows",
        lambda call: _rows_out(call) >= max(call.param("indice_num"), default=0),
        "output_grad must have at least as many rows as the largest entry of indice_num",
        "§3.8.5",
    ),
    checks.require(
        "sub_m_even_kernel",
        lambda call: call.param("sub_m") == 0 or extents(call.tensor("filters").desc).offsets % 2 == 1,
        "with sub_m the number of kernel offsets must be odd",
        "§1.4, §3.8.5",
    ),
    checks.dtypes("input_grad = output_grad", "filters = output_grad", doc="§1.4, §3.8.5", name="dtype_equal"),
    # §3.8.2 and the large-tensor checks of §3.8.5 begin with the output.
    checks.large("input_grad", "output_grad", "filters", "indice_pairs", doc="§3.8.5"),
    checks.empty("input_grad", "output_grad", "filters", "indice_pairs", doc="§3.8.2"),
    checks.pointers(doc="§3.8.1"),
    checks.workspace("§3.8.3"),
)


def products_of(call: OpCall) -> Products:
    """Each input row of a pair receives its output row of output_grad times W_kᵀ (§1.2.2).

    sub_m does not occur here: it changes only the checks, never the arithmetic.
    """
    # §3.1 step 1 calls the transposed filter [K, Co, Ci]; its own HWCN and §3.8.5 say that W_k is [Ci, Co].
    weights = weights_by_offset(call.array("filters"), call.tensor("filters").layout)
    # Only the first indice_num[k] entries are read: whatever stands behind them is legal.
    used = pairs_in_use(call.array("indice_pairs"), call.param("indice_num"))
    return Products(call.array("output_grad"), weights.swapaxes(1, 2), used, call.tensor("indice_pairs").dims[2])


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """One element of input_grad: input_grad[pairs[k, 0, l], :] += output_grad[pairs[k, 1, l], :] · W_kᵀ (§1.2.2)."""
    gradients, pairs = call.array("output_grad"), call.array("indice_pairs")
    weights = offset_weights(call.array("filters"), call.tensor("filters").layout)

    def input_grad(row: int, channel: int) -> Fraction | float:
        named = pairs_naming(row, 0, pairs, call.param("indice_num"))
        return total([products(gradients[site], weights[k, channel]) for k, site in named])

    return {"input_grad": input_grad}


# The kernel shares nothing with the reference: its own checks as §3.8 lists them, then float32 sums gathered per input
# row, without a scatter.


def kernel(call: OpCall) -> Status:
    """Answer the status of the call and, where it computes, write input_grad."""
    for stage in (_presence, _descriptors, _parameters, _relations, _sizes, _pointers):
        status = stage(call)
        if status is not None:
            return status
    rows = call.array("output_grad").astype(np.float32, copy=False)
    weights = stacked_weights(call.array("filters"), call.tensor("filters").layout, to=0)
    gather_sums(rows, weights, call.array("indice_pairs"), call.param("indice_num"), call.array("input_grad"), to=0)
    return Status.SUCCESS


def _descs(call: OpCall) -> tuple[TensorDesc, TensorDesc, TensorDesc, TensorDesc]:
    return (
        call.tensor("output_grad").desc,
        call.tensor("filters").desc,
        call.tensor("indice_pairs").desc,
        call.tensor("input_grad").desc,
    )


def _presence(call: OpCall) -> Status | None:
    descriptors = (*call.inputs.values(), *call.outputs.values())
    if call.handle is None or None in descriptors or call.param("indice_num") is None:
        return Status.BAD_PARAM
    return Status.ARCH_MISMATCH if call.handle.arch < 370 else None


def _descriptors(call: OpCall) -> Status | None:
    output_grad, filters, pairs, input_grad = descs = _descs(call)
    if len(output_grad.dims) != 2 or len(filters.dims) not in (4, 5):
        return Status.BAD_PARAM
    if len(pairs.dims) != 3 or len(input_grad.dims) != 2 or pairs.dims[1] != 2:
        return Status.BAD_PARAM
    if pairs.dims[2] > 1_000_000:
        return Status.NOT_SUPPORTED
    if not {output_grad.dtype, filters.dtype, input_grad.dtype} <= {DType.HALF, DType.FLOAT}:
        return Status.BAD_PARAM
    if pairs.dtype is not DType.INT32:
        return Status.BAD_PARAM
    named = (Layout.NHWC, Layout.NCHW, Layout.HWCN) if len(filters.dims) == 4 else (Layout.NDHWC, Layout.NCDHW)
    if filters.layout not in (*named, Layout.ARRAY):
        return Status.BAD_PARAM
    return Status.NOT_SUPPORTED if any(desc.is_strided for desc in descs) else None


def _parameters(call: OpCall) -> Status | None:
    if call.param("inverse") not in (0, 1) or call.param("sub_m") not in (0, 1):
        return Status.BAD_PARAM
    if min(call.param("indice_num"), default=0) < 0:
        return Status.BAD_PARAM
    return Status.NOT_SUPPORTED if call.param("inverse") == 1 else None


def _relations(call: OpCall) -> Status | None:
    output_grad, filters, pairs, input_grad = _descs(call)
    counts, sub_m = call.param("indice_num"), call.param("sub_m") == 1
    match filters.layout:
        case Layout.NHWC | Layout.NDHWC:
            channels_out, *kernel, channels_in = filters.dims
        case Layout.NCHW | Layout.NCDHW:
            channels_out, channels_in, *kernel = filters.dims
        case _:
            *kernel, channels_in, channels_out = filters.dims
    offsets = math.prod(kernel)
    if offsets != pairs.dims[0]:
        return Status.BAD_PARAM
    if output_grad.dims[1] != channels_out or input_grad.dims != (pairs.dims[2], channels_in):
        return Status.BAD_PARAM
    largest = max(counts, default=0)
    if largest > min(pairs.dims[2], output_grad.dims[0]):
        return Status.BAD_PARAM
    if sub_m and (offsets % 2 == 0 or counts[offsets // 2] < largest or input_grad.dims[0] != output_grad.dims[0]):
        return Status.BAD_PARAM
    if not output_grad.dtype is input_grad.dtype is filters.dtype:
        return Status.BAD_PARAM
    return None


def _sizes(call: OpCall) -> Status | None:
    numbers = [math.prod(desc.dims) for desc in _descs(call)]
    if max(numbers) >= 2**31:
        return Status.NOT_SUPPORTED
    return Status.SUCCESS if min(numbers) == 0 else None


def _pointers(call: OpCall) -> Status | None:
    if any(arg is None or arg.null for arg in (*call.inputs.values(), *call.outputs.values())):
        return Status.BAD_PARAM
    if call.workspace is None and call.workspace_size > 0:
        return Status.BAD_PARAM
    return None


OPERATOR: Final = Operator(
    name="indice_convolution_backward_data",
    released_name="indice_convolution_backward_data",
    op_type=("INDICE_CONVOLUTION_BACKWARD_DATA", 900),
    summary="Adds, for every pair of rows and its kernel offset, the output gradient times Wᵀ to the input gradient.",
    inputs=(
        TensorSpec("output_grad", "[Y, Co]", FLOATS),
        TensorSpec(
            "filters",
            "[[Kd,] Kh, Kw, Ci, Co] as ARRAY, [Kh, Kw, Ci, Co] as HWCN, [Co, Kh, Kw, Ci] as NHWC, "
            "[Co, Ci, Kh, Kw] as NCHW, [Co, Kd, Kh, Kw, Ci] as NDHWC, [Co, Ci, Kd, Kh, Kw] as NCDHW",
            FLOATS,
            (Layout.NHWC, Layout.NCHW, Layout.HWCN, Layout.NCDHW, Layout.NDHWC, Layout.ARRAY),
        ),
        TensorSpec("indice_pairs", "[Kd·Kh·Kw, 2, L]", (DType.INT32,)),
    ),
    outputs=(OutputSpec("input_grad", "[L, Ci]", CRITERIA),),
    params=ParamMessage(
        field="indice_convolution_backward_data_param",
        number=22120599,
        message="IndiceConvolutionBackwardDataParam",
        fields=(
            ParamField("inverse", 1, "int64", allowed=(0, 1)),
            ParamField("sub_m", 2, "int64", allowed=(0, 1)),
            ParamField("indice_num", 3, "int64", "repeated", least=0),
        ),
    ),
    axes={
        "rows_in": axis("L", of="input_grad"),
        "rows_out": axis("Y", of="output_grad"),
        "channels_in": axis("Ci", of="filters"),
        "channels_out": axis("Co", of="filters"),
    },
    sizes={"offsets": offsets_size(), "pairs": pairs_size("output_grad", 1)},
    checks=CHECKS,
    subsumed={
        "indice_pairs_empty": "without columns input_grad has no rows, without kernel offsets filters is empty: both "
        "answer before"
    },
    # The operator's own checks up to the early return, without those that need sub_m, which the query does not take.
    # No case breaks another check beside the size, whose place is open.
    queries={
        "mluOpGetIndiceConvolutionBackwardDataWorkspaceSize": QueryChecks(
            (SIZE_NULL, "… output_grad_ptr_null"), without=("sub_m",)
        )
    },
    definition=define_products("output_grad", "input_grad", products_of, to=0),
    precondition=sound_pairs("output_grad"),
    # The document says nothing of NaN and Inf.
    left_open={"undefined": find_nonfinite, "subnormal": find_subnormal},
    exact=elements,
    kernel=kernel,
    torch_kernel=torch_products("output_grad", "input_grad", to=0),
    # §2.2: the query does not take sub_m.
    c_api=convolution_function("IndiceConvolutionBackwardData", "inverse", "sub_m", asked=("inverse",)),
)
