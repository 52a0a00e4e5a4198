"""The parameter checks in the order of §3; the first that does not hold decides the status."""

from mluops_gtest.authoring import DType
from mluops_gtest.authoring.checks import (
    arch_supported,
    contiguous,
    descriptors_present,
    dim,
    dtype,
    handle_present,
    not_empty,
    not_large,
    pointers_present,
    rank,
    require,
)

_TENSORS = ("values", "segments", "output")

CHECKS = (
    handle_present("§3"),
    arch_supported("§3"),
    *descriptors_present(_TENSORS, "§3"),
    rank("values", 2, "§2"),
    rank("segments", 1, "§2"),
    rank("output", 2, "§2"),
    dtype("values", (DType.FLOAT, DType.HALF), "§2"),
    dtype("segments", (DType.INT32,), "§2"),
    require(
        "output_dtype",
        lambda call: call.tensor("output").dtype is call.tensor("values").dtype,
        "output must have the type of values",
        "§2",
    ),
    dim("segments", 0, lambda call: call.tensor("values").dims[0], "segments must have an element per row", "§2"),
    dim("output", 0, lambda call: call.param("num_segments"), "output must have num_segments rows", "§2"),
    dim("output", 1, lambda call: call.tensor("values").dims[1], "output must have the channels of values", "§2"),
    *contiguous(_TENSORS, "§2"),
    *not_large(("output", "values"), "§2"),
    not_empty("output", "§3"),
    *pointers_present(_TENSORS, "§3"),
)

# Pairs that no case breaks together: a tensor without elements is neither strided nor large, and what one check needs
# of tied shapes and parameters keeps the other.
NOT_TOGETHER = {
    "output_strided": ("output_empty",),
    "output_large": ("output_empty",),
}
