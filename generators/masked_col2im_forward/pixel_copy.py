"""The right copy in steps that can be replaced one by one; mutants do."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mluops_gtest.authoring import Array, OpCall, Status


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
