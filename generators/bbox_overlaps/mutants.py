"""Implementations with one plausible mistake each; the small cases must catch every one."""

import re
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status, mistakes
from mluops_gtest.authoring.suspects import misread

from .._shared.interpolation import shortened
from . import BOXES, OPERATOR, SUSPECTS, is_aligned, kernel, overlaps

Answer = Callable[[OpCall], Mapping[str, Array]]


def _written(name: str, message: str, answer: Answer) -> Mutant:
    """Writes something else to calls that compute."""

    def spoil(call: OpCall) -> None:
        if OPERATOR.answer(call).check is None:
            with np.errstate(all="ignore"):
                call.array("ious")[...] = answer(call)["ious"]

    return mistakes.spoilt(name, message, kernel, spoil)


def _misread(name: str, message: str, **changes: Callable[[Array], Array]) -> Mutant:
    return _written(name, message, lambda call: overlaps(misread(**changes)(call)))


def _first_tile(call: OpCall) -> Mapping[str, Array]:
    """Aligned, every core begins with the first tile of bbox2."""
    return overlaps(misread(bbox2=lambda boxes: boxes[np.arange(len(boxes)) % 64])(call) if is_aligned(call) else call)


def _clear_nan(call: OpCall) -> None:
    ious = call.array("ious")
    ious[np.isnan(ious)] = 0


def _rows_checked(call: OpCall) -> Status:
    """Aligned results need as many columns."""
    return Status.BAD_PARAM if is_aligned(call) and len(call.array("bbox1")) > 1 else kernel(call)


MUTANTS: Final = (
    *mistakes.suspected(OPERATOR, {re.sub(r"\W+", "_", words.lower()): words for words in SUSPECTS}),
    *(
        _misread(f"{kind}_boxes", f"rounds boxes to {kind}", **dict.fromkeys(BOXES, narrow))
        for kind, narrow in {
            "half": lambda boxes: boxes.astype(np.float16).astype(boxes.dtype),
            "tf32": lambda boxes: shortened(boxes, 11),
            "bfloat16": lambda boxes: shortened(boxes, 8),
        }.items()
    ),
    _written("diagonal_tile", "compares aligned rows with the first tile of bbox2", _first_tile),
    _written(
        "rows_by_columns", "counts rows of ious by N − 1", lambda call: {"ious": np.roll(overlaps(call)["ious"], 1)}
    ),
    mistakes.spoilt("nan_cleared", "writes 0 for NaN", kernel, _clear_nan),
    Mutant("aligned_columns", "asks aligned ious for two axes", _rows_checked),
    *mistakes.tails_left(kernel, "ious", 0, "rows", (16, 64)),
    *mistakes.tails_left(kernel, "ious", -1, "boxes", (16, 64)),
    mistakes.part_left(kernel, "ious", -1, "boxes"),
    mistakes.cached_by_shape(kernel),
    mistakes.sum_goes_on(kernel, "ious"),
    mistakes.first_length_kept(kernel, "ious", 0, "rows"),
    *(mistakes.first_param_kept(kernel, name) for name in ("mode", "offset")),
    *(mistakes.input_cleared(kernel, name) for name in BOXES),
)
