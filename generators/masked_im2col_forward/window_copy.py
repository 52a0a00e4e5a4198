"""The right copy in steps that can be replaced one by one; mutants do."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mluops_gtest.authoring import Array, OpCall, Status


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
