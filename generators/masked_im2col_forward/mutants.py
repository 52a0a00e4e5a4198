"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status, mistakes
from mluops_gtest.authoring.copy_of import wrong_copies
from mluops_gtest.authoring.narrowing import NARROW
from mluops_gtest.authoring.suspects import with_inputs, with_params

from .._shared.masks import in_type, with_masks
from . import OPERATOR, copies


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
    """The right copy, step by step; a mistake replaces one of them."""

    read: Callable[[OpCall], OpCall] = lambda call: call
    # (image [C, H, W], rows [kernel_h, 1, m], columns [kernel_w, m]) → [C, kernel_h, kernel_w, m].
    pick: Callable[[Array, Array, Array], Array] = pick
    # (windows, bool [m]: the mask's window meets the image) → the windows as data_col has them.
    ordered: Callable[[Array, Array], Array] = lambda windows, _: windows
    # (data_col, windows): the copy.
    write: Callable[[Array, Array], None] = _write


def apply(steps: Steps, call: OpCall) -> Status:
    """Write data_col of a valid call by these steps."""
    read = steps.read(call)
    rows, cols = (
        read.array(f"mask_{axis}_idx").astype(np.int64)
        - read.param(f"pad_{axis}")
        + np.arange(read.param(f"kernel_{axis}"))[:, None]
        for axis in "hw"
    )
    image = call.array("feature")[0]
    _, height, width = image.shape
    meets = ((rows >= 0) & (rows < height)).any(axis=0) & ((cols >= 0) & (cols < width)).any(axis=0)
    steps.write(call.array("data_col"), steps.ordered(steps.pick(image, rows[:, None], cols), meets))
    return Status.SUCCESS


_right = partial(apply, Steps())
# What kernels cut axes into.
_TILE: Final = 64


def _wrong(name: str, message: str, **steps: Any) -> Mutant:
    return Mutant(name, message, partial(apply, Steps(**steps)))


# Which window.


def _corners_in_32_bits(call: OpCall) -> OpCall:
    corners = {
        f"mask_{axis}_idx": (call.array(f"mask_{axis}_idx").astype(np.int64) - call.param(f"pad_{axis}")).astype("<i4")
        for axis in "hw"
    }
    return with_inputs(with_params(call, pad_h=0, pad_w=0), **corners)


def _negative_pads_as_0(call: OpCall) -> OpCall:
    return with_params(call, pad_h=max(0, call.param("pad_h")), pad_w=max(0, call.param("pad_w")))


# Which pixel.


def _bounded(inside: Callable[[Array, Array, int, int], Array]) -> Callable[[Array, Array, Array], Array]:
    """Another idea of what is inside, by (rows, columns, H, W); the linear index is the usual one.

    A channel runs on into the next, and behind the last is 0.
    """

    def wrong(image: Array, rows: Array, cols: Array) -> Array:
        channels, height, width = image.shape
        flat = np.append(image.reshape(-1), image.dtype.type(0))
        places = np.arange(channels).reshape(-1, 1, 1, 1) * (height * width) + rows * width + cols
        is_read = inside(rows, cols, height, width) & (places >= 0) & (places < image.size)
        return flat[np.where(is_read, places, image.size)]

    return wrong


def _negative_wraps(image: Array, rows: Array, cols: Array) -> Array:
    _, height, width = image.shape
    return fetch(image, rows % height, cols % width, (rows < height) & (cols < width))


def _clamped_to_edge(image: Array, rows: Array, cols: Array) -> Array:
    _, height, width = image.shape
    return image[:, np.clip(rows, 0, height - 1), np.clip(cols, 0, width - 1)]


def _mirrored(image: Array, rows: Array, cols: Array) -> Array:
    """−1 is 1, and H is H − 2."""
    ends = (image.shape[1] - 1, image.shape[2] - 1)
    rows, cols = (end - np.abs(end - np.abs(at)) for at, end in zip((rows, cols), ends, strict=True))
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


def _tile_repeated(windows: Array, _: Array) -> Array:
    masks: Array = windows[..., np.arange(windows.shape[-1]) % _TILE]
    return masks


def _repeated_skipped(call: OpCall) -> Status:
    """A position that is listed again stays 0."""
    _right(call)
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
    _write(call.array("data_col"), windows.transpose(2, 1, 0))
    return Status.SUCCESS


# Name, message and what is taken to be inside the image, by (row, column, H, W).
_BOUNDS: Final = (
    ("linear_bounds", "only the linear cell is held against the image",
     lambda r, c, h, w: (r * w + c >= 0) & (r * w + c < h * w)),
    ("row_behind_the_last", "row H is inside: the next channel's first",
     lambda r, c, h, w: (r >= 0) & (r <= h) & (c >= 0) & (c < w)),
    ("column_behind_the_last", "column W is inside: the next row's first",
     lambda r, c, h, w: (r >= 0) & (r < h) & (c >= 0) & (c <= w)),
    ("row_above_the_first", "row −1 is inside: the last of the channel before",
     lambda r, c, h, w: (r >= -1) & (r < h) & (c >= 0) & (c < w)),
    ("bounds_swapped", "rows are held against W, columns against H",
     lambda r, c, h, w: (r >= 0) & (r < w) & (c >= 0) & (c < h)),
    ("strict_lower_bound", "row 0 and column 0 are outside",
     lambda r, c, h, w: (r > 0) & (r < h) & (c > 0) & (c < w)),
    ("last_row_outside", "row H − 1 is outside",
     lambda r, c, h, w: (r >= 0) & (r < h - 1) & (c >= 0) & (c < w)),
)  # fmt: skip

# The same of whole windows: which are not 0 throughout.
_WHOLE: Final = (
    ("whole_windows_only", "a window that is partly outside is 0 as a whole",
     lambda r, c, h, w: (r[0] >= 0) & (r[-1] < h) & (c[0] >= 0) & (c[-1] < w)),
    ("corner_decides", "a window whose corner is outside is 0 as a whole",
     lambda r, c, h, w: (r[0] >= 0) & (r[0] < h) & (c[0] >= 0) & (c[0] < w)),
)  # fmt: skip

# Name, message and what stays 0, by (windows [C, kernel_h, kernel_w, m], bool [m]: which meet the image).
_LOST: Final = (
    ("last_mask_lost", "the last mask is not copied", lambda *_: (..., -1)),
    ("last_window_row_lost", "kernel_h − 1 rows are copied", lambda *_: (slice(None), -1)),
    ("last_window_column_lost", "kernel_w − 1 columns are copied", lambda *_: (slice(None), slice(None), -1)),
    ("split_rest_lost", "§3.3's rest of four cores is lost",
     lambda windows, _: (..., slice(windows.shape[-1] // 4 * 4, None))),
    ("ends_at_a_window_outside", "masks behind the first one that is wholly outside are not reached",
     lambda _, meets: (..., slice(len(meets) if meets.all() else meets.argmin(), None))),
)  # fmt: skip

# Name, message and another order of the windows [C, kernel_h, kernel_w, m].
_ORDERS: Final = (
    ("transposed_window", "windows written column by column", lambda windows, _: windows.transpose(0, 2, 1, 3)),
    ("flipped_window", "windows turned by 180°, as a convolution's filter is",
     lambda windows, _: windows[:, ::-1, ::-1]),
    ("tile_repeated", "every tile of 64 masks shows the first one's windows", _tile_repeated),
)  # fmt: skip

MUTANTS: Final = (
    *mistakes.suspected(
        OPERATOR,
        {
            "swapped_masks": "mask_h_idx and mask_w_idx are exchanged",
            "masks_sorted": "masks are taken in the order of the image",
            "axes_sorted_apart": "mask_h_idx is sorted without mask_w_idx",
            "counted_from_one": "masks are counted from 1",
            "pad_ignored": "windows begin at the mask position, without the padding",
            "pad_added": "windows begin at the mask position plus the padding",
            "pads_swapped": "pad_h and pad_w are exchanged",
            "one_pad": "pad_h holds for both axes",
            "centred": "masks name the middle of the window",
            "kernel_swapped": "kernel_h and kernel_w are exchanged",
            "channels_last": "feature is read as NHWC",
            "columns_first": "feature is read as NCWH",
            "kernel_major_rows": "rows stand by kernel offset, then by channel",
        },
    ),
    *(
        _wrong(f"{name}_masks", f"mask indices kept in {message}", read=with_masks(in_type(narrow)))
        for name, message, narrow in NARROW
    ),
    _wrong("negative_pad_is_0", "a negative pad counts as 0", read=_negative_pads_as_0),
    _wrong("narrow_corners", "mask minus pad wraps around in 32 bits", read=_corners_in_32_bits),
    _wrong("negative_wraps", "a negative coordinate counts from the end of the axis", pick=_negative_wraps),
    _wrong(
        "wraps_around",
        "the image continues at its other side",
        pick=lambda image, rows, cols: image[:, rows % image.shape[1], cols % image.shape[2]],
    ),
    _wrong("clamps_to_edge", "outside the image the edge is repeated", pick=_clamped_to_edge),
    _wrong("mirrored", "outside the image it is mirrored", pick=_mirrored),
    *(_wrong(name, message, pick=_bounded(inside)) for name, message, inside in _BOUNDS),
    *(_wrong(name, message, pick=_only_windows(wanted)) for name, message, wanted in _WHOLE),
    *(_wrong(name, message, ordered=_cleared(at)) for name, message, at in _LOST),
    *(_wrong(name, message, ordered=ordered) for name, message, ordered in _ORDERS),
    _wrong("masks_first", "data_col written as §3.1's workspace, one row per mask", write=_masks_first),
    Mutant("repeated_skipped", "a position that is listed again is not copied again", _repeated_skipped),
    Mutant("inclusive_end", "§3.2 to the letter: the end of a window is copied too", _inclusive_end),
    Mutant("outside_left", "columns of windows wholly outside are not written", _outside_left),
    _wrong("zeros_left", "zeros are not written", write=_zeros_left),
    *wrong_copies("data_col", copies),
    *mistakes.tails_left(_right, "data_col", 1, "masks", (16, 64, 128)),
    mistakes.part_left(_right, "data_col", 1, "masks"),
    mistakes.first_param_kept(_right, "pad_w"),
    mistakes.first_length_kept(_right, "data_col", 1, "masks"),
    mistakes.input_cleared(_right, "mask_h_idx"),
)
