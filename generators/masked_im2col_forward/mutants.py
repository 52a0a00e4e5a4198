"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status
from mluops_gtest.authoring.mistakes import (
    cached_by_shape,
    first_length_kept,
    first_param_kept,
    input_cleared,
    part_left,
    tails_left,
)
from mluops_gtest.authoring.narrowing import NARROW
from mluops_gtest.authoring.roundings import WRONG_COPIES

# The right copy in steps that can be replaced one by one; mutants do.


@dataclass(frozen=True, slots=True)
class Window:
    """The parameters of a call."""

    height: int
    width: int
    pad_h: int
    pad_w: int


def pick(image: Array, rows: Array, cols: Array) -> Array:
    """The image at these coordinates, 0 outside of it."""
    _, height, width = image.shape
    return fetch(image, rows, cols, (rows >= 0) & (rows < height) & (cols >= 0) & (cols < width))


def fetch(image: Array, rows: Array, cols: Array, inside: Array) -> Array:
    """The image at these coordinates where `inside`, elsewhere 0."""
    windows = image[:, np.where(inside, rows, 0), np.where(inside, cols, 0)]
    windows[:, ~inside] = 0
    return windows


def _write(data_col: Array, windows: Array) -> None:
    data_col[...] = windows.reshape(data_col.shape)


@dataclass(frozen=True, slots=True)
class Steps:
    """What is done, step by step; a mistake replaces one of them."""

    # The feature's image [C, H, W] as it is read.
    image: Callable[[Array], Array] = lambda image: image
    window: Callable[[Window], Window] = lambda window: window
    # (mask_h_idx, mask_w_idx) → the row and the column of each mask.
    masks: Callable[[Array, Array], tuple[Array, Array]] = lambda rows, cols: (rows, cols)
    # (mask, pad, kernel) of one axis → where each window begins on it.
    corner: Callable[[Array, int, int], Array] = lambda mask, pad, _: mask - pad
    # (image, rows [kernel_h, 1, m], columns [kernel_w, m]) → [C, kernel_h, kernel_w, m].
    pick: Callable[[Array, Array, Array], Array] = pick
    # (windows, bool [m]: the mask's window meets the image) → the windows as data_col has them.
    ordered: Callable[[Array, Array], Array] = lambda windows, _: windows
    # (data_col, windows): the copy.
    write: Callable[[Array, Array], None] = _write


def apply(steps: Steps, call: OpCall) -> Status:
    """Write data_col of a valid call by these steps."""
    image = steps.image(call.array("feature")[0])
    window = steps.window(Window(*(int(call.param(name)) for name in ("kernel_h", "kernel_w", "pad_h", "pad_w"))))
    mask_h, mask_w = steps.masks(*(call.array(name).astype(np.int64) for name in ("mask_h_idx", "mask_w_idx")))
    rows = steps.corner(mask_h, window.pad_h, window.height) + np.arange(window.height)[:, None, None]
    cols = steps.corner(mask_w, window.pad_w, window.width) + np.arange(window.width)[:, None]
    _, height, width = image.shape
    meets = ((rows >= 0) & (rows < height)).any(axis=(0, 1)) & ((cols >= 0) & (cols < width)).any(axis=0)
    steps.write(call.array("data_col"), steps.ordered(steps.pick(image, rows, cols), meets))
    return Status.SUCCESS


# What kernels cut axes into.
_TILE: Final = 64


_right = partial(apply, Steps())


def _wrong(name: str, message: str, steps: Steps) -> Mutant:
    return Mutant(name, message, partial(apply, steps))


# Which window.


def _sorted(rows: Array, cols: Array) -> tuple[Array, Array]:
    order = np.lexsort((cols, rows))
    return rows[order], cols[order]


def _both(narrow: Callable[[Array], Array]) -> Callable[[Array, Array], tuple[Array, Array]]:
    return lambda rows, cols: (narrow(rows), narrow(cols))


def _in_32_bits(mask: Array, pad: int, _: int) -> Array:
    return (mask - pad).astype(np.int32).astype(np.int64)


# Which pixel.


def _channels_last(image: Array) -> Array:
    channels, height, width = image.shape
    return image.reshape(height, width, channels).transpose(2, 0, 1)


def _columns_first(image: Array) -> Array:
    channels, height, width = image.shape
    return image.reshape(channels, width, height).swapaxes(1, 2)


def _linear(image: Array, cells: Array, inside: Array) -> Array:
    """The image at linear indices where `inside`; a channel runs on into the next, behind the last is 0."""
    flat = np.append(image.reshape(-1), image.dtype.type(0))
    places = np.arange(len(image)).reshape(-1, 1, 1, 1) * image[0].size + cells
    return flat[np.where(inside & (places >= 0) & (places < image.size), places, image.size)]


def _bounded(inside: Callable[[Array, Array, int, int], Array]) -> Callable[[Array, Array, Array], Array]:
    """Another idea of what is inside, by (rows, columns, H, W); the linear index is the usual one."""

    def wrong(image: Array, rows: Array, cols: Array) -> Array:
        _, height, width = image.shape
        return _linear(image, rows * width + cols, inside(rows, cols, height, width))

    return wrong


def _negative_wraps(image: Array, rows: Array, cols: Array) -> Array:
    _, height, width = image.shape
    return fetch(image, rows % height, cols % width, (rows < height) & (cols < width))


def _clamped_to_edge(image: Array, rows: Array, cols: Array) -> Array:
    _, height, width = image.shape
    return image[:, np.clip(rows, 0, height - 1), np.clip(cols, 0, width - 1)]


def _mirrored(image: Array, rows: Array, cols: Array) -> Array:
    """−1 is 1, and H is H − 2."""
    rows, cols = (
        end - np.abs(end - np.abs(at)) for at, end in ((rows, image.shape[1] - 1), (cols, image.shape[2] - 1))
    )
    return pick(image, rows, cols)


def _only_windows(wanted: Callable[[Array, Array, int, int], Array]) -> Callable[[Array, Array, Array], Array]:
    """Other windows are 0 as a whole; bool [m] by (rows, columns, H, W)."""

    def wrong(image: Array, rows: Array, cols: Array) -> Array:
        windows = pick(image, rows, cols)
        windows[..., ~wanted(rows[:, 0], cols, *image.shape[1:])] = 0
        return windows

    return wrong


# In which order, and how much.


def _cleared(at: Callable[[Array, Array], tuple[Any, ...]]) -> Callable[[Array, Array], Array]:
    """0 at that place of the windows [C, kernel_h, kernel_w, m], by (windows, bool [m]: which meet the image)."""

    def wrong(windows: Array, meets: Array) -> Array:
        windows[at(windows, meets)] = 0
        return windows

    return wrong


def _behind_tiles(count: int) -> slice:
    """What is behind the last whole tile, where there is more than one."""
    return slice(count // _TILE * _TILE or count, None)


def _tile_repeated(windows: Array, _: Array) -> Array:
    masks: Array = windows[..., np.arange(windows.shape[-1]) % _TILE]
    return masks


def _repeated_skipped(call: OpCall) -> Status:
    """A position that is listed again stays 0."""
    apply(Steps(), call)
    positions = np.stack([call.array("mask_h_idx"), call.array("mask_w_idx")])
    _, firsts = np.unique(positions, axis=1, return_index=True)
    call.array("data_col")[:, np.setdiff1d(np.arange(positions.shape[1]), firsts)] = 0
    return Status.SUCCESS


# What is written.


def _masks_first(data_col: Array, windows: Array) -> None:
    data_col[...] = windows.reshape(data_col.shape).T.reshape(data_col.shape)


def _zeros_left(data_col: Array, windows: Array) -> None:
    values = windows.reshape(data_col.shape)
    np.copyto(data_col, values, where=values.view(f"u{values.itemsize}") != 0)


def _onto_the_old(data_col: Array, windows: Array) -> None:
    data_col[...] = data_col + windows.reshape(data_col.shape)


def _outside_left(call: OpCall) -> Status:
    """§3.2's early `continue` without §3.1's step 2, the filling with 0."""
    before = call.array("data_col").copy()

    def kept(windows: Array, meets: Array) -> Array:
        return np.where(meets, windows.reshape(before.shape), before)

    return apply(Steps(ordered=kept), call)


def _inclusive_end(call: OpCall) -> Status:
    """§3.2 to the letter: one row and one column too many, which spill into the pixels behind them."""
    image = call.array("feature")[0].transpose(1, 2, 0)
    height, width, channels = image.shape
    kernel_h, kernel_w = call.param("kernel_h"), call.param("kernel_w")
    tops, lefts = (
        (call.array(f"mask_{axis}_idx").astype(np.int64) - call.param(f"pad_{axis}")).tolist() for axis in "hw"
    )
    # One window more than there are masks takes what spills behind the last.
    pixels = np.zeros(((len(tops) + 1) * kernel_h * kernel_w + 1, channels), image.dtype)
    for mask, (top, left) in enumerate(zip(tops, lefts, strict=True)):
        bottom, right = top + kernel_h, left + kernel_w
        if top >= height or left >= width or bottom < 0 or right < 0:
            continue
        first_row, last_row = max(0, top), min(height - 1, bottom)
        first_col, last_col = max(0, left), min(width - 1, right)
        for row in range(first_row, last_row + 1):
            start = (mask * kernel_h + row - top) * kernel_w + first_col - left
            pixels[start : start + last_col - first_col + 1] = image[row, first_col : last_col + 1]
    windows = pixels[: len(tops) * kernel_h * kernel_w].reshape(len(tops), -1, channels)
    data_col = call.array("data_col")
    data_col[...] = windows.transpose(2, 1, 0).reshape(data_col.shape)
    return Status.SUCCESS


# Name, message and what is taken to be inside the image, by (rows, columns, H, W).
_BOUNDS: Final = (
    (
        "linear_bounds",
        "only the linear cell is checked against the image",
        lambda r, c, h, w: (r * w + c >= 0) & (r * w + c < h * w),
    ),
    (
        "row_behind_the_last",
        "row H is inside: the next channel's first",
        lambda r, c, h, w: (r >= 0) & (r <= h) & (c >= 0) & (c < w),
    ),
    (
        "column_behind_the_last",
        "column W is inside: the next row's first",
        lambda r, c, h, w: (r >= 0) & (r < h) & (c >= 0) & (c <= w),
    ),
    (
        "row_above_the_first",
        "row −1 is inside: the last of the channel before",
        lambda r, c, h, w: (r >= -1) & (r < h) & (c >= 0) & (c < w),
    ),
    (
        "bounds_swapped",
        "rows are held against W, columns against H",
        lambda r, c, h, w: (r >= 0) & (r < w) & (c >= 0) & (c < h),
    ),
    (
        "strict_lower_bound",
        "row 0 and column 0 are outside",
        lambda r, c, h, w: (r > 0) & (r < h) & (c > 0) & (c < w),
    ),
    (
        "last_row_outside",
        "row H − 1 is outside",
        lambda r, c, h, w: (r >= 0) & (r < h - 1) & (c >= 0) & (c < w),
    ),
)

# Name, message and what stays 0, by (windows [C, kernel_h, kernel_w, m], bool [m]: which meet the image).
_LOST: Final = (
    ("last_mask_lost", "the last mask is not copied", lambda *_: (..., -1)),
    ("last_channel_lost", "the last channel is not copied", lambda *_: (-1,)),
    ("last_window_row_lost", "kernel_h − 1 rows are copied", lambda *_: (slice(None), -1)),
    ("last_window_column_lost", "kernel_w − 1 columns are copied", lambda *_: (slice(None), slice(None), -1)),
    (
        "channel_tail_lost",
        "channels behind whole tiles of 64 are lost",
        lambda windows, _: (_behind_tiles(len(windows)),),
    ),
    (
        "split_rest_lost",
        "§3.3's rest of four cores is lost",
        lambda windows, _: (..., slice(windows.shape[-1] // 4 * 4, None)),
    ),
    (
        "ends_at_a_window_outside",
        "masks behind the first one that is wholly outside are not reached",
        lambda _, meets: (..., slice(len(meets) if meets.all() else meets.argmin(), None)),
    ),
)

MUTANTS: Final = (
    # Which window.
    _wrong("swapped_masks", "mask_w_idx taken for the row", Steps(masks=lambda rows, cols: (cols, rows))),
    _wrong("masks_sorted", "columns in the order of the image, not of the list", Steps(masks=_sorted)),
    _wrong(
        "axes_sorted_apart",
        "mask_h_idx sorted without mask_w_idx",
        Steps(masks=lambda rows, cols: (np.sort(rows), cols)),
    ),
    _wrong("counted_from_one", "masks taken as 1-based", Steps(masks=lambda rows, cols: (rows - 1, cols - 1))),
    *(
        _wrong(f"{name}_masks", f"mask indices kept in {message}", Steps(masks=_both(narrow)))
        for name, message, narrow in NARROW
    ),
    _wrong("pad_ignored", "the window begins at the mask position", Steps(corner=lambda mask, _pad, _kernel: mask)),
    _wrong("pad_added", "the window begins at mask + pad", Steps(corner=lambda mask, pad, _: mask + pad)),
    _wrong(
        "pads_swapped", "pad_w taken for the rows", Steps(window=lambda w: Window(w.height, w.width, w.pad_w, w.pad_h))
    ),
    _wrong("one_pad", "pad_h taken for both axes", Steps(window=lambda w: Window(w.height, w.width, w.pad_h, w.pad_h))),
    _wrong("negative_pad_is_0", "a negative pad counts as 0", Steps(corner=lambda mask, pad, _: mask - max(0, pad))),
    _wrong("centred", "the mask is the middle of the window", Steps(corner=lambda mask, _, kernel: mask - kernel // 2)),
    _wrong("narrow_corners", "mask minus pad wraps around in 32 bits", Steps(corner=_in_32_bits)),
    _wrong(
        "kernel_swapped",
        "windows are kernel_w rows high",
        Steps(window=lambda w: Window(w.width, w.height, w.pad_h, w.pad_w)),
    ),
    # Which pixel.
    _wrong("channels_last", "feature read as NHWC", Steps(image=_channels_last)),
    _wrong("columns_first", "feature read as NCWH", Steps(image=_columns_first)),
    _wrong(
        "first_channel_everywhere",
        "every channel shows the first one",
        Steps(image=lambda image: np.broadcast_to(image[:1], image.shape)),
    ),
    _wrong("negative_wraps", "a negative coordinate counts from the end of the axis", Steps(pick=_negative_wraps)),
    _wrong(
        "wraps_around",
        "the image continues at its other side",
        Steps(pick=lambda image, rows, cols: image[:, rows % image.shape[1], cols % image.shape[2]]),
    ),
    _wrong("clamps_to_edge", "outside the image the edge is repeated", Steps(pick=_clamped_to_edge)),
    _wrong("mirrored", "outside the image it is mirrored", Steps(pick=_mirrored)),
    *(_wrong(name, message, Steps(pick=_bounded(inside))) for name, message, inside in _BOUNDS),
    _wrong(
        "whole_windows_only",
        "a window that is partly outside is 0 as a whole",
        Steps(pick=_only_windows(lambda r, c, h, w: (r[0] >= 0) & (r[-1] < h) & (c[0] >= 0) & (c[-1] < w))),
    ),
    _wrong(
        "corner_decides",
        "a window whose corner is outside is 0 as a whole",
        Steps(pick=_only_windows(lambda r, c, h, w: (r[0] >= 0) & (r[0] < h) & (c[0] >= 0) & (c[0] < w))),
    ),
    # In which order.
    _wrong(
        "kernel_major_rows",
        "rows in §1.1's order, kernel offset before channel",
        Steps(ordered=lambda windows, _: windows.transpose(1, 2, 0, 3)),
    ),
    _wrong(
        "transposed_window",
        "windows written column by column",
        Steps(ordered=lambda windows, _: windows.transpose(0, 2, 1, 3)),
    ),
    _wrong(
        "flipped_window",
        "windows turned by 180°, as a convolution's filter is",
        Steps(ordered=lambda windows, _: windows[:, ::-1, ::-1]),
    ),
    _wrong("masks_first", "data_col written as §3.1's workspace, one row per mask", Steps(write=_masks_first)),
    # How much.
    *(_wrong(name, message, Steps(ordered=_cleared(at))) for name, message, at in _LOST),
    _wrong("tile_repeated", "every tile of 64 masks shows the first one's windows", Steps(ordered=_tile_repeated)),
    Mutant("repeated_skipped", "a position that is listed again is not copied again", _repeated_skipped),
    Mutant("inclusive_end", "§3.2 to the letter: the end of a window is copied too", _inclusive_end),
    *tails_left(_right, "data_col", 1, "masks", (16, 64, 128)),
    part_left(_right, "data_col", 1, "masks"),
    # Which value.
    *(_wrong(name, message, Steps(image=copy)) for name, message, copy in WRONG_COPIES),
    # What was there before.
    Mutant("outside_left", "columns of windows wholly outside are not written", _outside_left),
    _wrong("zeros_left", "zeros are not written", Steps(write=_zeros_left)),
    _wrong("adds_to_data_col", "windows are added to what data_col held", Steps(write=_onto_the_old)),
    # What another call finds.
    cached_by_shape(_right),
    first_param_kept(_right, "pad_w"),
    first_length_kept(_right, "data_col", 1, "masks"),
    input_cleared(_right, "mask_h_idx"),
)
