"""The parameter checks in the released order; neither the device's architecture nor a layout is among them."""

from dataclasses import replace

from mluops_gtest.authoring import SIZE_NULL, Check, DType, QueryChecks, Status
from mluops_gtest.authoring.checks import (
    contiguous,
    descriptors_present,
    dim,
    dtype,
    handle_present,
    not_empty,
    not_large,
    pointers_present,
    rank,
    same_dtype,
    workspace_present,
)

TENSORS = ("unknown", "known", "dist2", "idx")
_OF_UNKNOWN = "has as many elements as unknown, which is asked first"


def _as_unknown(tensor: str, axis: int, size: str) -> Check:
    message = f"axis {axis} of {tensor} must be {size}, as that of unknown"
    return dim(tensor, axis, lambda call: call.tensor("unknown").dims[axis], message, "§3.8 (3)")


def _not_large() -> tuple[Check, ...]:
    unknown, known, *outputs = not_large(TENSORS, "released")
    return (unknown, known, *(replace(check, subsumed=_OF_UNKNOWN) for check in outputs))


def _outputs_not_empty() -> tuple[Check, ...]:
    found = (not_empty(tensor, "§1.1", Status.BAD_PARAM) for tensor in ("dist2", "idx"))
    return tuple(replace(check, subsumed=_OF_UNKNOWN) for check in found)


CHECKS = (
    handle_present("§3.8 (1)"),
    *descriptors_present(TENSORS, "§3.8 (1)"),
    *(rank(tensor, 3, "§3.8 (3)") for tensor in TENSORS),
    *(_as_unknown(tensor, 0, "B") for tensor in ("known", "dist2", "idx")),
    # M is free: the header's known[1] = N is a slip.
    *(_as_unknown(tensor, 1, "N") for tensor in ("dist2", "idx")),
    *(dim(tensor, 2, 3, f"axis 2 of {tensor} must be 3", "§3.8 (3)") for tensor in TENSORS),
    dtype("unknown", (DType.FLOAT, DType.HALF), "§3.8 (4)"),
    *(same_dtype(tensor, "unknown", "§1.4") for tensor in ("known", "dist2")),
    dtype("idx", (DType.INT32,), "§1.3"),
    *contiguous(TENSORS, "§1.4"),
    *_not_large(),
    not_empty("unknown", "§1.1", Status.BAD_PARAM),
    *_outputs_not_empty(),
    # §1.1: without known points nothing is written, not even +Inf and 0.
    not_empty("known", "§1.1"),
    # §3.8 lists the pointers second; the released order has them last, so an early answer does not look at them.
    workspace_present("§3.8 (6)"),
    *pointers_present(TENSORS, "§3.8 (2)"),
)

# The released query looks at known alone. Whether it may refuse more of it than the rank is said nowhere.
_OPEN = (
    dim("known", 2, 3, "axis 2 of known must be 3", "§3.8 (3)"),
    dtype("known", (DType.FLOAT, DType.HALF), "§3.8 (4)"),
    *contiguous(["known"], "§1.4"),
    *not_large(["known"], "§3.8"),
)
QUERIES = {
    "mluOpGetThreeNNForwardWorkspaceSize": QueryChecks(
        ("handle_null", "known_desc_null", SIZE_NULL, "known_rank", *_OPEN), silent=tuple(check.name for check in _OPEN)
    )
}

# Without one of these another check answers with the same status.
ANSWERED_ANYWAY = {
    "unknown_large": "dist2 and idx have as many elements",
    "unknown_empty": "dist2 and idx have no elements either",
}

# Pairs for which a bounded search found no call that breaks both: most exclude each other (a tensor without elements
# is neither strided nor large), the others are not proved to.
NOT_TOGETHER = {
    "unknown_strided": ("unknown_empty",),
    "known_strided": ("known_empty",),
    "dist2_strided": ("unknown_empty",),
    "idx_strided": ("unknown_empty",),
    "unknown_large": ("unknown_empty",),
    "known_large": ("known_empty",),
}
