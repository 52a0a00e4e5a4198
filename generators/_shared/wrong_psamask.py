"""Mistakes of kernels that lay masks over images; for mutants of both directions."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Operator, Status, mistakes
from mluops_gtest.authoring.copy_of import wrong_copies
from mluops_gtest.authoring.suspects import Suspect

from .psamask import COLLECT, DISTRIBUTE, Psamask, Reading, centred, meeting


def _clipped(at: Array, offset: Array, mask: int, _: int) -> Array:
    """The mask is counted from the corner of the window that is left."""
    first = at - (mask - 1) // 2
    return np.where(offset < mask + np.minimum(first, 0), np.maximum(first, 0) + offset, -1)


def _whole(at: Array, offset: Array, mask: int, length: int) -> Array:
    first = at - (mask - 1) // 2
    return np.where((first >= 0) & (first + mask <= length), first + offset, -1)


_SUMMED: Final = "pixels that share a cell are summed"
# Name of the mutant, words of the suspect, what is read.
_READINGS: Final[tuple[tuple[str, str, Reading], ...]] = (
    ("modes_exchanged", "COLLECT and DISTRIBUTE are exchanged", Reading(psa_type=lambda mode: DISTRIBUTE - mode)),
    ("collect_alone", "every call is COLLECT", Reading(psa_type=lambda _: COLLECT)),
    ("distribute_alone", "every call is DISTRIBUTE", Reading(psa_type=lambda _: DISTRIBUTE)),
    ("mask_channels_transposed", "masks have channels j·h_mask + i", Reading(channel=lambda i, j, n: j * n.h_mask + i)),
    ("map_channels_transposed", "maps have channels b·H + a", Reading(cell=lambda a, b, n: b * n.height + a)),
    ("map_rows_of_height", "maps have channels a·H + b", Reading(cell=lambda a, b, n: a * n.height + b)),
    ("pixels_transposed", "pixels of maps are transposed", Reading(pixel=lambda h, w, n: w * n.height + h)),
    ("centre_rounded_down", "the centre is mask / 2", Reading(lambda at, offset, mask, _: at + offset - mask // 2)),
    ("centre_rounded_up", "the centre is (mask + 1) / 2", Reading(lambda at, o, mask, _: at + o - (mask + 1) // 2)),
    ("window_begins_at_pixel", "windows begin at their pixels", Reading(lambda at, offset, *_: at + offset)),
    ("mirrored", "masks are mirrored", Reading(lambda at, offset, mask, _: at - offset + (mask - 1) // 2)),
    ("clipped_not_shifted", "masks are counted from the clipped corner", Reading(_clipped)),
    ("whole_windows_alone", "windows that leave the image are left out", Reading(_whole)),
    ("cyclic", "windows come back at the other side", Reading(lambda at, o, mask, n: centred(at, o, mask, n) % n)),
    ("mask_lengths_exchanged", "h_mask and w_mask are exchanged",
     Reading(lengths=lambda n: n._replace(h_mask=n.w_mask, w_mask=n.h_mask))),
    ("width_before_height", "images are read as [N, W, H]",
     Reading(lengths=lambda n: n._replace(height=n.width, width=n.height))),
    ("masks_nchw", "masks are read as NCHW", Reading(masks_are_channels_first=True)),
    ("scattered_as_gathered", "channels of masks and maps are exchanged", Reading(is_exchanged=True)),
)  # fmt: skip


def mask_suspects(mask: Psamask) -> Mapping[str, Suspect]:
    """Outputs by each reading, and by a mistake that is none."""

    def as_read(reading: Reading) -> Suspect:
        return lambda call: {mask.output: mask.copies(call, reading).copied()}

    def summed(call: OpCall) -> Mapping[str, Array]:
        masks, maps = meeting(mask.lengths(call), call.param("psa_type"))
        cells = meeting(mask.lengths(call), COLLECT)[1] % call.tensor(mask.maps).dims[3]
        target, source = (maps, masks) if mask.is_forward else (masks, maps)
        values, out = call.array(mask.fed), np.zeros(call.tensor(mask.output).dims, np.float32)
        for image, result in zip(values.reshape(len(values), -1), out.reshape(len(values), -1), strict=True):
            with np.errstate(all="ignore"):
                result[target] = np.bincount(cells, image[source])[cells]
        return {mask.output: out}

    return {**{words: as_read(one) for _, words, one in _READINGS}, _SUMMED: summed}


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

    def behind_first_in_parts(call: OpCall) -> Any:
        row, _, room = mask.needs(call)
        return slice(1, None) if row > room else slice(0)

    def last(axis: int) -> Callable[[OpCall], Any]:
        return lambda _: (*(slice(None),) * axis, slice(-1, None))

    return (
        *mistakes.suspected(operator, {**{name: words for name, words, _ in _READINGS}, "cells_summed": _SUMMED}),
        *wrong_copies(output, mask.copies, row="image"),
        mistakes.spoilt("idle_times_0", "multiplies what meets nothing with 0", right, times_0),
        *(
            mistakes.left(f"clears_first_{what}", f"clears the first {what} alone", right, output, behind_first(axis))
            for axis, what in enumerate(("image", "row", "column"))
        ),
        *(
            mistakes.left(f"last_{what}_left", f"does not write the last {what}", right, output, last(axis))
            for axis, what in ((1, "row"), (2, "column"), (3, "channel"))
        ),
        *mistakes.tails_left(right, output, 1, "rows", (4, 16)),
        *mistakes.tails_left(right, output, 2, "columns", (4, 16)),
        *mistakes.tails_left(right, output, 3, "channels", (16, 32)),
        *(mistakes.part_left(right, output, axis, what) for axis, what in ((1, "rows"), (2, "columns"))),
        *(mistakes.first_length_kept(right, output, axis, what) for axis, what in ((1, "rows"), (3, "channels"))),
        *(mistakes.first_param_kept(right, name) for name in ("psa_type", "h_mask", "w_mask")),
        mistakes.input_cleared(right, mask.fed),
        refusing("row_must_fit", "refuses a mask where no whole row fits", lambda row, _: row),
        refusing("16_must_fit", "refuses a mask where no 16 pixels fit", lambda _, pixels: pixels),
        refusing("rows_in_64", "rounds rows up to 64 values", lambda row, pixels: min(-(-row // 64) * 64, pixels)),
        mistakes.left(
            "first_image_in_parts", "has rows in parts in the first image alone", right, output, behind_first_in_parts
        ),
    )
