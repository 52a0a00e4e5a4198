"""indice_convolution_backward_data: the gradient of a sparse convolution with respect to its input."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import (
    SIZE_NULL,
    Array,
    Baseline,
    Bound,
    Criterion,
    DType,
    Layout,
    OpCall,
    Operator,
    OutputSpec,
    ParamField,
    ParamMessage,
    QueryChecks,
    SizedAxis,
    Status,
    TensorSpec,
    Theory,
    diff1_and_diff2,
)
from mluops_gtest.authoring.c_api import (
    ASKED_SIZE,
    HANDLE,
    WORKSPACE,
    WORKSPACE_SIZE,
    CFunction,
    CSignature,
    CType,
    descriptor,
    host_array,
    scalar,
    tensor,
)
from mluops_gtest.authoring.checks import (
    arch,
    arrays,
    descriptors,
    dim,
    dims,
    dtypes,
    empty,
    handle,
    large,
    layouts,
    params,
    pointers,
    ranks,
    require,
    strided,
    workspace,
)
from mluops_gtest.authoring.exact_numbers import ExactElement, offset_weights, pairs_naming, products, total
from mluops_gtest.authoring.left_open import find_nonfinite, find_subnormal
from mluops_gtest.authoring.suspects import Suspect

from .._shared.connections import (
    Extents,
    axis_letters,
    broken_pairs,
    extents,
    offsets_size,
    pairs_in_use,
    pairs_size,
    pairs_theory,
    weights_by_offset,
)
from .._shared.products import Products, bound_of, products_suspects, summed
from .._shared.wrong_pairs import Rows, wrong_pairs
from .._shared.wrong_products import wrong_weights
from .kernel import kernel

# §1.5.1
CRITERIA: Final[dict[DType, tuple[Criterion, ...]]] = {
    DType.FLOAT: diff1_and_diff2(1e-5),
    DType.HALF: diff1_and_diff2(3e-3),
}


# The parameter checks in their normative order; the first that does not hold decides the status.


LAYOUTS: Final = (Layout.NHWC, Layout.NCHW, Layout.HWCN, Layout.NCDHW, Layout.NDHWC, Layout.ARRAY)
RANKS: Final = (4, 5)
# More input rows than this are not supported.
ROWS_LIMIT: Final = 1_000_000

_FLOATS: Final = (DType.FLOAT, DType.HALF)


def _extents(call: OpCall) -> Extents:
    return extents(call.tensor("filters").desc)


def _dim(call: OpCall, tensor: str, axis: int) -> int:
    return call.tensor(tensor).dims[axis]


def _largest_count(call: OpCall) -> int:
    return max(call.param("indice_num"), default=0)


def _layout_fits_rank(call: OpCall) -> bool:
    rank = len(call.tensor("filters").dims)
    return len(axis_letters(call.tensor("filters").layout, rank)) == rank


def _centre_is_largest(call: OpCall) -> bool:
    counts = call.param("indice_num")
    return all(count <= counts[len(counts) // 2] for count in counts)


CHECKS: Final = (
    handle("§3.8.1"),
    descriptors(doc="§3.8.1"),
    arrays(doc="released"),
    arch("§3.8.1"),
    ranks(doc="§3.8.4"),
    dims("indice_pairs.1", doc="§3.8.4"),
    require(
        "indice_pairs_rows",
        lambda call: _dim(call, "indice_pairs", 2) <= ROWS_LIMIT,
        f"indice_pairs must have at most {ROWS_LIMIT} columns",
        "§1.4, as released",
        Status.NOT_SUPPORTED,
    ),
    dtypes("output_grad", "filters", "input_grad", "indice_pairs", doc="§3.8.4"),
    layouts("filters", doc="§3.8.4"),
    # §3.8.4 looks at the layout's name alone; a layout whose axes are not those of the tensor has no K, Ci, Co.
    require("filters_layout_rank", _layout_fits_rank, "the layout of filters must fit its rank", "§1.1, §3.8.4"),
    strided(doc="§1.4"),
    params("inverse", "sub_m", doc="§3.8.5"),
    params("indice_num", doc="§3.8.5", name="{}_negative"),
    require(
        "inverse_unsupported",
        lambda call: call.param("inverse") == 0,
        "inverse = 1 is not supported",
        "§1.4, §3.8.5",
        Status.NOT_SUPPORTED,
    ),
    dim("indice_pairs", 0, lambda call: _extents(call).offsets, "indice_pairs[0] must be Kd·Kh·Kw", "§3.8.5"),
    dim("output_grad", 1, lambda call: _extents(call).channels_out, "output_grad[1] must be Co", "§3.8.5"),
    dim("input_grad", 1, lambda call: _extents(call).channels_in, "input_grad[1] must be Ci", "§3.8.5"),
    dims("input_grad.0 = indice_pairs.2", doc="§3.8.5"),
    require(
        "indice_num_fits_pairs",
        lambda call: _largest_count(call) <= _dim(call, "indice_pairs", 2),
        "no entry of indice_num may exceed indice_pairs[2]",
        "§3.8.5",
    ),
    require(
        "sub_m_rows",
        lambda call: call.param("sub_m") == 0 or _dim(call, "input_grad", 0) == _dim(call, "output_grad", 0),
        "with sub_m input_grad and output_grad must have equally many rows",
        "§1.4, §3.8.5",
    ),
    require(
        "sub_m_centre",
        lambda call: call.param("sub_m") == 0 or _centre_is_largest(call),
        "with sub_m the middle entry of indice_num must be the largest",
        "§3.8.5",
    ),
    require(
        "output_grad_rows",
        lambda call: _dim(call, "output_grad", 0) >= _largest_count(call),
        "output_grad must have at least as many rows as the largest entry of indice_num",
        "§3.8.5",
    ),
    require(
        "sub_m_even_kernel",
        lambda call: call.param("sub_m") == 0 or _extents(call).offsets % 2 == 1,
        "with sub_m the number of kernel offsets must be odd",
        "§1.4, §3.8.5",
    ),
    dtypes("input_grad = output_grad", "filters = output_grad", doc="§1.4, §3.8.5", name="dtype_equal"),
    # §3.8.2 and the large-tensor checks of §3.8.5 begin with the output.
    large("input_grad", "output_grad", "filters", "indice_pairs", doc="§3.8.5"),
    empty("input_grad", "output_grad", "filters", "indice_pairs", doc="§3.8.2"),
    pointers(doc="§3.8.1"),
    workspace("§3.8.3"),
)

# The operator's own checks up to the early return, without those that need sub_m, which the query does not take. No
# case breaks another check beside the size, whose place is open.
QUERIES: Final = {
    "mluOpGetIndiceConvolutionBackwardDataWorkspaceSize": QueryChecks(
        (SIZE_NULL, "… output_grad_ptr_null"), without=("sub_m",)
    )
}

# Without one of these another check answers with the same status.
ANSWERED_ANYWAY = {
    "filters_layout": "a layout that is not listed has no axes, so filters_layout_rank refuses it",
    "input_grad_empty": "without rows indice_pairs is empty, without channels filters is",
    "filters_empty": "without channels output_grad or input_grad is empty, without offsets indice_pairs is",
}

# Pairs for which a bounded search found no call that breaks both: most exclude each other (a tensor without elements
# is neither strided nor large), the others are not proved to. More kernel offsets than indice_num has entries are no
# call at all: a library reads that many.
NOT_TOGETHER = {
    "sub_m": ("filters_large", "indice_pairs_large"),
    "indice_pairs_dim0": ("input_grad_large", "output_grad_large", "filters_large", "indice_pairs_large"),
    "arch": ("sub_m_even_kernel",),
    "indice_pairs_rank": ("indice_pairs_rows",),
    "indice_pairs_rows": ("indice_pairs_dim0", "indice_num_fits_pairs", "output_grad_rows", "sub_m_even_kernel"),
    "output_grad_strided": ("output_grad_rows", "output_grad_empty"),
    "filters_strided": ("output_grad_rows", "sub_m_even_kernel", "filters_empty"),
    "indice_pairs_strided": ("output_grad_rows",),
    "input_grad_strided": ("input_grad_empty",),
    "inverse_unsupported": ("output_grad_rows",),
    "input_grad_dim1": ("indice_pairs_large",),
    "input_grad_dim0": ("filters_large", "indice_pairs_large"),
    "indice_num_fits_pairs": ("input_grad_large", "filters_large", "indice_pairs_large", "filters_empty"),
    "sub_m_rows": ("input_grad_large", "filters_large", "indice_pairs_large"),
    "sub_m_centre": (
        "input_grad_large",
        "output_grad_large",
        "filters_large",
        "indice_pairs_large",
        "output_grad_empty",
    ),
    "output_grad_rows": ("input_grad_large", "output_grad_large", "filters_large", "indice_pairs_large"),
    "sub_m_even_kernel": (
        "input_grad_large",
        "output_grad_large",
        "filters_large",
        "indice_pairs_large",
        "input_grad_empty",
        "output_grad_empty",
    ),
    "input_grad_dtype_equal": ("input_grad_large", "filters_large", "indice_pairs_large"),
    "filters_dtype_equal": ("indice_pairs_large",),
    "input_grad_large": ("input_grad_empty", "output_grad_empty", "filters_empty"),
    "output_grad_large": ("input_grad_empty", "output_grad_empty", "filters_empty"),
    "filters_large": ("input_grad_empty", "output_grad_empty", "filters_empty"),
}


# What the document takes for granted about the pairs: no kernel can be held to a case that breaks it.


def precondition(call: OpCall) -> str | None:
    """One count per kernel offset; rows that exist, each once per offset; with sub_m a centre of identity (§1.4)."""
    return broken_pairs(
        call.array("indice_pairs"),
        call.param("indice_num"),
        offsets=extents(call.tensor("filters").desc).offsets,
        rows_in=call.tensor("input_grad").dims[0],
        rows_out=call.tensor("output_grad").dims[0],
        sub_m=call.param("sub_m") == 1,
    )


# What cases are declared for in size.


SIZES: Final[Mapping[str, SizedAxis]] = {
    "rows_in": SizedAxis("input_grad", 0),
    "rows_out": SizedAxis("output_grad", 0),
    "channels_in": SizedAxis("input_grad", 1),
    "channels_out": SizedAxis("output_grad", 1),
    "offsets": offsets_size(),
    "pairs": pairs_size("output_grad", 1),
}


# The oracle: the formula of §1.2.2 with sums that are exact in float64, rounded once.


def reference(call: OpCall) -> Baseline:
    """input_grad, the same bits on every machine."""
    return Baseline({"input_grad": summed(products_of(call))})


def bound(call: OpCall) -> dict[str, Bound]:
    """What arithmetic allows: sums of products in any order."""
    return {"input_grad": bound_of(products_of(call))}


def products_of(call: OpCall) -> Products:
    """What the formula adds up in a valid call."""
    # sub_m does not occur here: it changes only the checks, never the arithmetic.
    weights = weights_by_offset(call.array("filters"), call.tensor("filters").layout)
    # Only the first indice_num[k] entries are read: whatever stands behind them is legal.
    used = pairs_in_use(call.array("indice_pairs"), call.param("indice_num"))
    return gradient_products(call.array("output_grad"), weights, used, call.tensor("indice_pairs").dims[2])


def gradient_products(output_grad: Array, weights: Array, used: tuple[Array, ...], rows_in: int) -> Products:
    """Each input row of a pair receives its output row of output_grad times W_kᵀ."""
    # §3.1 step 1 calls the transposed filter [K, Co, Ci]; its own HWCN and §3.8.5 say that W_k is [Ci, Co].
    return Products(output_grad, weights.swapaxes(1, 2), used, rows_in)


# Mistakes that kernels make where pairs of several offsets meet in a row, and about matrices and rows.


# Those that a place or a law of values tells already are not among them.
_WEIGHTS = {
    "depth_mirrored", "height_mirrored", "width_mirrored", "width_slowest", "height_for_width", "weights_of_first",
    "weights_of_next", "channels_last_as_array", "array_as_channels_last", "two_dimensional", "weights_transposed",
    "first_output_channel", "last_output_channel",
}  # fmt: skip
_PAIRS = {
    "rows_exchanged", "inputs_twice", "outputs_twice", "positions", "sorted_apart", "stride_of_counts", "first_count",
    "one_pair", "first_pair", "last_pair", "stops_at_empty", "skips_empty", "first_offset", "last_offset",
    "pairs_of_next", "pairs_repeated", "stride_of_outputs", "middle_of_all",
}  # fmt: skip


def _of_weights(weights: Callable[[OpCall], Array]) -> Suspect:
    def outputs(call: OpCall) -> Mapping[str, Array]:
        matrices = np.ascontiguousarray(weights(call).swapaxes(1, 2))
        return {"input_grad": summed(replace(products_of(call), matrices=matrices))}

    return outputs


def _of_rows(rows: Callable[[OpCall], list[Rows]]) -> Suspect:
    def outputs(call: OpCall) -> Mapping[str, Array]:
        right = products_of(call)
        limits = np.array([[right.count], [len(right.rows)]])
        # A row of −1 is the last one.
        meetings = tuple(np.stack((inputs, outputs)).astype(np.int64) % limits for inputs, outputs in rows(call))
        return {"input_grad": summed(replace(right, meetings=meetings))}

    return outputs


SUSPECTS = {
    **products_suspects("input_grad", products_of),
    **{f"it {one.message}": _of_weights(one.weights) for one in wrong_weights(2) if one.name in _WEIGHTS},
    **{
        f"it {one.message}": _of_rows(one.rows)
        for one in wrong_pairs("input_grad", "output_grad")
        if one.name in _PAIRS
    },
}


# One element of input_grad: input_grad[pairs[k, 0, l], :] += output_grad[pairs[k, 1, l], :] · W_kᵀ (§1.2.2).


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """The products of all pairs whose input is the row."""
    gradients, pairs = call.array("output_grad"), call.array("indice_pairs")
    weights = offset_weights(call.array("filters"), call.tensor("filters").layout)

    def input_grad(row: int, channel: int) -> Fraction | float:
        named = pairs_naming(row, 0, pairs, call.param("indice_num"))
        return total([products(gradients[site], weights[k, channel]) for k, site in named])

    return {"input_grad": input_grad}


# With torch: per kernel offset gather, multiply, index_add_, all in float32.


# Pairs per product on the processor: few enough for the cache, many enough that threads seldom wait for each other.
_TORCH_PAIRS = 16384


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Write input_grad; half is computed in float32 and rounded once."""
    import torch

    grad = inputs["output_grad"].float()
    weights = _weights(inputs["filters"].float(), call.tensor("filters").layout)
    result = outputs["input_grad"]
    sums = result.zero_() if result.dtype == torch.float32 else torch.zeros_like(result, dtype=torch.float32)
    for pairs, count, weight in zip(inputs["indice_pairs"], call.param("indice_num"), weights, strict=True):
        step = _TORCH_PAIRS if grad.device.type == "cpu" else max(1, count)
        for first in range(0, count, step):
            in_rows, out_rows = pairs[:, first : min(first + step, count)]
            sums.index_add_(0, in_rows, grad.index_select(0, out_rows) @ weight)
    if sums is not result:
        result.copy_(sums)


def _weights(filters: Any, layout: Layout) -> Any:
    """[K, Co, Ci]: what a row of output_grad is multiplied with at each offset."""
    if layout in (Layout.NHWC, Layout.NDHWC):
        ordered = filters.flatten(1, -2).transpose(0, 1)
    elif layout in (Layout.NCHW, Layout.NCDHW):
        ordered = filters.flatten(2).permute(2, 0, 1)
    else:
        # Kd, Kh, Kw, Ci, Co; HWCN is the same order with N for Co.
        ordered = filters.flatten(0, -3).transpose(1, 2)
    return ordered.contiguous()


# The C functions: §2.2 of the document.


C_API = (
    CSignature(
        CFunction(
            "mluOpIndiceConvolutionBackwardData",
            (
                HANDLE,
                *tensor("output_grad", "filters", "indice_pairs"),
                *host_array("indice_num", type=CType.INT64),
                *scalar("inverse", "sub_m", type=CType.INT64),
                WORKSPACE,
                WORKSPACE_SIZE,
                *tensor("input_grad"),
            ),
        ),
        query=CFunction(
            "mluOpGetIndiceConvolutionBackwardDataWorkspaceSize",
            (
                HANDLE,
                *descriptor("output_grad", "filters", "indice_pairs", "input_grad"),
                *host_array("indice_num", type=CType.INT64),
                *scalar("inverse", type=CType.INT64),
                ASKED_SIZE,
            ),
        ),
    ),
)


def theory(call: OpCall) -> Theory:
    """A product per pair and per entry of its matrix."""
    _, channels_in, channels_out = extents(call.tensor("filters").desc)
    return pairs_theory(call, channels_in, channels_out)


OPERATOR: Final = Operator(
    name="indice_convolution_backward_data",
    released_name="indice_convolution_backward_data",
    op_type=("INDICE_CONVOLUTION_BACKWARD_DATA", 900),
    summary="Adds, for every pair of rows and its kernel offset, the output gradient times Wᵀ to the input gradient.",
    inputs=(
        TensorSpec("output_grad", "[Y, Co]", _FLOATS),
        TensorSpec("filters", "[[Kd,] Kh, Kw, Ci, Co] as ARRAY, permuted as the layout says", _FLOATS, LAYOUTS),
        TensorSpec("indice_pairs", "[K, 2, L]", (DType.INT32,)),
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
    checks=CHECKS,
    subsumed={
        "indice_pairs_empty": "without columns input_grad has no rows, without kernel offsets filters is empty: both "
        "answer before"
    },
    queries=QUERIES,
    not_together=NOT_TOGETHER,
    answered_anyway=ANSWERED_ANYWAY,
    reference=reference,
    precondition=precondition,
    # The document says nothing of NaN and Inf.
    left_open={"undefined": find_nonfinite, "subnormal": find_subnormal},
    kernel=kernel,
    theory=theory,
    bound=bound,
    sizes=SIZES,
    suspects=SUSPECTS,
    c_api=C_API,
    exact=elements,
    torch_kernel=torch_kernel,
)
