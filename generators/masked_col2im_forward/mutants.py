"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status
from mluops_gtest.authoring.mistakes import cached_by_shape, first_length_kept, input_cleared, part_left
from mluops_gtest.authoring.narrowing import NARROW
from mluops_gtest.authoring.roundings import WRONG_COPIES

# The right copy in steps that can be replaced one by one; mutants do.


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


def _clear(image: Array, _: Array) -> None:
    image[...] = 0


def assign(image: Array, places: Array, values: Array) -> None:
    """The values to these linear indices of the image."""
    image.reshape(-1)[places] = values


@dataclass(frozen=True, slots=True)
class Steps:
    """The right copy, step by step; a mistake replaces one of them."""

    # (mask_h_idx, mask_w_idx) → the row and the column of each mask.
    masks: Callable[[Array, Array], tuple[Array, Array]] = lambda rows, cols: (rows, cols)
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


# What kernels cut axes into.
_TILE: Final = 64


# Which pixel.


def _swapped_where_it_fits(pixels: Pixels) -> Array:
    fits = (pixels.row < pixels.width) & (pixels.col < pixels.height)
    row, col = np.where(fits, pixels.col, pixels.row), np.where(fits, pixels.row, pixels.col)
    return Pixels(pixels.channel, row, col, pixels.height, pixels.width).places()


def _channels_last(pixels: Pixels) -> Array:
    return (pixels.row * pixels.width + pixels.col) * len(pixels.channel) + pixels.channel


def _plane(pixels: Pixels) -> Array:
    """Where each channel begins."""
    return np.multiply(pixels.channel, pixels.height * pixels.width)


def _height_as_row_length(pixels: Pixels) -> Array:
    in_plane: Array = pixels.row * pixels.height + pixels.col
    return _plane(pixels) + in_plane


def _padded(pixels: Pixels) -> Array:
    return np.where((pixels.row > 0) & (pixels.col > 0), pixels.places(-1, -1), -1)


def _inner(pixels: Pixels) -> Array:
    return np.where((pixels.row > 0) & (pixels.col > 0), pixels.places(), -1)


def _before_last_column(pixels: Pixels) -> Array:
    return np.where(pixels.col < pixels.width - 1, pixels.places(), -1)


def _first_tile(pixels: Pixels) -> Array:
    return pixels.places()[:, np.arange(len(pixels.row)) % _TILE]


def _in_order_of_columns(pixels: Pixels) -> Array:
    return _plane(pixels) + np.arange(len(pixels.row))


def _sorted(rows: Array, cols: Array) -> tuple[Array, Array]:
    order = np.lexsort((cols, rows))
    return rows[order], cols[order]


def _up_to_origin(rows: Array, cols: Array) -> tuple[Array, Array]:
    """Masks that are not reached lie outside of im."""
    reached = np.cumsum((rows == 0) & (cols == 0)) == 0
    return np.where(reached, rows, -1), np.where(reached, cols, -1)


def _both(narrow: Callable[[Array], Array]) -> Callable[[Array, Array], tuple[Array, Array]]:
    return lambda rows, cols: (narrow(rows), narrow(cols))


def _channels_of_floats(image: Array, places: Array, values: Array) -> None:
    """The channel stride in bytes is that of floats, whatever the type is."""
    plane = image[0].size
    far = places // plane * plane * (4 // image.itemsize) + places % plane
    assign(image, far[far < image.size], values[far < image.size])


# Which value.


def _rows_apart(col: Array, distance: int) -> Array:
    """Rows of col begin `distance` elements apart; behind the end of col it begins again."""
    channels, masks = col.shape
    index = np.arange(channels)[:, None] * distance + np.arange(masks)
    return np.take(col.reshape(-1), index, mode="wrap")


def _tile_repeated(col: Array, _: int) -> Array:
    return col[:, np.arange(col.shape[1]) % _TILE]


def _copied(copy: Callable[[Array], Array]) -> Callable[[Array, int], Array]:
    return lambda col, _: copy(col)


# How much; `fits` is the number of elements that NRAM holds.


def _whole(count: int, part: int) -> int:
    """Whole parts only, where there is more than one."""
    return count // part * part or count


def _whole_loads(channels: int, masks: int, fits: int) -> tuple[int, int]:
    """§3.1's step 2-1: NRAM takes all channels of as many masks as it holds."""
    return channels, _whole(masks, max(1, fits // channels))


def _repeats_nram(call: OpCall) -> Status:
    """Channels that NRAM does not hold are read from its beginning."""
    fits = nram_elements(call)
    return apply(Steps(values=lambda col, _: col[np.arange(len(col)) % fits]), call)


# What was there before.


def _nothing(image: Array, rows: Array) -> None:
    """im keeps what it held."""


def _clear_masked_rows(image: Array, rows: Array) -> None:
    image[:, rows] = 0


def _clear_first_channel(image: Array, _: Array) -> None:
    image[:1] = 0


def _clear_square(image: Array, _: Array) -> None:
    image.reshape(len(image), -1)[:, : image.shape[1] ** 2] = 0


def _clear_as_bytes(image: Array, _: Array) -> None:
    image.reshape(-1)[: image.size // image.itemsize] = 0


def _clear_for_masks(image: Array, rows: Array) -> None:
    """One channel alone where there is no mask."""
    image[: None if len(rows) else 1] = 0


def _clear_unless_no_masks(image: Array, rows: Array) -> None:
    if len(rows):
        image[...] = 0


def _add(image: Array, places: Array, values: Array) -> None:
    np.add.at(image.reshape(-1), places, values)


def _add_windows(image: Array, places: Array, values: Array) -> None:
    """A true col2im: every value goes to a window of 2×2 pixels, and windows add up."""
    _, height, width = image.shape
    rows, cols = places // width % height, places % width
    for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
        inside = (rows + down < height) & (cols + right < width)
        _add(image, places[inside] + down * width + right, values[inside])


def _clears_last(call: OpCall) -> Status:
    status = apply(Steps(), call)
    call.array("im")[...] = 0
    return status


_right = partial(apply, Steps())


def _wrong(name: str, message: str, steps: Steps) -> Mutant:
    return Mutant(name, message, partial(apply, steps))


MUTANTS: Final = (
    _wrong("swapped_masks", "mask_w_idx taken for the row", Steps(masks=lambda rows, cols: (cols, rows))),
    _wrong("swapped_where_it_fits", "masks swapped where both are in range", Steps(places=_swapped_where_it_fits)),
    _wrong("channels_last", "im written as NHWC: §3.1 without its step 3", Steps(places=_channels_last)),
    _wrong("height_as_row_length", "a row of im taken as H elements", Steps(places=_height_as_row_length)),
    _wrong("counted_from_one", "masks taken as 1-based", Steps(places=lambda pixels: pixels.places(-1, -1))),
    _wrong("row_below", "masks name the row above", Steps(places=lambda pixels: pixels.places(down=1))),
    _wrong("column_beside", "masks name the column to the left", Steps(places=lambda pixels: pixels.places(right=1))),
    _wrong("strict_lower_bound", "pixels of row 0 and column 0 are not written", Steps(places=_inner)),
    _wrong("last_column_outside", "pixels of column W − 1 are not written", Steps(places=_before_last_column)),
    _wrong("ends_at_the_origin", "a mask of (0, 0) ends the list", Steps(masks=_up_to_origin)),
    _wrong("tile_base_lost", "masks behind the first 64 go to its pixels", Steps(places=_first_tile)),
    _wrong("pad_carried_over", "masked_im2col_forward's default pad of 1", Steps(places=_padded)),
    _wrong("masks_ignored", "column j goes to pixel j", Steps(places=_in_order_of_columns)),
    _wrong("masks_sorted", "masks sorted before use, without their columns", Steps(masks=_sorted)),
    _wrong(
        "axes_sorted_apart",
        "mask_h_idx sorted without mask_w_idx",
        Steps(masks=lambda rows, cols: (np.sort(rows), cols)),
    ),
    *(
        _wrong(f"{name}_indices", f"mask indices kept in {message}", Steps(masks=_both(narrow)))
        for name, message, narrow in NARROW
        # Masks lie within im, and a small one has no more rows than 16 bits count.
        if name in ("int8", "half")
    ),
    _wrong("channels_of_floats", "halves copied with the channel stride of floats", Steps(assign=_channels_of_floats)),
    _wrong("col_transposed", "col read as [m, C]", Steps(values=lambda col, _: col.reshape(col.shape[::-1]).T)),
    _wrong("rows_an_image_apart", "rows of col taken H·W apart", Steps(values=_rows_apart)),
    _wrong("rows_overlap", "rows of col taken m − 1 apart", Steps(values=lambda c, _: _rows_apart(c, c.shape[1] - 1))),
    _wrong(
        "first_channel_everywhere",
        "every channel shows the first row of col",
        Steps(values=lambda col, _: _rows_apart(col, 0)),
    ),
    *(_wrong(name, message, Steps(values=_copied(copy))) for name, message, copy in WRONG_COPIES),
    _wrong("tile_repeated", "every tile of 64 masks shows the first one's columns", Steps(values=_tile_repeated)),
    _wrong("last_mask_missing", "the last mask is not copied", Steps(count=lambda c, m, _: (c, m - 1))),
    _wrong("last_channel_missing", "the last channel is not copied", Steps(count=lambda c, m, _: (c - 1, m))),
    _wrong(
        "mask_tail_lost", "masks behind whole tiles of 64 are lost", Steps(count=lambda c, m, _: (c, _whole(m, _TILE)))
    ),
    _wrong(
        "channel_tail_lost",
        "channels behind whole tiles of 64 are lost",
        Steps(count=lambda c, m, _: (_whole(c, _TILE), m)),
    ),
    _wrong("split_rest_lost", "§3.3's rest of four cores is lost", Steps(count=lambda c, m, _: (c, m // 4 * 4))),
    _wrong(
        "beyond_nram_lost", "channels that NRAM does not hold are lost", Steps(count=lambda c, m, f: (min(c, f), m))
    ),
    Mutant("beyond_nram_repeated", "channels that NRAM does not hold repeat the first ones", _repeats_nram),
    _wrong("full_nram_lost", "§3.1's `<=` read as `<`, twice", Steps(count=lambda c, m, f: (0 if c == f else c, m))),
    _wrong("last_load_lost", "masks behind whole loads of NRAM are lost", Steps(count=_whole_loads)),
    _wrong("not_cleared", "mmcv's kernel alone: its caller clears im", Steps(clear=_nothing)),
    _wrong("masked_rows_cleared", "only rows that hold a mask are cleared", Steps(clear=_clear_masked_rows)),
    _wrong("first_channel_cleared", "only the first channel is cleared", Steps(clear=_clear_first_channel)),
    _wrong("square_cleared", "H·H elements of every channel are cleared", Steps(clear=_clear_square)),
    _wrong("cleared_as_bytes", "as many bytes are cleared as im has elements", Steps(clear=_clear_as_bytes)),
    _wrong("no_masks_leave_im", "without masks im is not cleared", Steps(clear=_clear_unless_no_masks)),
    _wrong("no_masks_clear_one_channel", "without masks one channel is cleared", Steps(clear=_clear_for_masks)),
    _wrong("adds_to_im", "values are added to what im held", Steps(clear=_nothing, assign=_add)),
    _wrong("overlapping_windows", "values go to windows of 2×2 and add up", Steps(assign=_add_windows)),
    Mutant("clears_last", "im is cleared behind the copy", _clears_last),
    part_left(_right, "im", 1, "channels"),
    # What another call finds.
    cached_by_shape(_right),
    first_length_kept(_right, "im", 1, "channels"),
    input_cleared(_right, "col"),
)
