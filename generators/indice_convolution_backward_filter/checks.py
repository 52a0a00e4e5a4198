"""The parameter checks in their normative order; the first that does not hold decides the status."""

import math
from typing import Final

from mluops_gtest.authoring import SIZE_NULL, DType, OpCall, QueryChecks, Status, checks

# More input rows than this are refused.
ROWS_LIMIT: Final = 1_000_000

_TENSORS: Final = ("features", "output_grad", "indice_pairs", "filters_grad")
_FLOATS: Final = (DType.FLOAT, DType.HALF)
# §1.4: [Kh, Kw, Ci, Co] and [Kd, Kh, Kw, Ci, Co].
_RANKS: Final = (4, 5)


def _dim(call: OpCall, tensor: str, axis: int) -> int:
    return call.tensor(tensor).dims[axis]


# Neither sub_m nor an entry of indice_num is checked, nor is any layout: §1.4 has ARRAY stand for DHWCN and HWCN.
CHECKS: Final = (
    checks.handle_present("§1.3"),
    *checks.descriptors_present(_TENSORS, "§1.3"),
    *checks.param_arrays_present(["indice_num"], "§1.3, §1.4"),
    # Forward and backward data answer NOT_SUPPORTED here, and only to 1.
    checks.require("inverse", lambda call: call.param("inverse") == 0, "inverse must be 0", "§1.4, as released"),
    *checks.contiguous(_TENSORS, "§1.1"),
    checks.arch_supported("released"),
    checks.dtype("indice_pairs", (DType.INT32,), "§1.1, §1.3"),
    checks.dtype("features", _FLOATS, "§1.1, §1.3"),
    checks.same_dtype("output_grad", "features", "§1.1, as released", "dtype_equal"),
    checks.same_dtype("filters_grad", "features", "§1.1, as released", "dtype_equal"),
    *checks.not_large(_TENSORS, "released"),
    checks.rank("features", 2, "§1.1"),
    checks.rank("output_grad", 2, "§1.1"),
    checks.rank("indice_pairs", 3, "§1.1"),
    checks.rank("filters_grad", _RANKS, "§1.1, §1.4"),
    checks.dim("features", 1, lambda call: _dim(call, "filters_grad", -2), "features[1] must be Ci", "§1.1, §1.4"),
    checks.dim(
        "output_grad", 1, lambda call: _dim(call, "filters_grad", -1), "output_grad[1] must be Co", "§1.1, §1.4"
    ),
    checks.dim(
        "features", 0, lambda call: _dim(call, "indice_pairs", 2), "features[0] must be indice_pairs[2]", "§1.1"
    ),
    checks.dim("indice_pairs", 1, 2, "indice_pairs must be [K, 2, L]", "§1.1"),
    checks.dim(
        "indice_pairs",
        0,
        lambda call: math.prod(call.tensor("filters_grad").dims[:-2]),
        "indice_pairs[0] must be Kd·Kh·Kw",
        "§1.1, §1.4",
    ),
    # §1.1 knows no limit of sizes; the released code has this one.
    checks.require(
        "indice_pairs_rows",
        lambda call: _dim(call, "indice_pairs", 2) <= ROWS_LIMIT,
        f"indice_pairs must have at most {ROWS_LIMIT} columns",
        "released",
    ),
    checks.not_empty("features", "§1.1"),
    checks.not_empty("output_grad", "§1.1"),
    checks.not_empty("indice_pairs", "§1.1"),
    checks.require(
        "filters_grad_empty",
        lambda call: not call.tensor("filters_grad").desc.is_empty,
        "filters_grad has no elements",
        "§1.1",
        Status.SUCCESS,
        subsumed="without channels features or output_grad is empty, without offsets indice_pairs: all answer before",
    ),
    *checks.pointers_present(_TENSORS, "§1.3"),
    checks.workspace_present("§2.2"),
)

# As released: the size comes first.
QUERIES: Final = {
    "mluOpGetIndiceConvolutionBackwardFilterWorkspaceSize": QueryChecks(
        (SIZE_NULL, *checks.names_before("features_ptr_null", CHECKS))
    )
}

# Without one of these another check answers with the same status.
ANSWERED_ANYWAY: Final = {
    "features_empty": "without rows indice_pairs is empty, without channels filters_grad is",
    "indice_pairs_empty": "without rows features is empty, without offsets filters_grad is",
}

# A tensor without elements is neither strided nor large.
NOT_TOGETHER: Final = {
    f"{tensor}_{refused}": (f"{tensor}_empty",)
    for tensor in ("features", "output_grad", "indice_pairs")
    for refused in ("strided", "large")
}
