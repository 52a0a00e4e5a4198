"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Mapping

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status, mistakes
from mluops_gtest.authoring.suspects import misread

from .._shared.wrong_boxes import NARROW, reads, writes
from . import BOXES, OPERATOR, is_aligned, kernel, overlaps


def _first_tile(call: OpCall) -> Mapping[str, Array]:
    """Aligned, every core begins with the first tile of bbox2."""
    return overlaps(misread(bbox2=lambda boxes: boxes[np.arange(len(boxes)) % 64])(call) if is_aligned(call) else call)


def _clear_nan(call: OpCall) -> None:
    np.putmask(call.array("ious"), np.isnan(call.array("ious")), 0)


def _ask_two_axes(call: OpCall) -> Status:
    return Status.BAD_PARAM if is_aligned(call) else kernel(call)


MUTANTS = (
    *mistakes.suspected(OPERATOR),
    *(reads(OPERATOR, f"{word}_boxes", f"rounds boxes to {word}", bbox1=to, bbox2=to) for word, to in NARROW.items()),
    Mutant("diagonal_tile", "compares aligned rows with the first tile of bbox2", writes(_first_tile)),
    mistakes.spoilt("nan_cleared", "writes 0 for NaN", kernel, _clear_nan),
    Mutant("aligned_columns", "asks aligned ious for two axes", _ask_two_axes),
    *mistakes.tails_left(kernel, "ious", 0, "rows", (16, 64)),
    *mistakes.tails_left(kernel, "ious", -1, "boxes", (16, 64)),
    mistakes.part_left(kernel, "ious", -1, "boxes"),
    mistakes.cached_by_shape(kernel),
    mistakes.sum_goes_on(kernel, "ious"),
    mistakes.first_length_kept(kernel, "ious", 0, "rows"),
    *(mistakes.first_param_kept(kernel, name) for name in ("mode", "offset")),
    *(mistakes.input_cleared(kernel, name) for name in BOXES),
)
