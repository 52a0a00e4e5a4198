"""Implementations with one plausible mistake each."""

from mluops_gtest.authoring import OpCall, Status, mistakes

from .._shared.wrong_boxes import every_suspect
from . import OPERATOR


def _right(call: OpCall) -> Status:
    call.array("points_indices")[...] = OPERATOR.reference(call).outputs["points_indices"]
    return Status.SUCCESS


MUTANTS = (
    *every_suspect(OPERATOR),
    mistakes.left(
        "none_left", "−1 is not written", _right, "points_indices", lambda call: call.array("points_indices") < 0
    ),
    *mistakes.tails_left(_right, "points_indices", 1, "points"),
    mistakes.part_left(_right, "points_indices", 1, "points"),
    mistakes.cached_by_shape(_right),
    mistakes.first_length_kept(_right, "points_indices", 1, "points"),
    mistakes.input_cleared(_right, "points"),
    mistakes.input_cleared(_right, "boxes"),
)
