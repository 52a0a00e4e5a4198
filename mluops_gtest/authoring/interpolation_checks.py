"""The ordered checks of operators that name three weighted cells per point, in both directions."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from mluops_gtest.authoring.checks import (
    contiguous,
    descriptors_present,
    dim,
    dtype,
    handle_present,
    layout,
    not_empty,
    not_large,
    pointers_present,
    rank,
    same_dtype,
)
from mluops_gtest.core.call import OpCall, Status
from mluops_gtest.core.operator import Check
from mluops_gtest.core.tensor import DType, Layout

# Without one of these another check answers with the same status.
ANSWERED_ANYWAY: Final = {"indices_large": "weights has the same shape"}


def interpolation_checks(read: str, written: str, *, points: str, cells: str) -> tuple[Check, ...]:
    """From `read` to `written`, of which one is `points` [B, C, N] and the other `cells` [B, C, M]."""
    tensors = (read, "indices", "weights", written)
    *not_too_large, weights_not_large = not_large((read, written, "indices", "weights"), "released")
    return (
        handle_present("§3.7"),
        *descriptors_present(tensors, "§3.7"),
        *(rank(tensor, 3, "§1.4") for tensor in tensors),
        *(layout(tensor, (Layout.ARRAY,), "§1.1") for tensor in tensors),
        same_dtype(read, "weights", "§1.4"),
        dtype("indices", (DType.INT32,), "§1.4"),
        same_dtype(written, "weights", "§1.4"),
        dtype("weights", (DType.HALF, DType.FLOAT), "§1.4"),
        _same_dim(read, 0, "indices", 0),
        *(_same_dim("indices", axis, "weights", axis) for axis in range(3)),
        dim("weights", 2, 3, "weights must have three entries per point", "§1.4"),
        _same_dim(written, 0, read, 0),
        _same_dim(written, 1, read, 1),
        _same_dim(points, 2, "indices", 1),
        *contiguous(tensors, "§1.4"),
        *not_too_large,
        replace(weights_not_large, subsumed="weights has the dims of indices, which is checked first"),
        not_empty(points, "§1.1", Status.BAD_PARAM),
        *(_not_empty_with(tensor, points) for tensor in ("indices", "weights")),
        # §1.1 refuses M = 0 as it refuses B, C and N = 0; the library succeeds without writing.
        not_empty(cells, "released; §1.1 refuses it"),
        *pointers_present(tensors, "§3.7"),
    )


def exclusive_checks(read: str, written: str) -> Mapping[str, tuple[str, ...]]:
    """`not_together`: a tensor without elements is neither strided nor large."""
    return {f"{tensor}_{kind}": (f"{tensor}_empty",) for kind in ("strided", "large") for tensor in (read, written)}


def _same_dim(tensor: str, axis: int, other: str, other_axis: int) -> Check:
    def wanted(call: OpCall) -> int:
        return call.tensor(other).dims[other_axis]

    return dim(tensor, axis, wanted, f"axis {axis} of {tensor} must be as long as axis {other_axis} of {other}", "§1.4")


def _not_empty_with(tensor: str, points: str) -> Check:
    subsumed = f"{tensor} is [B, N, 3]; with B or N = 0 {points} is empty, too, and is checked first"
    return replace(not_empty(tensor, "§3.7", Status.BAD_PARAM), subsumed=subsumed)
