"""The parameter checks in their normative order; the device's architecture comes last."""

from dataclasses import replace

from mluops_gtest.authoring import Check, DType
from mluops_gtest.authoring.checks import (
    arch_supported,
    contiguous,
    descriptors_present,
    dim,
    dtype,
    handle_present,
    not_large,
    pointers_present,
    rank,
    require,
)

# Per tensor: its element type, and what each axis must equal: a scalar parameter or a number.
SHAPES: dict[str, tuple[DType, tuple[str | int, ...]]] = {
    "geom_xyz": (DType.INT32, ("batch_size", "num_points", 3)),
    "input_features": (DType.FLOAT, ("batch_size", "num_points", "num_channels")),
    "output_features": (DType.FLOAT, ("batch_size", "num_voxel_y", "num_voxel_x", "num_channels")),
    "pos_memo": (DType.INT32, ("batch_size", "num_points", 3)),
}
SCALARS = ("batch_size", "num_points", "num_channels", "num_voxel_x", "num_voxel_y", "num_voxel_z")


def _axis(tensor: str, axis: int, wanted: str | int) -> Check:
    message = f"axis {axis} of {tensor} must be {wanted}"
    if isinstance(wanted, int):
        return dim(tensor, axis, wanted, message, "§1.4")
    return dim(tensor, axis, lambda call: call.param(wanted), message, "§1.4")


def _positive(scalar: str) -> Check:
    return require(scalar, lambda call: call.param(scalar) > 0, f"{scalar} must be positive", "§1.4")


def _not_large() -> tuple[Check, ...]:
    *others, memo = not_large(SHAPES, "§3.7")
    return (*others, replace(memo, subsumed="pos_memo has the dims of geom_xyz, which is checked first"))


CHECKS = (
    handle_present("§3.7"),
    *descriptors_present(SHAPES, "§3.7"),
    *(dtype(tensor, (element,), "§1.4") for tensor, (element, _) in SHAPES.items()),
    *(rank(tensor, len(axes), "§1.4") for tensor, (_, axes) in SHAPES.items()),
    *(_axis(tensor, axis, wanted) for tensor, (_, axes) in SHAPES.items() for axis, wanted in enumerate(axes)),
    # §1.4: tensors without elements are refused, not passed over.
    *map(_positive, SCALARS),
    *contiguous(SHAPES, "§1.4"),
    *_not_large(),
    *pointers_present(SHAPES, "§3.7"),
    arch_supported("§1.4"),
)

# Without one of these another check answers with the same status.
ANSWERED_ANYWAY = {"geom_xyz_large": "pos_memo has the same shape"}

# Pairs for which a bounded search found no call that breaks both: most exclude each other (a tensor without elements
# is neither strided nor large), the others are not proved to.
NOT_TOGETHER = {
    "batch_size": (
        "geom_xyz_strided",
        "input_features_strided",
        "output_features_strided",
        "pos_memo_strided",
        "geom_xyz_large",
        "input_features_large",
        "output_features_large",
    ),
    "num_points": (
        "geom_xyz_strided",
        "input_features_strided",
        "pos_memo_strided",
        "geom_xyz_large",
        "input_features_large",
    ),
    "num_channels": (
        "input_features_strided",
        "output_features_strided",
        "input_features_large",
        "output_features_large",
    ),
    "num_voxel_x": (
        "output_features_strided",
        "output_features_large",
    ),
    "num_voxel_y": (
        "output_features_strided",
        "output_features_large",
    ),
}
