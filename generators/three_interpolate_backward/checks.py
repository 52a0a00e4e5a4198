"""The parameter checks in their normative order; the device's architecture is not among them."""

from dataclasses import replace

from mluops_gtest.authoring import Check, DType, Layout, OpCall, Status
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
    require,
)

TENSORS = ("grad_output", "indices", "weights", "grad_features")


def _same_dtype(tensor: str) -> Check:
    return require(
        f"{tensor}_dtype",
        lambda call: call.tensor(tensor).dtype is call.tensor("weights").dtype,
        f"{tensor} must have the element type of weights",
        "§1.4",
    )


def _same_dim(tensor: str, axis: int, other: str, other_axis: int) -> Check:
    def wanted(call: OpCall) -> int:
        return call.tensor(other).dims[other_axis]

    return dim(tensor, axis, wanted, f"axis {axis} of {tensor} must be as long as axis {other_axis} of {other}", "§1.4")


def _not_large() -> tuple[Check, ...]:
    *others, weights = not_large(("grad_output", "grad_features", "indices", "weights"), "§3.7")
    return (*others, replace(weights, subsumed="weights has the dims of indices, which is checked first"))


def _not_empty(tensor: str) -> Check:
    subsumed = f"{tensor} is [B, N, 3]; with B or N = 0 grad_output is empty, too, and is checked first"
    return replace(not_empty(tensor, "§3.7", Status.BAD_PARAM), subsumed=subsumed)


CHECKS = (
    handle_present("§3.7"),
    *descriptors_present(TENSORS, "§3.7"),
    *(rank(tensor, 3, "§1.4") for tensor in TENSORS),
    *(layout(tensor, (Layout.ARRAY,), "§1.1") for tensor in TENSORS),
    _same_dtype("grad_output"),
    dtype("indices", (DType.INT32,), "§1.4"),
    _same_dtype("grad_features"),
    dtype("weights", (DType.HALF, DType.FLOAT), "§1.4"),
    _same_dim("grad_output", 0, "indices", 0),
    *(_same_dim("indices", axis, "weights", axis) for axis in range(3)),
    dim("weights", 2, 3, "weights must have three entries per point", "§1.4"),
    # §1.3 prints grad_features as [B, C, N]; §1.4's [B, C, M] is right, and M is known from it alone.
    _same_dim("grad_features", 0, "grad_output", 0),
    _same_dim("grad_features", 1, "grad_output", 1),
    _same_dim("grad_output", 2, "indices", 1),
    *contiguous(TENSORS, "§1.4"),
    *_not_large(),
    not_empty("grad_output", "§1.1", Status.BAD_PARAM),
    _not_empty("indices"),
    _not_empty("weights"),
    # §1.1 refuses M = 0 as it refuses B, C and N = 0; the library succeeds, and there is nothing to write.
    not_empty("grad_features", "§1.1"),
    *pointers_present(TENSORS, "§3.7"),
)

# Without one of these another check answers with the same status.
ANSWERED_ANYWAY = {"indices_large": "weights has the same shape"}

# Pairs for which a bounded search found no call that breaks both: most exclude each other (a tensor without elements
# is neither strided nor large), the others are not proved to.
NOT_TOGETHER = {
    "grad_output_strided": ("grad_output_empty",),
    "grad_features_strided": ("grad_features_empty",),
    "grad_output_large": ("grad_output_empty",),
    "grad_features_large": ("grad_features_empty",),
}
