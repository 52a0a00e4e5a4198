"""The parameter checks in their normative order; the first that does not hold decides the status."""

from typing import Final

from mluops_gtest.authoring import SIZE_NULL, DType, Layout, OpCall, QueryChecks, Status, checks

from .._shared.connections import Extents, extents

# §1.1 gives only NDHWC's shape and §3.7 prints ARRAY's: both are right for their layout.
LAYOUTS: Final = (Layout.NDHWC, Layout.NCDHW, Layout.ARRAY)
# More input rows than this are not supported.
ROWS_LIMIT: Final = 1_000_000

_TENSORS: Final = ("features", "filters", "indice_pairs", "features_out")
_FLOATS: Final = (DType.FLOAT, DType.HALF)


def _extents(call: OpCall) -> Extents:
    return extents(call.tensor("filters").desc)


def _dim(call: OpCall, tensor: str, axis: int) -> int:
    return call.tensor(tensor).dims[axis]


CHECKS: Final = (
    checks.handle_present("§3.8 (1)"),
    *checks.descriptors_present(_TENSORS, "§3.8 (1)"),
    *checks.param_arrays_present(["indice_num"], "§3.8 (1)"),
    checks.arch_supported("§3.8 (2)"),
    checks.dtype("features", _FLOATS, "§1.1, §3.8 (5)"),
    checks.dtype("filters", _FLOATS, "§1.1, §3.8 (5)"),
    checks.dtype("indice_pairs", (DType.INT32,), "§1.3, §3.8 (5)"),
    checks.dtype("features_out", _FLOATS, "§1.1, §3.8 (5)"),
    checks.same_dtype("filters", "features", "§1.1, §3.8 (5)", "dtype_equal"),
    checks.same_dtype("features_out", "features", "§1.1, §3.8 (5)", "dtype_equal"),
    checks.require("sub_m", lambda call: call.param("sub_m") in (0, 1), "sub_m must be 0 or 1", "§1.3"),
    checks.require("inverse", lambda call: call.param("inverse") in (0, 1), "inverse must be 0 or 1", "§1.3"),
    checks.require(
        "inverse_unsupported",
        lambda call: call.param("inverse") == 0,
        "inverse = 1 is not supported",
        "§1.4, §3.8 (6)",
        Status.NOT_SUPPORTED,
    ),
    # Not BAD_PARAM: the released API tests ask for NOT_SUPPORTED here and for the rank of filters.
    checks.require(
        "filters_layout",
        lambda call: call.tensor("filters").layout in LAYOUTS,
        "filters must have layout NDHWC, NCDHW or ARRAY",
        "§1.1, §3.8 (5), as released",
        Status.NOT_SUPPORTED,
    ),
    checks.rank("features", 2, "§1.3, §3.8 (5)"),
    checks.rank("indice_pairs", 3, "§1.3, §3.8 (5)"),
    checks.rank("features_out", 2, "§1.3, §3.8 (5)"),
    checks.require(
        "indice_pairs_rows",
        lambda call: _dim(call, "indice_pairs", 2) <= ROWS_LIMIT,
        f"indice_pairs must have at most {ROWS_LIMIT} columns",
        "released",
        Status.NOT_SUPPORTED,
    ),
    checks.require(
        "filters_rank",
        lambda call: len(call.tensor("filters").dims) == 5,
        "filters must have 5 axes",
        "§1.4, §3.8 (5), as released",
        Status.NOT_SUPPORTED,
    ),
    *checks.contiguous(_TENSORS, "§1.4"),
    *checks.not_large(_TENSORS, "released"),
    checks.dim(
        "features", 0, lambda call: _dim(call, "indice_pairs", 2), "features[0] must be indice_pairs[2]", "§1.3"
    ),
    checks.dim("features", 1, lambda call: _extents(call).channels_in, "features[1] must be Ci", "§1.3"),
    checks.dim("indice_pairs", 0, lambda call: _extents(call).offsets, "indice_pairs[0] must be Kd·Kh·Kw", "§1.3"),
    checks.dim("indice_pairs", 1, 2, "indice_pairs must be [K, 2, L]", "§1.3"),
    checks.dim(
        "features_out", 0, lambda call: call.param("num_active_out"), "features_out[0] must be num_act_out", "§1.4"
    ),
    checks.dim("features_out", 1, lambda call: _extents(call).channels_out, "features_out[1] must be Co", "§1.3"),
    checks.require(
        "indice_num_negative",
        lambda call: min(call.param("indice_num"), default=0) >= 0,
        "no entry of indice_num may be negative",
        "§1.3",
    ),
    checks.require(
        "indice_num_fits_pairs",
        lambda call: all(count <= _dim(call, "indice_pairs", 2) for count in call.param("indice_num")),
        "no entry of indice_num may exceed indice_pairs[2]",
        "§1.3",
    ),
    checks.not_empty("features", "§1.1, §3.8 (3)"),
    # §1.1 and §3.8 (3) forbid an empty filter. It is only empty where Ci, Co or K is 0, and then features, features_out
    # or indice_pairs is empty too, for which the same paragraphs ask for the early return.
    checks.not_empty("filters", "released; §1.1, §3.8 (3) refuse it"),
    checks.require(
        "indice_pairs_empty",
        lambda call: not call.tensor("indice_pairs").desc.is_empty,
        "indice_pairs has no elements",
        "§1.1, §3.8 (3)",
        Status.SUCCESS,
        subsumed="without columns features has no rows, without kernel offsets filters is empty: both answer before",
    ),
    checks.not_empty("features_out", "§1.1, §3.8 (3)"),
    *checks.pointers_present(_TENSORS, "§3.8 (1)"),
    checks.workspace_present("§3.8 (4)"),
)

# As released: a call that ends early does not come to the size.
QUERIES: Final = {
    "mluOpGetIndiceConvolutionForwardWorkspaceSize": QueryChecks(
        (*checks.names_before("features_ptr_null", CHECKS), SIZE_NULL)
    )
}

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
