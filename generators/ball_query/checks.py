"""The parameter checks in the released library's order: §3.7's conditions, the scalars before everything else."""

from mluops_gtest.authoring import DType, OpCall, Status
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
    require,
    same_dtype,
)

TENSORS = ("new_xyz", "xyz", "idx")

# Devices up to this one address the cloud with 32 bits: §3.7's 2^31 elements hold on newer ones alone.
_LAST_NARROW_ARCH = 370
_NARROW_LIMIT = 536895361
_LIMIT = 1 << 31


def _cloud_fits(call: OpCall) -> bool:
    narrow = call.handle is not None and call.handle.arch <= _LAST_NARROW_ARCH
    return call.tensor("xyz").desc.count < (_NARROW_LIMIT if narrow else _LIMIT)


CHECKS = (
    # NaN is not ≥ 0, −0 is.
    require("min_radius", lambda call: call.param("min_radius") >= 0, "min_radius must be at least 0", "§3.7 (1)"),
    require("max_radius", lambda call: call.param("max_radius") >= 0, "max_radius must be at least 0", "§3.7 (2)"),
    require("nsample", lambda call: call.param("nsample") >= 0, "nsample must be at least 0", "§3.7 (3)"),
    handle_present("§3.7"),
    *descriptors_present(TENSORS, "§3.7"),
    *(rank(tensor, 3, "§3.7 (8-10)") for tensor in TENSORS),
    dim("xyz", 0, lambda call: call.tensor("new_xyz").dims[0], "xyz must have the batches of new_xyz", "§3.7 (11)"),
    dim("idx", 0, lambda call: call.tensor("new_xyz").dims[0], "idx must have the batches of new_xyz", "§3.7 (12)"),
    dim("idx", 1, lambda call: call.tensor("new_xyz").dims[1], "idx must have one row per centre", "§3.7 (13)"),
    dim("new_xyz", 2, 3, "a centre must have three coordinates", "§3.7 (14)"),
    dim("xyz", 2, 3, "a point must have three coordinates", "§3.7 (15)"),
    dim("idx", 2, lambda call: call.param("nsample"), "a row of idx must have nsample entries", "§3.7 (16)"),
    # Before the types, unlike in the other operators on points.
    *contiguous(TENSORS, "§1.4: no strides"),
    dtype("new_xyz", (DType.HALF, DType.FLOAT), "§3.7 (4)"),
    same_dtype("xyz", "new_xyz", "§3.7 (5, 7)"),
    dtype("idx", (DType.INT32,), "§3.7 (6)"),
    *not_large(("new_xyz", "idx"), "§3.7 (17, 19)"),
    require(
        "xyz_large",
        _cloud_fits,
        f"xyz must have fewer than {_NARROW_LIMIT} elements up to MLU{_LAST_NARROW_ARCH}, fewer than 2^31 beyond",
        "§3.7 (18)",
        Status.NOT_SUPPORTED,
    ),
    # §1.1: no centre is an error, no point is not; its second "new_xyz" means xyz, as §3.7 prints it.
    not_empty("new_xyz", "§1.1, §3.7", Status.BAD_PARAM),
    not_empty("xyz", "§1.1, §3.7"),
    # nsample = 0: nothing to write.
    not_empty("idx", "§3.7 (3)"),
    *pointers_present(TENSORS, "§3.7"),
)

# Without one of these another check answers with the same status.
ANSWERED_ANYWAY = {"nsample": "idx must have nsample entries in a row, and no axis has a negative length"}

# Pairs for which a bounded search found no call that breaks both: most exclude each other (a tensor without elements
# is neither strided nor large), the others are not proved to.
NOT_TOGETHER = {
    "new_xyz_strided": ("new_xyz_empty",),
    "xyz_strided": ("xyz_empty",),
    "idx_strided": (
        "new_xyz_empty",
        "idx_empty",
    ),
    "new_xyz_large": ("new_xyz_empty",),
    "idx_large": (
        "new_xyz_empty",
        "idx_empty",
    ),
    "xyz_large": ("xyz_empty",),
}
