"""Mistakes of kernels that lay masks over images; for mutants of both directions."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import Mutant, OpCall, Operator, Status, mistakes
from mluops_gtest.authoring.copy_of import wrong_copies

from .psamask import Psamask

# In the order of the suspects, behind the one of the definition.
_SUSPECTED: Final = (
    "modes_exchanged",
    "collect_alone",
    "distribute_alone",
    "mask_channels_transposed",
    "map_channels_transposed",
    "map_rows_of_height",
    "pixels_transposed",
    "centre_rounded_down",
    "centre_rounded_up",
    "window_begins_at_pixel",
    "mirrored",
    "clipped_not_shifted",
    "whole_windows_alone",
    "cyclic",
    "mask_lengths_exchanged",
    "width_before_height",
    "masks_nchw",
    "scattered_as_gathered",
    "cells_summed",
)


def mask_mutants(operator: Operator, mask: Psamask) -> tuple[Mutant, ...]:
    """Each is right but for its name."""
    output, right = mask.output, mask.kernel

    def times_0(call: OpCall) -> None:
        """What meets nothing is 0 times everything in its image."""
        values, fed = call.array(output), call.array(mask.fed)
        with np.errstate(all="ignore"):
            zeros = 0 * fed.sum((1, 2, 3), keepdims=True)
            values[...] = np.where(mask.copies(call).is_copied, values, zeros)

    def behind_first(axis: int) -> Callable[[OpCall], Any]:
        """What meets nothing, behind the first place of an axis."""

        def where(call: OpCall) -> Any:
            copied = mask.copies(call).is_copied
            first = np.arange(copied.shape[axis]).reshape(-1, *(1,) * (copied.ndim - 1 - axis)) == 0
            return ~(copied | first)

        return where

    def refusing(name: str, message: str, needed: Callable[[int, int], int]) -> Mutant:
        """With another limit, of floats for a row and for 16 pixels."""

        def run(call: OpCall) -> Status:
            row, pixels, room = mask.needs(call)
            return right(call) if needed(row, pixels) <= room else Status.NOT_SUPPORTED

        return Mutant(name, message, run)

    def last(axis: int) -> Any:
        return (*(slice(None),) * axis, slice(-1, None))

    return (
        *mistakes.suspected(operator, dict(zip(_SUSPECTED, list(operator.suspects)[1:], strict=True))),
        *wrong_copies(output, mask.copies, row="image"),
        mistakes.spoilt("idle_times_0", "multiplies what meets nothing with 0", right, times_0),
        *(
            mistakes.left(f"clears_first_{what}", f"clears the first {what} alone", right, output, behind_first(axis))
            for axis, what in enumerate(("image", "row", "column"))
        ),
        *(
            mistakes.left(f"last_{what}_left", f"does not write the last {what}", right, output, lambda _, a=a: last(a))
            for a, what in ((1, "row"), (2, "column"), (3, "channel"))
        ),
        *mistakes.tails_left(right, output, 1, "rows", (4, 16)),
        *mistakes.tails_left(right, output, 2, "columns", (4, 16)),
        *mistakes.tails_left(right, output, 3, "channels", (16, 32)),
        mistakes.part_left(right, output, 1, "rows"),
        mistakes.part_left(right, output, 2, "columns"),
        mistakes.first_length_kept(right, output, 1, "rows"),
        mistakes.first_length_kept(right, output, 3, "channels"),
        mistakes.first_param_kept(right, "psa_type"),
        mistakes.first_param_kept(right, "h_mask"),
        mistakes.first_param_kept(right, "w_mask"),
        mistakes.input_cleared(right, mask.fed),
        refusing("row_must_fit", "refuses a mask where no whole row fits", lambda row, _: row),
        refusing("16_must_fit", "refuses a mask where no 16 pixels fit", lambda _, pixels: pixels),
    )
