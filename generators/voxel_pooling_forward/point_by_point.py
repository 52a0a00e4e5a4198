"""The right pooling in steps that can be replaced one by one; mutants do."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from mluops_gtest.authoring import Array, OpCall, Status


@dataclass(frozen=True, slots=True)
class Points:
    """Batch, x, y and z of every point, int64 [B, N] each, and how many voxels there are along x, y and z."""

    batch: Array
    x: Array
    y: Array
    z: Array
    extents: tuple[int, int, int]

    def within(self, low: tuple[int, int, int] = (0, 0, 0), beyond: tuple[int, int, int] = (0, 0, 0)) -> Array:
        """bool [B, N]: each coordinate is at least `low`, and less than its number of voxels + `beyond`."""
        axes = zip((self.x, self.y, self.z), self.extents, low, beyond, strict=True)
        return all_of((axis >= first) & (axis < extent + more) for axis, extent, first, more in axes)

    def memo(self, inside: Array) -> Array:
        """pos_memo: (batch, y, x), or −1 where the point does not count."""
        return np.where(inside[..., None], np.stack([self.batch, self.y, self.x], axis=-1), -1)

    def cells(self) -> Array:
        """The linear cell of each point."""
        width, height, _ = self.extents
        return (self.batch * height + self.y) * width + self.x


def all_of(conditions: Iterable[Array]) -> Array:
    """bool [B, N]: where every condition holds."""
    both: Array = np.logical_and.reduce(list(conditions))
    return both


def add(output: Array, cells: Array, features: Array) -> None:
    """Add features [n, C] to the cells [n] of the output [cells, C]."""
    np.add.at(output, cells, features)


def _clear(output: Array) -> None:
    output[...] = 0


@dataclass(frozen=True, slots=True)
class Steps:
    """What is done, step by step; a mistake replaces one of them."""

    points: Callable[[Points], Points] = lambda points: points
    # bool [B, N]: which points count.
    inside: Callable[[Points], Array] = Points.within
    # (points, which of them count) → pos_memo.
    memo: Callable[[Points, Array], Array] = Points.memo
    cells: Callable[[Points], Array] = Points.cells
    # (input_features [B, N, C], which points count) → what is added for each point.
    features: Callable[[Array, Array], Array] = lambda features, _: features
    # output_features [B, Y, X, C] before anything is added.
    clear: Callable[[Array], None] = _clear
    add: Callable[[Array, Array, Array], None] = add


def apply(steps: Steps, call: OpCall) -> Status:
    """Write both outputs of a valid call by these steps."""
    x, y, z = np.moveaxis(call.array("geom_xyz").astype(np.int64), -1, 0)
    width, height, depth = (int(call.param(f"num_voxel_{axis}")) for axis in "xyz")
    batch = np.broadcast_to(np.arange(len(x))[:, None], x.shape)
    points = steps.points(Points(batch, x, y, z, (width, height, depth)))
    inside = steps.inside(points)
    call.array("pos_memo")[...] = steps.memo(points, inside)
    output = call.array("output_features")
    steps.clear(output)
    cells = steps.cells(points)
    features = steps.features(call.array("input_features"), inside)
    # What would land in memory of others is not added.
    inside = inside & (cells >= 0) & (cells < output.size // output.shape[-1])
    with np.errstate(invalid="ignore", over="ignore"):
        steps.add(output.reshape(-1, output.shape[-1]), cells[inside], features[inside])
    return Status.SUCCESS
