"""Implementations with one plausible mistake each; the small cases must catch every one."""

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status


class WindowCopy:
    """The right copy in three steps; a class below does one of them wrong."""

    def run(self, call: OpCall) -> Status:
        """Write data_col of a valid call."""
        top, left = self.corners(call)
        rows = top + np.arange(call.param("kernel_h"))[:, None, None]
        cols = left + np.arange(call.param("kernel_w"))[:, None]
        windows = self.pick(call.array("feature")[0], rows, cols)
        data_col = call.array("data_col")
        data_col[...] = self.ordered(windows).reshape(data_col.shape)
        return Status.SUCCESS

    def corners(self, call: OpCall) -> tuple[Array, Array]:
        """The first row and the first column of each window."""
        top = call.array("mask_h_idx").astype(np.int64) - call.param("pad_h")
        left = call.array("mask_w_idx").astype(np.int64) - call.param("pad_w")
        return top, left

    def pick(self, image: Array, rows: Array, cols: Array) -> Array:
        """[C, kernel_h, kernel_w, m]: the image at these coordinates."""
        _, height, width = image.shape
        inside = (rows >= 0) & (rows < height) & (cols >= 0) & (cols < width)
        return _fetch(image, rows, cols, inside)

    def ordered(self, windows: Array) -> Array:
        """The windows in the order of data_col's rows."""
        return windows


def _fetch(image: Array, rows: Array, cols: Array, inside: Array) -> Array:
    """The image where `inside`, elsewhere 0; coordinates inside may be Python-like negative."""
    rows, cols = np.where(inside, rows, 0), np.where(inside, cols, 0)
    windows = image[:, rows, cols]
    windows[:, ~inside] = 0
    return windows


class KernelMajorRows(WindowCopy):
    """§1.1's order of the rows."""

    def ordered(self, windows: Array) -> Array:
        """Kernel offset first, channel last."""
        return windows.transpose(1, 2, 0, 3)


class TransposedWindow(WindowCopy):
    """Each window written column by column."""

    def ordered(self, windows: Array) -> Array:
        """Window columns before window rows."""
        return windows.transpose(0, 2, 1, 3)


class SwappedMasks(WindowCopy):
    """mask_w_idx taken for the row."""

    def corners(self, call: OpCall) -> tuple[Array, Array]:
        """Row from mask_w_idx, column from mask_h_idx."""
        top = call.array("mask_w_idx").astype(np.int64) - call.param("pad_h")
        left = call.array("mask_h_idx").astype(np.int64) - call.param("pad_w")
        return top, left


class PadIgnored(WindowCopy):
    """The mask position itself is the corner, as §1.2's sentence can be read."""

    def corners(self, call: OpCall) -> tuple[Array, Array]:
        """Not moved by the pad."""
        return call.array("mask_h_idx").astype(np.int64), call.array("mask_w_idx").astype(np.int64)


class NarrowCorners(WindowCopy):
    """Corners in 32 bits, as §3.2 declares them."""

    def corners(self, call: OpCall) -> tuple[Array, Array]:
        """The difference wraps around."""
        top, left = super().corners(call)
        return top.astype(np.int32).astype(np.int64), left.astype(np.int32).astype(np.int64)


class NegativeWraps(WindowCopy):
    """Only the upper bound is checked, and a negative index counts from the end."""

    def pick(self, image: Array, rows: Array, cols: Array) -> Array:
        """The lower edge continues at the upper one."""
        _, height, width = image.shape
        return _fetch(image, rows % height, cols % width, (rows < height) & (cols < width))


class LinearBounds(WindowCopy):
    """Only the linear cell is checked, so a window runs on into the neighbouring row."""

    def pick(self, image: Array, rows: Array, cols: Array) -> Array:
        """A column outside is a column of another row."""
        channels, height, width = image.shape
        cells = rows * width + cols
        inside = (cells >= 0) & (cells < height * width)
        return _fetch(image.reshape(channels, 1, -1), np.zeros_like(cells), cells, inside)


class ClampsToEdge(WindowCopy):
    """Replicates the edge instead of padding with 0."""

    def pick(self, image: Array, rows: Array, cols: Array) -> Array:
        """The nearest pixel of the image."""
        _, height, width = image.shape
        return image[:, np.clip(rows, 0, height - 1), np.clip(cols, 0, width - 1)]


class DropsNan(WindowCopy):
    """Treats NaN as missing."""

    def pick(self, image: Array, rows: Array, cols: Array) -> Array:
        """0 for NaN."""
        windows = super().pick(image, rows, cols)
        windows[np.isnan(windows)] = 0
        return windows


class FlushesDenormals(WindowCopy):
    """Copies through an arithmetic unit that flushes denormals."""

    def pick(self, image: Array, rows: Array, cols: Array) -> Array:
        """0 below the smallest normal number."""
        windows = super().pick(image, rows, cols)
        with np.errstate(invalid="ignore"):  # signalling NaN
            windows[np.abs(windows) < np.finfo(windows.dtype).tiny] = 0
        return windows


class SkipsOutside(WindowCopy):
    """§3.2's early `continue` without §3.1's step 2, the filling with 0."""

    def run(self, call: OpCall) -> Status:
        """Columns of windows that are wholly outside keep what they held."""
        data_col = call.array("data_col")
        before = data_col.copy()
        super().run(call)
        _, height, width = call.array("feature")[0].shape
        top, left = self.corners(call)
        outside = (top >= height) | (top + call.param("kernel_h") <= 0)
        outside |= (left >= width) | (left + call.param("kernel_w") <= 0)
        data_col[:, outside] = before[:, outside]
        return Status.SUCCESS


class InclusiveEnd(WindowCopy):
    """§3.2 to the letter: the end of a window is exclusive when made and inclusive when copied."""

    def run(self, call: OpCall) -> Status:
        """One row and one column too many, which spill into the pixels behind them."""
        image = call.array("feature")[0].transpose(1, 2, 0)
        height, width, channels = image.shape
        kernel_h, kernel_w = call.param("kernel_h"), call.param("kernel_w")
        tops, lefts = self.corners(call)
        # One window more than there are masks takes what spills behind the last.
        pixels = np.zeros(((len(tops) + 1) * kernel_h * kernel_w + 1, channels), image.dtype)
        for mask, (top, left) in enumerate(zip(tops.tolist(), lefts.tolist(), strict=True)):
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


MUTANTS = (
    Mutant("kernel_major_rows", "rows in §1.1's order, kernel offset before channel", KernelMajorRows().run),
    Mutant("transposed_window", "windows written column by column", TransposedWindow().run),
    Mutant("swapped_masks", "mask_w_idx taken for the row", SwappedMasks().run),
    Mutant("pad_ignored", "the window begins at the mask position", PadIgnored().run),
    Mutant("narrow_corners", "mask minus pad wraps around in 32 bits", NarrowCorners().run),
    Mutant("negative_wraps", "a negative coordinate counts from the end of the axis", NegativeWraps().run),
    Mutant("linear_bounds", "only the linear cell is checked against the image", LinearBounds().run),
    Mutant("clamps_to_edge", "outside the image the edge is repeated", ClampsToEdge().run),
    Mutant("drops_nan", "NaN becomes 0", DropsNan().run),
    Mutant("flushes_denormals", "denormals become 0", FlushesDenormals().run),
    Mutant("skips_outside", "columns of windows wholly outside are not written", SkipsOutside().run),
    Mutant("inclusive_end", "§3.2 to the letter: the end of a window is copied too", InclusiveEnd().run),
)
