"""indice_convolution_forward: a sparse convolution over the pairs of rows that get_indice_pairs finds."""

import math
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
    TensorDesc,
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
    broken_pairs,
    extents,
    offsets_size,
    pairs_in_use,
    pairs_size,
    pairs_theory,
    weights_by_offset,
)
from .._shared.products import Products, bound_of, gather_sums, products_suspects, summed
from .._shared.wrong_pairs import Rows, wrong_pairs
from .._shared.wrong_products import wrong_weights

# §1.5.1
CRITERIA: Final[dict[DType, tuple[Criterion, ...]]] = {
    DType.FLOAT: diff1_and_diff2(1e-5),
    DType.HALF: diff1_and_diff2(3e-3),
}


# The parameter checks in their normative order; the first that does not hold decides the status.


# §1.1 gives only NDHWC's shape and §3.7 prints ARRAY's: both are right for their layout.
LAYOUTS: Final = (Layout.NDHWC, Layout.NCDHW, Layout.ARRAY)
# More input rows than this are not supported.
ROWS_LIMIT: Final = 1_000_000

_FLOATS: Final = (DType.FLOAT, DType.HALF)


def _extents(call: OpCall) -> Extents:
    return extents(call.tensor("filters").desc)


def _dim(call: OpCall, tensor: str, axis: int) -> int:
    return call.tensor(tensor).dims[axis]


CHECKS: Final = (
    handle("§3.8 (1)"),
    descriptors(doc="§3.8 (1)"),
    arrays(doc="§3.8 (1)"),
    arch("§3.8 (2)"),
    dtypes("features", "filters", doc="§1.1, §3.8 (5)"),
    dtypes("indice_pairs", doc="§1.3, §3.8 (5)"),
    dtypes("features_out", doc="§1.1, §3.8 (5)"),
    dtypes("filters = features", "features_out = features", doc="§1.1, §3.8 (5)", name="dtype_equal"),
    params("sub_m", "inverse", doc="§1.3"),
    require(
        "inverse_unsupported",
        lambda call: call.param("inverse") == 0,
        "inverse = 1 is not supported",
        "§1.4, §3.8 (6)",
        Status.NOT_SUPPORTED,
    ),
    # Not BAD_PARAM: the released API tests ask for NOT_SUPPORTED here and for the rank of filters.
    layouts("filters", doc="§1.1, §3.8 (5), as released", status=Status.NOT_SUPPORTED),
    ranks("features", "indice_pairs", "features_out", doc="§1.3, §3.8 (5)"),
    require(
        "indice_pairs_rows",
        lambda call: _dim(call, "indice_pairs", 2) <= ROWS_LIMIT,
        f"indice_pairs must have at most {ROWS_LIMIT} columns",
        "released",
        Status.NOT_SUPPORTED,
    ),
    ranks("filters", doc="§1.4, §3.8 (5), as released", status=Status.NOT_SUPPORTED),
    strided(doc="§1.4"),
    large(doc="released"),
    dims("features.0 = indice_pairs.2", doc="§1.3"),
    dim("features", 1, lambda call: _extents(call).channels_in, "features[1] must be Ci", "§1.3"),
    dim("indice_pairs", 0, lambda call: _extents(call).offsets, "indice_pairs[0] must be Kd·Kh·Kw", "§1.3"),
    dims("indice_pairs.1", doc="§1.3"),
    dim("features_out", 0, lambda call: call.param("num_active_out"), "features_out[0] must be num_act_out", "§1.4"),
    dim("features_out", 1, lambda call: _extents(call).channels_out, "features_out[1] must be Co", "§1.3"),
    params("indice_num", doc="§1.3", name="{}_negative"),
    require(
        "indice_num_fits_pairs",
        lambda call: all(count <= _dim(call, "indice_pairs", 2) for count in call.param("indice_num")),
        "no entry of indice_num may exceed indice_pairs[2]",
        "§1.3",
    ),
    empty("features", doc="§1.1, §3.8 (3)"),
    # §1.1 and §3.8 (3) forbid an empty filter. It is only empty where Ci, Co or K is 0, and then features, features_out
    # or indice_pairs is empty too, for which the same paragraphs ask for the early return.
    empty("filters", doc="released; §1.1, §3.8 (3) refuse it"),
    empty("indice_pairs", "features_out", doc="§1.1, §3.8 (3)"),
    pointers(doc="§3.8 (1)"),
    workspace("§3.8 (4)"),
)

# As released: a call that ends early does not come to the size.
QUERIES: Final = {"mluOpGetIndiceConvolutionForwardWorkspaceSize": QueryChecks(("… features_ptr_null", SIZE_NULL))}

# Without one of these another check answers with the same status.
ANSWERED_ANYWAY = {
    "features_dtype": "filters has another dtype, or the same wrong one",
    "filters_dtype": "features has another dtype, or the same wrong one",
    "features_out_dtype": "features has another dtype, or the same wrong one",
    "features_empty": "without rows indice_pairs is empty, without channels filters is",
    "filters_empty": "without channels features or features_out is empty, without offsets indice_pairs is",
}

# A tensor without elements is neither strided nor large.
NOT_TOGETHER = {
    f"{tensor}_{kind}": (f"{tensor}_empty",)
    for tensor in ("features", "filters", "features_out")
    for kind in ("strided", "large")
}


# What the document takes for granted about the pairs: no kernel can be held to a case that breaks it.


def precondition(call: OpCall) -> str | None:
    """One count per kernel offset; rows that exist, each once per offset; with sub_m a centre of identity (§1.4).

    §1.1 calls a negative index invalid; the released kernel reads with it. No case before indice_num[k] has one.
    """
    return broken_pairs(
        call.array("indice_pairs"),
        call.param("indice_num"),
        offsets=extents(call.tensor("filters").desc).offsets,
        rows_in=call.tensor("features").dims[0],
        rows_out=call.tensor("features_out").dims[0],
        sub_m=call.param("sub_m") == 1,
    )


# What cases are declared for in size.


SIZES: Final[Mapping[str, SizedAxis]] = {
    "rows_in": SizedAxis("features", 0),
    "rows_out": SizedAxis("features_out", 0),
    "channels_in": SizedAxis("features", 1),
    "channels_out": SizedAxis("features_out", 1),
    "offsets": offsets_size(),
    "pairs": pairs_size("features", 0),
}


# The oracle: the formula of §1.2 with sums that are exact in float64, rounded once.


def reference(call: OpCall) -> Baseline:
    """features_out, the same bits on every machine; a row that no pair names is +0."""
    return Baseline({"features_out": summed(products_of(call))})


def bound(call: OpCall) -> dict[str, Bound]:
    """What arithmetic allows: sums of products in any order."""
    return {"features_out": bound_of(products_of(call))}


def products_of(call: OpCall) -> Products:
    """What the formula adds up in a valid call."""
    # sub_m does not occur here: §1.3 calls it a mode, but the pairs already are those of a submanifold convolution.
    # §1.2 takes filter element (k / Kw, k % Kw), its 2-D form; of §1.1's three axes k = (kd·Kh + kh)·Kw + kw.
    weights = weights_by_offset(call.array("filters"), call.tensor("filters").layout)
    # §3.1: indice_num[k] entries are computed with; whatever stands behind them is legal.
    used = pairs_in_use(call.array("indice_pairs"), call.param("indice_num"))
    # §1.4: num_act_out is the right number of output rows; a check compares it with features_out.
    return forward_products(call.array("features"), weights, used, call.param("num_active_out"))


def forward_products(features: Array, weights: Array, used: tuple[Array, ...], rows_out: int) -> Products:
    """Each output row of a pair receives its input row of features times W_k [Ci, Co]."""
    # §1.2's formula exchanges the rows of a pair; §3.1 gathers by row 0 and scatters by row 1, as get_indice_pairs
    # writes them and as a dense convolution confirms.
    return Products(features, weights, tuple(pairs[::-1] for pairs in used), rows_out)


# Mistakes that kernels make where pairs of several offsets meet in a row, and about matrices and rows.


# Those that a place or a law of values tells already are not among them.
_WEIGHTS = {
    "depth_mirrored", "height_mirrored", "width_mirrored", "width_slowest", "height_for_width", "weights_of_first",
    "weights_of_next", "channels_last_as_array", "array_as_channels_last", "two_dimensional", "weights_transposed",
    "first_input_channel", "last_input_channel",
}  # fmt: skip
_PAIRS = {
    "rows_exchanged", "inputs_twice", "outputs_twice", "positions", "sorted_apart", "stride_of_counts", "first_count",
    "one_pair", "first_pair", "last_pair", "stops_at_empty", "skips_empty", "first_offset", "last_offset",
    "pairs_of_next", "pairs_repeated", "stride_of_outputs", "middle_of_all",
}  # fmt: skip


def _of_weights(weights: Callable[[OpCall], Array]) -> Suspect:
    def outputs(call: OpCall) -> Mapping[str, Array]:
        matrices = np.ascontiguousarray(weights(call))
        return {"features_out": summed(replace(products_of(call), matrices=matrices))}

    return outputs


def _of_rows(rows: Callable[[OpCall], list[Rows]]) -> Suspect:
    def outputs(call: OpCall) -> Mapping[str, Array]:
        right = products_of(call)
        limits = np.array([[right.count], [len(right.rows)]])
        # A row of −1 is the last one.
        meetings = tuple(np.stack((outputs, inputs)).astype(np.int64) % limits for inputs, outputs in rows(call))
        return {"features_out": summed(replace(right, meetings=meetings))}

    return outputs


SUSPECTS = {
    **products_suspects("features_out", products_of),
    **{f"it {one.message}": _of_weights(one.weights) for one in wrong_weights(1) if one.name in _WEIGHTS},
    **{
        f"it {one.message}": _of_rows(one.rows) for one in wrong_pairs("features", "features_out") if one.name in _PAIRS
    },
}


# One element of features_out: features_out[pairs[k, 1, l], :] += features[pairs[k, 0, l], :] · W_k (§3.1).


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """The products of all pairs whose output is the row."""
    features, pairs = call.array("features"), call.array("indice_pairs")
    weights = offset_weights(call.array("filters"), call.tensor("filters").layout)

    def features_out(row: int, channel: int) -> Fraction | float:
        named = pairs_naming(row, 1, pairs, call.param("indice_num"))
        return total([products(features[site], weights[k, :, channel]) for k, site in named])

    return {"features_out": features_out}


# The kernel's own checks, written down one after the other.


def refusal(call: OpCall) -> Status | None:
    """The status of a call that does not compute, or None."""
    for stage in (_presence, _types_and_modes, _supported, _relations, _emptiness, _pointers):
        status = stage(call)
        if status is not None:
            return status
    return None


def _descs(call: OpCall) -> tuple[TensorDesc, TensorDesc, TensorDesc, TensorDesc]:
    return (
        call.tensor("features").desc,
        call.tensor("filters").desc,
        call.tensor("indice_pairs").desc,
        call.tensor("features_out").desc,
    )


def _presence(call: OpCall) -> Status | None:
    descriptors = (*call.inputs.values(), *call.outputs.values())
    if call.handle is None or None in descriptors or call.param("indice_num") is None:
        return Status.BAD_PARAM
    return Status.ARCH_MISMATCH if call.handle.arch < 370 else None


def _types_and_modes(call: OpCall) -> Status | None:
    features, filters, pairs, out = _descs(call)
    if features.dtype not in (DType.HALF, DType.FLOAT) or not features.dtype is filters.dtype is out.dtype:
        return Status.BAD_PARAM
    if pairs.dtype is not DType.INT32:
        return Status.BAD_PARAM
    if call.param("sub_m") not in (0, 1) or call.param("inverse") not in (0, 1):
        return Status.BAD_PARAM
    return None


def _supported(call: OpCall) -> Status | None:
    features, filters, pairs, out = descs = _descs(call)
    if call.param("inverse") == 1 or filters.layout not in (Layout.NDHWC, Layout.NCDHW, Layout.ARRAY):
        return Status.NOT_SUPPORTED
    if (len(features.dims), len(pairs.dims), len(out.dims)) != (2, 3, 2):
        return Status.BAD_PARAM
    if pairs.dims[2] > 1_000_000 or len(filters.dims) != 5:
        return Status.NOT_SUPPORTED
    if any(desc.is_strided or math.prod(desc.dims) >= 2**31 for desc in descs):
        return Status.NOT_SUPPORTED
    return None


def _relations(call: OpCall) -> Status | None:
    features, filters, pairs, out = _descs(call)
    match filters.layout, filters.dims:
        case Layout.NDHWC, (channels_out, depth, height, width, channels_in):
            pass
        case Layout.NCDHW, (channels_out, channels_in, depth, height, width):
            pass
        case _, (depth, height, width, channels_in, channels_out):
            pass
    rows_in = features.dims[0]
    if pairs.dims != (depth * height * width, 2, rows_in) or features.dims[1] != channels_in:
        return Status.BAD_PARAM
    if out.dims != (call.param("num_active_out"), channels_out):
        return Status.BAD_PARAM
    if any(not 0 <= count <= rows_in for count in call.param("indice_num")):
        return Status.BAD_PARAM
    return None


def _emptiness(call: OpCall) -> Status | None:
    return Status.SUCCESS if any(0 in desc.dims for desc in _descs(call)) else None


def _pointers(call: OpCall) -> Status | None:
    if any(arg is None or arg.null for arg in (*call.inputs.values(), *call.outputs.values())):
        return Status.BAD_PARAM
    if call.workspace is None and call.workspace_size > 0:
        return Status.BAD_PARAM
    return None


# An implementation that shares nothing with the reference: float32, gathers per output row, scatters nothing.


def kernel(call: OpCall) -> Status:
    """Answer the status of the call and, where it computes, write features_out."""
    status = refusal(call)
    if status is not None:
        return status
    rows = call.array("features").astype(np.float32, copy=False)
    weights = _stacked_weights(call.array("filters"), call.tensor("filters").layout)
    gather_sums(rows, weights, call.array("indice_pairs"), call.param("indice_num"), call.array("features_out"), to=1)
    return Status.SUCCESS


def _stacked_weights(filters: Array, layout: Layout) -> Array:
    """[K·Ci, Co] float32: under each other the matrices that input rows are multiplied with."""
    if layout is Layout.NDHWC:
        stacked = filters.reshape(filters.shape[0], -1).T
    elif layout is Layout.NCDHW:
        stacked = np.moveaxis(filters.reshape(*filters.shape[:2], -1), 2, 0).swapaxes(1, 2).reshape(-1, len(filters))
    else:
        stacked = filters.reshape(-1, filters.shape[4])
    return np.ascontiguousarray(stacked, np.float32)


# With torch: per kernel offset gather, multiply, index_add_, all in float32.


# Pairs per product on the processor: few enough for the cache, many enough that threads seldom wait for each other.
_TORCH_PAIRS = 16384
# How the axes of a filter become Kd, Kh, Kw, Ci, Co.
_ORDER = {Layout.NDHWC: (1, 2, 3, 4, 0), Layout.NCDHW: (2, 3, 4, 1, 0), Layout.ARRAY: (0, 1, 2, 3, 4)}


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Write features_out; half is computed in float32 and rounded once."""
    import torch

    features = inputs["features"].float()
    weights = inputs["filters"].float().permute(_ORDER[call.tensor("filters").layout]).flatten(0, 2).contiguous()
    result = outputs["features_out"]
    sums = result.zero_() if result.dtype == torch.float32 else torch.zeros_like(result, dtype=torch.float32)
    for pairs, count, weight in zip(inputs["indice_pairs"], call.param("indice_num"), weights, strict=True):
        step = _TORCH_PAIRS if features.device.type == "cpu" else max(1, count)
        for first in range(0, count, step):
            in_rows, out_rows = pairs[:, first : min(first + step, count)]
            sums.index_add_(0, out_rows, features.index_select(0, in_rows) @ weight)
    if sums is not result:
        result.copy_(sums)


# The C functions: §2.2 of the document.


_COUNTS_AND_MODES = (
    *host_array("indice_num", type=CType.INT64),
    *scalar("num_active_out", "inverse", "sub_m", type=CType.INT64),
)

C_API = (
    CSignature(
        CFunction(
            "mluOpIndiceConvolutionForward",
            (
                HANDLE,
                *tensor("features", "filters", "indice_pairs"),
                *_COUNTS_AND_MODES,
                WORKSPACE,
                WORKSPACE_SIZE,
                *tensor("features_out"),
            ),
        ),
        # §2.2 prints the size as a value; a query needs somewhere to write it.
        query=CFunction(
            "mluOpGetIndiceConvolutionForwardWorkspaceSize",
            (
                HANDLE,
                *descriptor("features", "filters", "indice_pairs", "features_out"),
                *_COUNTS_AND_MODES,
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
    name="indice_convolution_forward",
    released_name="indice_convolution_forward",
    op_type=("INDICE_CONVOLUTION_FORWARD", 902),
    summary="Adds, for every pair of rows and its kernel offset, the input features times W to the output features.",
    inputs=(
        TensorSpec("features", "[L, Ci]", _FLOATS),
        TensorSpec("filters", "[Kd, Kh, Kw, Ci, Co] as ARRAY, permuted as the layout says", _FLOATS, LAYOUTS),
        TensorSpec("indice_pairs", "[K, 2, L]", (DType.INT32,)),
    ),
    outputs=(OutputSpec("features_out", "[Y, Co]", CRITERIA),),
    params=ParamMessage(
        field="indice_convolution_forward_param",
        number=23020721,
        message="IndiceConvolutionForwardParam",
        fields=(
            ParamField("num_active_out", 1, "int64", "required"),
            ParamField("inverse", 2, "int64", allowed=(0, 1)),
            ParamField("sub_m", 3, "int64", allowed=(0, 1)),
            ParamField("indice_num", 4, "int64", "repeated", least=0),
        ),
    ),
    checks=CHECKS,
    subsumed={
        "indice_pairs_empty": "without columns features has no rows, without kernel offsets filters is empty: both "
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
