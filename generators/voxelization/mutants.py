"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Callable
from typing import Final

from mluops_gtest.authoring import Array, Mutant, OpCall, mistakes, roundings

from . import COUNTS, OPERATOR, is_used, kernel


def _copied_by(change: Callable[[Array], Array]) -> Callable[[OpCall], None]:
    def spoil(call: OpCall) -> None:
        call.array("voxels")[...] = change(call.array("voxels"))

    return spoil


MUTANTS: Final[tuple[Mutant, ...]] = (
    *mistakes.suspected(OPERATOR),
    *(mistakes.spoilt(name, words, kernel, _copied_by(change)) for name, words, change in roundings.WRONG_COPIES),
    *(
        mistakes.left(f"{one}_left", f"{one} of no voxel are not cleared", kernel, one, lambda call: ~is_used(call))
        for one in ("voxels", "coors", COUNTS)
    ),
    mistakes.left("zero_left", "a voxel_num of 0 is not written", kernel, "voxel_num", lambda call: ~is_used(call)[:1]),
    *mistakes.tails_left(kernel, "voxels", 2, "features", (16, 32)),
    *mistakes.tails_left(kernel, "coors", 0, "voxels", (16,)),
    mistakes.part_left(kernel, "voxels", 0, "voxels"),
    mistakes.input_cleared(kernel, "points"),
    mistakes.cached_by_shape(kernel),
    mistakes.first_param_kept(kernel, "max_points"),
)
