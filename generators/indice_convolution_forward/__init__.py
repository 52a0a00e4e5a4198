"""indice_convolution_forward: a sparse convolution over the pairs of rows that get_indice_pairs finds."""

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

from .._shared.connections import offsets_size, pairs_in_use, pairs_size, weights_by_offset
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

# The parameter checks in their normative order; the first that does not hold decides the status.
CHECKS: Final = (
    checks.handle("§3.8 (1)"),
    checks.descriptors(doc="§3.8 (1)"),
    checks.arrays(doc="§3.8 (1)"),
    checks.arch("§3.8 (2)"),
    checks.dtypes("features", "filters", doc="§1.1, §3.8 (5)"),
    checks.dtypes("indice_pairs", doc="§1.3, §3.8 (5)"),
    checks.dtypes("features_out", doc="§1.1, §3.8 (5)"),
    checks.dtypes("filters = features", "features_out = features", doc="§1.1, §3.8 (5)", name="dtype_equal"),
    checks.params("sub_m", "inverse", doc="§1.3"),
    inverse_supported("§1.4, §3.8 (6)"),
    # Not BAD_PARAM: the released API tests ask for NOT_SUPPORTED here and for the rank of filters.
    checks.layouts("filters", doc="§1.1, §3.8 (5), as released", status=Status.NOT_SUPPORTED),
    checks.ranks("features", "indice_pairs", "features_out", doc="§1.3, §3.8 (5)"),
    rows_within_limit("released", Status.NOT_SUPPORTED),
    checks.ranks("filters", doc="§1.4, §3.8 (5), as released", status=Status.NOT_SUPPORTED),
    checks.strided(doc="§1.4"),
    checks.large(doc="released"),
    checks.dims("features.0 = indice_pairs.2", "features.1", "indice_pairs.0", "indice_pairs.1", doc="§1.3"),
    checks.dims("features_out.0", doc="§1.4"),
    checks.dims("features_out.1", doc="§1.3"),
    checks.params("indice_num", doc="§1.3", name="{}_negative"),
    counts_fit_pairs("§1.3"),
    checks.empty("features", doc="§1.1, §3.8 (3)"),
    # §1.1 and §3.8 (3) forbid an empty filter. It is only empty where Ci, Co or K is 0, and then features, features_out
    # or indice_pairs is empty too, for which the same paragraphs ask for the early return.
    checks.empty("filters", doc="released; §1.1, §3.8 (3) refuse it"),
    checks.empty("indice_pairs", "features_out", doc="§1.1, §3.8 (3)"),
    checks.pointers(doc="§3.8 (1)"),
    checks.workspace("§3.8 (4)"),
)


def products_of(call: OpCall) -> Products:
    """Each output row of a pair receives its input row of features times W_k [Ci, Co]; a row that no pair names is +0.

    sub_m does not occur here: §1.3 calls it a mode, but the pairs already are those of a submanifold convolution.
    """
    # §1.2 takes filter element (k / Kw, k % Kw), its 2-D form; of §1.1's three axes k = (kd·Kh + kh)·Kw + kw.
    weights = weights_by_offset(call.array("filters"), call.tensor("filters").layout)
    # §3.1: indice_num[k] entries are computed with; whatever stands behind them is legal. §1.2's formula exchanges the
    # rows of a pair; §3.1 gathers by row 0 and scatters by row 1, as get_indice_pairs writes them and as a dense
    # convolution confirms.
    used = pairs_in_use(call.array("indice_pairs"), call.param("indice_num"))
    # §1.4: num_act_out is the right number of output rows; a check compares it with features_out.
    meetings = tuple(pairs[::-1] for pairs in used)
    return Products(call.array("features"), weights, meetings, call.param("num_active_out"))


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """One element of features_out: features_out[pairs[k, 1, l], :] += features[pairs[k, 0, l], :] · W_k (§3.1)."""
    features, pairs = call.array("features"), call.array("indice_pairs")
    weights = offset_weights(call.array("filters"), call.tensor("filters").layout)

    def features_out(row: int, channel: int) -> Fraction | float:
        named = pairs_naming(row, 1, pairs, call.param("indice_num"))
        return total([products(features[site], weights[k, :, channel]) for k, site in named])

    return {"features_out": features_out}


# The kernel shares nothing with the reference: its own checks one after the other, then float32 sums gathered per
# output row, without a scatter.


def kernel(call: OpCall) -> Status:
    """Answer the status of the call and, where it computes, write features_out."""
    for stage in (_presence, _types_and_modes, _supported, _relations, _emptiness, _pointers):
        status = stage(call)
        if status is not None:
            return status
    rows = call.array("features").astype(np.float32, copy=False)
    weights = stacked_weights(call.array("filters"), call.tensor("filters").layout, to=1)
    gather_sums(rows, weights, call.array("indice_pairs"), call.param("indice_num"), call.array("features_out"), to=1)
    return Status.SUCCESS


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


OPERATOR: Final = Operator(
    name="indice_convolution_forward",
    released_name="indice_convolution_forward",
    op_type=("INDICE_CONVOLUTION_FORWARD", 902),
    summary="Adds, for every pair of rows and its kernel offset, the input features times W to the output features.",
    inputs=(
        TensorSpec("features", "[L, Ci]", FLOATS),
        # §1.1 gives only NDHWC's shape and §3.7 prints ARRAY's: both are right for their layout.
        TensorSpec(
            "filters",
            "[Kd, Kh, Kw, Ci, Co] as ARRAY, [Co, Kd, Kh, Kw, Ci] as NDHWC, [Co, Ci, Kd, Kh, Kw] as NCDHW",
            FLOATS,
            (Layout.NDHWC, Layout.NCDHW, Layout.ARRAY),
        ),
        TensorSpec("indice_pairs", "[Kd·Kh·Kw, 2, L]", (DType.INT32,)),
    ),
    outputs=(OutputSpec("features_out", "[num_active_out, Co]", CRITERIA),),
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
    axes={
        "rows_in": axis("L", of="features"),
        "rows_out": axis("num_active_out", of="features_out"),
        "channels_in": axis("Ci", of="filters"),
        "channels_out": axis("Co", of="filters"),
    },
    sizes={"offsets": offsets_size(), "pairs": pairs_size("features", 0)},
    checks=CHECKS,
    subsumed={
        "indice_pairs_empty": "without columns features has no rows, without kernel offsets filters is empty: both "
        "answer before"
    },
    # As released: a call that ends early does not come to the size.
    queries={"mluOpGetIndiceConvolutionForwardWorkspaceSize": QueryChecks(("… features_ptr_null", SIZE_NULL))},
    definition=define_products("features", "features_out", products_of, to=1),
    # §1.1 calls a negative index invalid; the released kernel reads with it. No case has one before indice_num[k].
    precondition=sound_pairs("features_out"),
    # The document says nothing of NaN and Inf.
    left_open={"undefined": find_nonfinite, "subnormal": find_subnormal},
    exact=elements,
    kernel=kernel,
    torch_kernel=torch_products("features", "features_out", to=1),
    # §2.2 prints the size as a value; a query needs somewhere to write it.
    c_api=convolution_function("IndiceConvolutionForward", "num_active_out", "inverse", "sub_m"),
)
