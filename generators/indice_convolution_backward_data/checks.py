"""The parameter checks in their normative order; the first that does not hold decides the status."""

from typing import Final

from mluops_gtest.authoring import SIZE_NULL, DType, Layout, OpCall, QueryChecks, Status, checks

from .._shared.connections import Extents, axis_letters, extents

LAYOUTS: Final = (Layout.NHWC, Layout.NCHW, Layout.HWCN, Layout.NCDHW, Layout.NDHWC, Layout.ARRAY)
RANKS: Final = (4, 5)
# More input rows than this are not supported.
ROWS_LIMIT: Final = 1_000_000

_TENSORS: Final = ("output_grad", "filters", "indice_pairs", "input_grad")
# §3.8.2 and the large-tensor checks of §3.8.5 begin with the output.
_OUTPUT_FIRST: Final = ("input_grad", "output_grad", "filters", "indice_pairs")
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
    checks.handle_present("§3.8.1"),
    *checks.descriptors_present(_TENSORS, "§3.8.1"),
    *checks.param_arrays_present(["indice_num"], "released"),
    checks.arch_supported("§3.8.1"),
    checks.rank("output_grad", 2, "§3.8.4"),
    checks.rank("filters", RANKS, "§3.8.4"),
    checks.rank("indice_pairs", 3, "§3.8.4"),
    checks.rank("input_grad", 2, "§3.8.4"),
    checks.dim("indice_pairs", 1, 2, "indice_pairs must be [K, 2, L]", "§3.8.4"),
    checks.require(
        "indice_pairs_rows",
        lambda call: _dim(call, "indice_pairs", 2) <= ROWS_LIMIT,
        f"indice_pairs must have at most {ROWS_LIMIT} columns",
        "§1.4, as released",
        Status.NOT_SUPPORTED,
    ),
    checks.dtype("output_grad", _FLOATS, "§3.8.4"),
    checks.dtype("filters", _FLOATS, "§3.8.4"),
    checks.dtype("input_grad", _FLOATS, "§3.8.4"),
    checks.dtype("indice_pairs", (DType.INT32,), "§3.8.4"),
    checks.layout("filters", LAYOUTS, "§3.8.4"),
    # §3.8.4 looks at the layout's name alone; a layout whose axes are not those of the tensor has no K, Ci, Co.
    checks.require("filters_layout_rank", _layout_fits_rank, "the layout of filters must fit its rank", "§1.1, §3.8.4"),
    *checks.contiguous(_TENSORS, "§1.4"),
    checks.require("inverse", lambda call: call.param("inverse") in (0, 1), "inverse must be 0 or 1", "§3.8.5"),
    checks.require("sub_m", lambda call: call.param("sub_m") in (0, 1), "sub_m must be 0 or 1", "§3.8.5"),
    checks.require(
        "indice_num_negative",
        lambda call: min(call.param("indice_num"), default=0) >= 0,
        "no entry of indice_num may be negative",
        "§3.8.5",
    ),
    checks.require(
        "inverse_unsupported",
        lambda call: call.param("inverse") == 0,
        "inverse = 1 is not supported",
        "§1.4, §3.8.5",
        Status.NOT_SUPPORTED,
    ),
    checks.dim("indice_pairs", 0, lambda call: _extents(call).offsets, "indice_pairs[0] must be Kd·Kh·Kw", "§3.8.5"),
    checks.dim("output_grad", 1, lambda call: _extents(call).channels_out, "output_grad[1] must be Co", "§3.8.5"),
    checks.dim("input_grad", 1, lambda call: _extents(call).channels_in, "input_grad[1] must be Ci", "§3.8.5"),
    checks.dim(
        "input_grad", 0, lambda call: _dim(call, "indice_pairs", 2), "input_grad[0] must be indice_pairs[2]", "§3.8.5"
    ),
    checks.require(
        "indice_num_fits_pairs",
        lambda call: _largest_count(call) <= _dim(call, "indice_pairs", 2),
        "no entry of indice_num may exceed indice_pairs[2]",
        "§3.8.5",
    ),
    checks.require(
        "sub_m_rows",
        lambda call: call.param("sub_m") == 0 or _dim(call, "input_grad", 0) == _dim(call, "output_grad", 0),
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
        lambda call: _dim(call, "output_grad", 0) >= _largest_count(call),
        "output_grad must have at least as many rows as the largest entry of indice_num",
        "§3.8.5",
    ),
    checks.require(
        "sub_m_even_kernel",
        lambda call: call.param("sub_m") == 0 or _extents(call).offsets % 2 == 1,
        "with sub_m the number of kernel offsets must be odd",
        "§1.4, §3.8.5",
    ),
    checks.same_dtype("input_grad", "output_grad", "§1.4, §3.8.5", "dtype_equal"),
    checks.same_dtype("filters", "output_grad", "§1.4, §3.8.5", "dtype_equal"),
    *checks.not_large(_OUTPUT_FIRST, "§3.8.5"),
    checks.not_empty("input_grad", "§3.8.2"),
    checks.not_empty("output_grad", "§3.8.2"),
    checks.not_empty("filters", "§3.8.2"),
    checks.require(
        "indice_pairs_empty",
        lambda call: not call.tensor("indice_pairs").desc.is_empty,
        "indice_pairs has no elements",
        "§3.8.2",
        Status.SUCCESS,
        subsumed="without columns input_grad has no rows, without kernel offsets filters is empty: both answer before",
    ),
    *checks.pointers_present(_TENSORS, "§3.8.1"),
    checks.workspace_present("§3.8.3"),
)

# The operator's own checks up to the early return, without those that need sub_m, which the query does not take. No
# case breaks another check beside the size, whose place is open.
QUERIES: Final = {
    "mluOpGetIndiceConvolutionBackwardDataWorkspaceSize": QueryChecks(
        (
            SIZE_NULL,
            *(name for name in checks.names_before("output_grad_ptr_null", CHECKS) if not name.startswith("sub_m")),
        )
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
    "indice_pairs_rows": (
        "indice_pairs_dim0",
        "indice_num_fits_pairs",
        "output_grad_rows",
        "sub_m_even_kernel",
    ),
    "output_grad_strided": (
        "output_grad_rows",
        "output_grad_empty",
    ),
    "filters_strided": (
        "output_grad_rows",
        "sub_m_even_kernel",
        "filters_empty",
    ),
    "indice_pairs_strided": ("output_grad_rows",),
    "input_grad_strided": ("input_grad_empty",),
    "inverse_unsupported": ("output_grad_rows",),
    "input_grad_dim1": ("indice_pairs_large",),
    "input_grad_dim0": (
        "filters_large",
        "indice_pairs_large",
    ),
    "indice_num_fits_pairs": (
        "input_grad_large",
        "filters_large",
        "indice_pairs_large",
        "filters_empty",
    ),
    "sub_m_rows": (
        "input_grad_large",
        "filters_large",
        "indice_pairs_large",
    ),
    "sub_m_centre": (
        "input_grad_large",
        "output_grad_large",
        "filters_large",
        "indice_pairs_large",
        "output_grad_empty",
    ),
    "output_grad_rows": (
        "input_grad_large",
        "output_grad_large",
        "filters_large",
        "indice_pairs_large",
    ),
    "sub_m_even_kernel": (
        "input_grad_large",
        "output_grad_large",
        "filters_large",
        "indice_pairs_large",
        "input_grad_empty",
        "output_grad_empty",
    ),
    "input_grad_dtype_equal": (
        "input_grad_large",
        "filters_large",
        "indice_pairs_large",
    ),
    "filters_dtype_equal": ("indice_pairs_large",),
    "input_grad_large": (
        "input_grad_empty",
        "output_grad_empty",
        "filters_empty",
    ),
    "output_grad_large": (
        "input_grad_empty",
        "output_grad_empty",
        "filters_empty",
    ),
    "filters_large": (
        "input_grad_empty",
        "output_grad_empty",
        "filters_empty",
    ),
}
