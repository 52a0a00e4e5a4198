"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status, mistakes
from mluops_gtest.authoring.copy_of import wrong_copies
from mluops_gtest.authoring.narrowing import NARROW

from .._shared.masks import Masks, in_type
from . import OPERATOR, copies


@dataclass(frozen=True, slots=True)
class Pixels:
    """The pixels that masks name: channel [C, 1], row and column [m], and the image's height and width."""

    channel: Array
    row: Array
    col: Array
    height: int
    width: int

    def places(self, down: int = 0, right: int = 0) -> Array:
        """[C, m]: their linear indices in im, moved by so many rows and columns."""
        return (self.channel * self.height + self.row + down) * self.width + self.col + right

    def where(self, chosen: Array, down: int = 0, right: int = 0) -> Array:
        """The same of the chosen pixels; the others are outside of im."""
        return np.where(chosen, self.places(down, right), -1)


def _clear(image: Array, _: Array) -> None:
    image[...] = 0


def assign(image: Array, places: Array, values: Array) -> None:
    """The values to these linear indices of the image."""
    image.reshape(-1)[places] = values


@dataclass(frozen=True, slots=True)
class Steps:
    """The right copy, step by step; a mistake replaces one of them."""

    # (mask_h_idx, mask_w_idx) → the row and the column of each mask.
    masks: Callable[[Array, Array], Masks] = lambda rows, cols: (rows, cols)
    # (image [C, H, W], the rows that hold a mask): what stands there before the copy.
    clear: Callable[[Array, Array], None] = _clear
    # Pixels → [C, m] linear indices in im; one that is outside of im is not written.
    places: Callable[[Pixels], Array] = Pixels.places
    # (col, H·W) → the values [C, m].
    values: Callable[[Array, int], Array] = lambda col, _: col
    # (C, m, elements that NRAM holds) → how many leading channels and masks are copied.
    count: Callable[[int, int, int], tuple[int, int]] = lambda channels, masks, _: (channels, masks)
    # (image, linear indices, values): the copy.
    assign: Callable[[Array, Array, Array], None] = assign


def apply(steps: Steps, call: OpCall) -> Status:
    """Write im of a valid call by these steps."""
    image = call.array("im")[0]
    channels, height, width = image.shape
    masks = call.tensor("mask_h_idx").dims[0]
    if masks == 0:
        steps.clear(image, np.empty(0, np.int64))
        return Status.SUCCESS
    rows, cols = steps.masks(*(call.array(name).astype(np.int64) for name in ("mask_h_idx", "mask_w_idx")))
    steps.clear(image, rows)
    places = steps.places(Pixels(np.arange(channels)[:, None], rows, cols, height, width))
    values = steps.values(call.array("col"), height * width)
    some_channels, some_masks = steps.count(channels, masks, nram_elements(call))
    places, values = places[:some_channels, :some_masks], values[:some_channels, :some_masks]
    inside = (places >= 0) & (places < image.size)
    steps.assign(image, places[inside], values[inside])
    return Status.SUCCESS


def nram_elements(call: OpCall) -> int:
    """Elements of the call's type that NRAM holds."""
    assert call.handle is not None
    return call.handle.nram_bytes // call.tensor("col").dtype.itemsize


_right = partial(apply, Steps())
# What kernels cut axes into.
_TILE: Final = 64


def _wrong(name: str, message: str, **steps: Any) -> Mutant:
    return Mutant(name, message, partial(apply, Steps(**steps)))


# Which pixel.


def _swapped_where_it_fits(pixels: Pixels) -> Array:
    fits = (pixels.row < pixels.width) & (pixels.col < pixels.height)
    row, col = np.where(fits, pixels.col, pixels.row), np.where(fits, pixels.row, pixels.col)
    return Pixels(pixels.channel, row, col, pixels.height, pixels.width).places()


def _channels_last(pixels: Pixels) -> Array:
    return (pixels.row * pixels.width + pixels.col) * len(pixels.channel) + pixels.channel


def _up_to_origin(rows: Array, cols: Array) -> Masks:
    """Masks that are not reached lie outside of im."""
    reached = np.cumsum((rows == 0) & (cols == 0)) == 0
    return np.where(reached, rows, -1), np.where(reached, cols, -1)


def _channels_of_floats(image: Array, places: Array, values: Array) -> None:
    """The channel stride in bytes is that of floats, whatever the type is."""
    plane = image[0].size
    far = places // plane * plane * (4 // image.itemsize) + places % plane
    assign(image, far[far < image.size], values[far < image.size])


def float_offsets(pixels: Pixels) -> Array:
    """Where a channel begins is computed in float: above 2^24 it has no odd numbers."""
    first = pixels.channel.astype(np.float32) * np.float32(pixels.height * pixels.width)
    in_plane = pixels.row * pixels.width + pixels.col
    return np.asarray(first.astype(np.int64) + in_plane)


# Which value, and how many of them.


def _rows_apart(col: Array, distance: int) -> Array:
    """Rows of col begin `distance` elements apart; behind the end of col it begins again."""
    channels, masks = col.shape
    index = np.arange(channels)[:, None] * distance + np.arange(masks)
    return np.take(col.reshape(-1), index, mode="wrap")


def _whole(count: int, part: int) -> int:
    """Whole parts only, where there is more than one."""
    return count // part * part or count


def _repeats_nram(call: OpCall) -> Status:
    """Channels that NRAM does not hold are read from its beginning."""
    fits = nram_elements(call)
    return apply(Steps(values=lambda col, _: col[np.arange(len(col)) % fits]), call)


# What was there before.


def _clear_masked_rows(image: Array, rows: Array) -> None:
    image[:, rows] = 0


def _clear_first_channel(image: Array, _: Array) -> None:
    image[:1] = 0


def _clear_square(image: Array, _: Array) -> None:
    image.reshape(len(image), -1)[:, : image.shape[1] ** 2] = 0


def _clear_as_bytes(image: Array, _: Array) -> None:
    image.reshape(-1)[: image.size // image.itemsize] = 0


def _clear_for_masks(image: Array, rows: Array) -> None:
    image[: None if len(rows) else 1] = 0


def _clear_unless_no_masks(image: Array, rows: Array) -> None:
    if len(rows):
        image[...] = 0


def _add_windows(image: Array, places: Array, values: Array) -> None:
    """A true col2im: every value goes to a window of 2×2 pixels, and windows add up."""
    _, height, width = image.shape
    rows, cols = places // width % height, places % width
    for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
        inside = (rows + down < height) & (cols + right < width)
        np.add.at(image.reshape(-1), places[inside] + down * width + right, values[inside])


def _clear_im(call: OpCall) -> None:
    call.array("im")[...] = 0


MUTANTS: Final = (
    *mistakes.suspected(
        OPERATOR,
        {
            "swapped_masks": "mask_w_idx is the row",
            "height_as_row_length": "a row of im has H elements",
            "counted_from_one": "masks are counted from 1",
            "row_below": "masks name the row above",
            "column_beside": "masks name the column to the left",
            "masks_ignored": "column j goes to pixel j, whatever the masks say",
            "masks_sorted": "masks are sorted without their columns",
            "axes_sorted_apart": "mask_h_idx is sorted without mask_w_idx",
            "col_transposed": "col is read as [m, C]",
        },
    ),
    _wrong("swapped_where_it_fits", "masks swapped where both are in range", places=_swapped_where_it_fits),
    _wrong("channels_last", "im written as NHWC: §3.1 without its step 3", places=_channels_last),
    _wrong(
        "strict_lower_bound",
        "pixels of row 0 and column 0 are not written",
        places=lambda pixels: pixels.where((pixels.row > 0) & (pixels.col > 0)),
    ),
    _wrong(
        "last_column_outside",
        "pixels of column W − 1 are not written",
        places=lambda pixels: pixels.where(pixels.col < pixels.width - 1),
    ),
    _wrong("ends_at_the_origin", "a mask of (0, 0) ends the list", masks=_up_to_origin),
    _wrong(
        "tile_base_lost",
        "masks behind the first 64 go to its pixels",
        places=lambda pixels: pixels.places()[:, np.arange(len(pixels.row)) % _TILE],
    ),
    _wrong(
        "pad_carried_over",
        "masked_im2col_forward's default pad of 1",
        places=lambda pixels: pixels.where((pixels.row > 0) & (pixels.col > 0), -1, -1),
    ),
    *(
        _wrong(f"{name}_indices", f"mask indices kept in {message}", masks=in_type(narrow))
        for name, message, narrow in NARROW
        # Masks lie within im, and a small one has no more rows than 16 bits count.
        if name in ("int8", "half")
    ),
    _wrong("channels_of_floats", "halves copied with the channel stride of floats", assign=_channels_of_floats),
    _wrong("rows_an_image_apart", "rows of col taken H·W apart", values=_rows_apart),
    _wrong("rows_overlap", "rows of col taken m − 1 apart", values=lambda col, _: _rows_apart(col, col.shape[1] - 1)),
    _wrong(
        "tile_repeated",
        "every tile of 64 masks shows the first one's columns",
        values=lambda col, _: col[:, np.arange(col.shape[1]) % _TILE],
    ),
    _wrong("last_mask_missing", "the last mask is not copied", count=lambda c, m, _: (c, m - 1)),
    _wrong("mask_tail_lost", "masks behind whole tiles of 64 are lost", count=lambda c, m, _: (c, _whole(m, _TILE))),
    _wrong("split_rest_lost", "§3.3's rest of four cores is lost", count=lambda c, m, _: (c, m // 4 * 4)),
    _wrong("beyond_nram_lost", "channels that NRAM does not hold are lost", count=lambda c, m, fits: (min(c, fits), m)),
    Mutant("beyond_nram_repeated", "channels that NRAM does not hold repeat the first ones", _repeats_nram),
    _wrong("full_nram_lost", "§3.1's `<=` read as `<`, twice", count=lambda c, m, fits: (0 if c == fits else c, m)),
    # §3.1's step 2-1: NRAM takes all channels of as many masks as it holds.
    _wrong(
        "last_load_lost",
        "masks behind whole loads of NRAM are lost",
        count=lambda c, m, fits: (c, _whole(m, max(1, fits // c))),
    ),
    _wrong("masked_rows_cleared", "only rows that hold a mask are cleared", clear=_clear_masked_rows),
    _wrong("first_channel_cleared", "only the first channel is cleared", clear=_clear_first_channel),
    _wrong("square_cleared", "H·H elements of every channel are cleared", clear=_clear_square),
    _wrong("cleared_as_bytes", "as many bytes are cleared as im has elements", clear=_clear_as_bytes),
    _wrong("no_masks_leave_im", "without masks im is not cleared", clear=_clear_unless_no_masks),
    _wrong("no_masks_clear_one_channel", "without masks one channel is cleared", clear=_clear_for_masks),
    _wrong("overlapping_windows", "values go to windows of 2×2 and add up", assign=_add_windows),
    mistakes.spoilt("clears_last", "im is cleared behind the copy", _right, _clear_im),
    *wrong_copies("im", copies),
    mistakes.part_left(_right, "im", 1, "channels"),
    mistakes.first_length_kept(_right, "im", 1, "channels"),
    mistakes.input_cleared(_right, "col"),
)
