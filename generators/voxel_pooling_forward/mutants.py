"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status
from mluops_gtest.authoring.mistakes import (
    cached_by_shape,
    first_param_kept,
    input_cleared,
    left,
    part_left,
    sum_goes_on,
    tails_left,
)
from mluops_gtest.authoring.narrowing import NARROW, wrapped
from mluops_gtest.authoring.roundings import flushed, through_half
from mluops_gtest.authoring.suspects import with_inputs
from mluops_gtest.authoring.wrong_sums import Terms, added, wrong_sum, wrong_sums

from .._shared.interpolation import shortened
from . import channels_first, counted, terms

# The right pooling in steps that can be replaced one by one; mutants do.


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


@dataclass(frozen=True, slots=True)
class Steps:
    """What is done, step by step; a mistake replaces one of them."""

    points: Callable[[Points], Points] = lambda points: points
    # bool [B, N]: which points count.
    inside: Callable[[Points], Array] = Points.within
    # (points, which of them count) → pos_memo.
    memo: Callable[[Points, Array], Array] = Points.memo
    cells: Callable[[Points], Array] = Points.cells


def apply(steps: Steps, call: OpCall) -> Status:
    """Write both outputs of a valid call by these steps."""
    x, y, z = np.moveaxis(call.array("geom_xyz").astype(np.int64), -1, 0)
    width, height, depth = (int(call.param(f"num_voxel_{axis}")) for axis in "xyz")
    batch = np.broadcast_to(np.arange(len(x))[:, None], x.shape)
    points = steps.points(Points(batch, x, y, z, (width, height, depth)))
    inside = steps.inside(points)
    call.array("pos_memo")[...] = steps.memo(points, inside)
    output, cells = call.array("output_features"), steps.cells(points)
    output[...] = 0
    # What would land in memory of others is not added.
    inside = inside & (cells >= 0) & (cells < output.size // output.shape[-1])
    with np.errstate(invalid="ignore", over="ignore"):
        np.add.at(output.reshape(-1, output.shape[-1]), cells[inside], call.array("input_features")[inside])
    return Status.SUCCESS


# What kernels cut axes into.
_TILE: Final = 64

_right = partial(apply, Steps())
_wrong_sum = partial(wrong_sum, output="output_features", terms=terms, right=_right)


def _wrong(name: str, message: str, steps: Steps) -> Mutant:
    return Mutant(name, message, partial(apply, steps))


# Which points count.


def _narrowed(narrow: Callable[[Array], Array]) -> Callable[[Points], Points]:
    return lambda points: replace(points, x=narrow(points.x), y=narrow(points.y), z=narrow(points.z))


def _bounds_in_float(points: Points) -> Array:
    """2^24 and 2^24 + 1 look equal."""
    axes = zip((points.x, points.y, points.z), points.extents, strict=True)
    return all_of((at >= 0) & (at.astype(np.float32) < np.float32(extent)) for at, extent in axes)


def _by_linear_cell(points: Points) -> Array:
    """A point beyond one row lands in the next."""
    width, height, depth = points.extents
    cell = points.y * width + points.x
    return all_of((cell >= 0, cell < width * height, points.z >= 0, points.z < depth))


def _up_to_one_outside(points: Points) -> Array:
    """A `break` for a `continue`."""
    return np.logical_and.accumulate(points.within(), axis=1)


def _bounded_by(axes: tuple[int, int, int]) -> Callable[[Points], Array]:
    """x, y and z held against the extents of these axes."""
    first, second, third = axes
    return lambda p: replace(p, extents=(p.extents[first], p.extents[second], p.extents[third])).within()


# What pos_memo holds.


def _memo_without_z(points: Points, inside: Array) -> Array:
    return np.where(inside[..., None], np.stack([points.x, points.y, points.z], axis=-1), -1)


def _memo_half_cleared(points: Points, inside: Array) -> Array:
    memo = points.memo(np.ones_like(inside))
    memo[~inside, 0] = -1
    return memo


def _memo_axes_first(points: Points, inside: Array) -> Array:
    memo = points.memo(inside)
    return memo.swapaxes(1, 2).reshape(memo.shape)


# Which cell.


def _height_as_row_length(points: Points) -> Array:
    _, height, _ = points.extents
    return (points.batch * height + points.y) * height + points.x


def _transposed(points: Points) -> Array:
    width, height, _ = points.extents
    return (points.batch * width + points.x) * height + points.y


# What is added.


def _misread(change: Callable[[Array], Array]) -> Callable[[OpCall], OpCall]:
    """input_features as a wrong kernel reads them."""
    return lambda call: with_inputs(call, input_features=np.ascontiguousarray(change(call.array("input_features"))))


def _compacted(call: OpCall) -> OpCall:
    """The features of the first points go to those that count, in their order."""
    inside = counted(call.array("geom_xyz"), *(call.param(f"num_voxel_{axis}") for axis in "xyz"))
    rank = np.maximum(np.cumsum(inside, axis=1) - 1, 0)
    return with_inputs(call, input_features=np.take_along_axis(call.array("input_features"), rank[..., None], axis=1))


def _fixed_point(points: Terms) -> Array:
    """Integer atomics: sums are multiples of 2^-16."""
    return added(points.become(np.round(points.products * 65536) / 65536))


def _point_tail_dropped(points: Terms) -> Array:
    whole = len(points.places) // _TILE * _TILE or len(points.places)
    return added(points.part(slice(whole)))


def _last_cell_dropped(output: Array, sums: Array) -> None:
    output[...] = sums
    output[-1, -1, -1] = 0


def _channel_tail_dropped(output: Array, sums: Array) -> None:
    output[...] = 0
    whole = sums.shape[-1] // _TILE * _TILE or sums.shape[-1]
    output[..., :whole] = sums[..., :whole]


def _mask_multiplied(call: OpCall) -> Status:
    """Points outside are added to the first cell times 0, and 0 · NaN is NaN."""
    status = _right(call)
    outside = call.array("pos_memo")[..., 0] < 0
    call.array("output_features")[0, 0, 0] += (call.array("input_features")[outside] * np.float32(0)).sum(axis=0)
    return status


def _channels_in_8_bits(output: Array, sums: Array) -> None:
    output[...] = 0
    output[..., : 1 << 8] = sums[..., : 1 << 8]


# What was there before.


def _left_by_others(call: OpCall, first: int) -> Status:
    """From this batch on, the sums come on top; the buffer may hold a signalling NaN."""
    before = call.array("output_features")[first:].copy()
    status = _right(call)
    with np.errstate(invalid="ignore", over="ignore"):
        call.array("output_features")[first:] += before
    return status


def _untouched(call: OpCall) -> Array:
    """bool [B, Y, X]: no point falls into the cell."""
    memo = call.array("pos_memo")
    untouched = np.ones(call.tensor("output_features").dims[:3], bool)
    untouched[tuple(memo[memo[..., 0] >= 0].T)] = False
    return untouched


MUTANTS: Final = (
    # Which points count.
    _wrong("strict_lower_bound", "§3.1's `> 0`: coordinate 0 is outside", Steps(inside=lambda p: p.within((1, 1, 1)))),
    _wrong("strict_in_plane", "§3.1's `> 0` on x and y", Steps(inside=lambda p: p.within((1, 1, 0)))),
    _wrong("strict_in_depth", "§3.1's `> 0` on z", Steps(inside=lambda p: p.within((0, 0, 1)))),
    _wrong("negative_x_inside", "x = −1 is inside", Steps(inside=lambda p: p.within((-1, 0, 0)))),
    _wrong("negative_y_inside", "y = −1 is inside", Steps(inside=lambda p: p.within((0, -1, 0)))),
    _wrong("negative_z_inside", "z = −1 is inside", Steps(inside=lambda p: p.within((0, 0, -1)))),
    _wrong("inclusive_x", "x = num_voxel_x is inside", Steps(inside=lambda p: p.within(beyond=(1, 0, 0)))),
    _wrong("inclusive_y", "y = num_voxel_y is inside", Steps(inside=lambda p: p.within(beyond=(0, 1, 0)))),
    _wrong("inclusive_z", "z = num_voxel_z is inside", Steps(inside=lambda p: p.within(beyond=(0, 0, 1)))),
    _wrong("last_layer_outside", "z = num_voxel_z − 1 is outside", Steps(inside=lambda p: p.within(beyond=(0, 0, -1)))),
    _wrong(
        "depth_ignored",
        "z does not decide whether a point counts",
        Steps(inside=lambda p: replace(p, z=np.zeros_like(p.z)).within()),
    ),
    _wrong("one_layer", "only z = 0 counts", Steps(inside=lambda p: replace(p, extents=(*p.extents[:2], 1)).within())),
    _wrong(
        "width_for_height", "x is held against num_voxel_y, y against num_voxel_x", Steps(inside=_bounded_by((1, 0, 2)))
    ),
    _wrong(
        "extents_reversed", "x is held against num_voxel_z, z against num_voxel_x", Steps(inside=_bounded_by((2, 1, 0)))
    ),
    _wrong("float_bounds", "bounds compared in float32", Steps(inside=_bounds_in_float)),
    _wrong("linear_bounds", "only the linear cell is checked", Steps(inside=_by_linear_cell)),
    _wrong("ends_at_a_point_outside", "points behind one outside are not reached", Steps(inside=_up_to_one_outside)),
    *(
        _wrong(f"{name}_coordinates", f"coordinates kept in {message}", Steps(points=_narrowed(narrow)))
        for name, message, narrow in NARROW
    ),
    # What pos_memo holds.
    _wrong("memo_x_first", "pos_memo is (batch, x, y)", Steps(memo=lambda p, inside: p.memo(inside)[..., [0, 2, 1]])),
    _wrong("memo_xyz", "pos_memo is (x, y, z)", Steps(memo=_memo_without_z)),
    _wrong(
        "memo_batch_from_one",
        "pos_memo counts batches from 1",
        Steps(memo=lambda p, inside: replace(p, batch=p.batch + 1).memo(inside)),
    ),
    _wrong(
        "memo_batch_0",
        "pos_memo names batch 0 in every batch",
        Steps(memo=lambda p, inside: replace(p, batch=np.zeros_like(p.batch)).memo(inside)),
    ),
    _wrong(
        "memo_of_all",
        "pos_memo is written for points outside",
        Steps(memo=lambda p, inside: p.memo(np.ones_like(inside))),
    ),
    _wrong(
        "memo_0_outside",
        "pos_memo is 0 for points outside",
        Steps(memo=lambda p, inside: np.where(inside[..., None], p.memo(inside), 0)),
    ),
    _wrong("memo_half_cleared", "pos_memo is (−1, y, x) for points outside", Steps(memo=_memo_half_cleared)),
    _wrong("memo_axes_first", "pos_memo is written as [B, 3, N]", Steps(memo=_memo_axes_first)),
    *tails_left(_right, "pos_memo", 1, "points", (16, 128)),
    part_left(_right, "pos_memo", 1, "points"),
    # Which cell.
    _wrong("cell_transposed", "output_features is laid out [B, X, Y, C]", Steps(cells=_transposed)),
    _wrong(
        "height_as_row_length",
        "a row of output_features taken as num_voxel_y cells",
        Steps(cells=_height_as_row_length),
    ),
    _wrong(
        "batch_ignored",
        "every batch pools into the first",
        Steps(cells=lambda p: replace(p, batch=np.zeros_like(p.batch)).cells()),
    ),
    _wrong("row_by_depth", "z chooses the row in place of y", Steps(cells=lambda p: replace(p, y=p.z).cells())),
    _wrong("int8_cells", "linear cells kept in 8 bits", Steps(cells=lambda p: wrapped(8)(p.cells()))),
    # What is added.
    _wrong_sum("features_channels_first", "input_features read as [B, C, N]", read=channels_first),
    _wrong_sum(
        "features_of_batch_0",
        "every batch adds the first one's features",
        read=_misread(lambda features: np.broadcast_to(features[:1], features.shape)),
    ),
    _wrong_sum("features_compacted", "features are counted through the points inside alone", read=_compacted),
    _wrong_sum("half_features", "features rounded to half", read=_misread(through_half)),
    _wrong_sum("bf16_features", "features rounded to bf16", read=_misread(partial(shortened, bits=8))),
    Mutant("mask_multiplied", "points outside are multiplied by 0 instead of left out", _mask_multiplied),
    # How it is added.
    *wrong_sums("output_features", terms, products=False, right=_right),
    _wrong_sum("fixed_point", "features are rounded to multiples of 2^-16 for integer atomics", add=_fixed_point),
    _wrong_sum("last_cell_dropped", "the last cell stays 0", write=_last_cell_dropped),
    _wrong_sum("point_tail_dropped", "points behind the last whole tile of 64 are lost", add=_point_tail_dropped),
    _wrong_sum(
        "channel_tail_dropped", "channels behind the last whole vector of 64 are lost", write=_channel_tail_dropped
    ),
    _wrong_sum("channels_in_8_bits", "of more than 256 channels those behind are lost", write=_channels_in_8_bits),
    # What was there before.
    Mutant("output_not_cleared", "output_features is not set to 0 first", partial(_left_by_others, first=0)),
    Mutant(
        "first_batch_cleared", "only the first batch of output_features is set to 0", partial(_left_by_others, first=1)
    ),
    left("untouched_left", "cells without a point are not written", _right, "output_features", _untouched),
    # What another call finds.
    cached_by_shape(_right),
    sum_goes_on(_right, "output_features"),
    first_param_kept(_right, "num_voxel_x"),
    input_cleared(_right, "geom_xyz"),
)


# Right implementations that the document allows; the cases of each tag alone tell them apart.


VARIANTS: Final = {
    "subnormal": (
        _wrong_sum("subnormal_features_flushed", "subnormal features count as 0", read=_misread(flushed)),
        _wrong_sum("subnormal_sums_flushed", "subnormal sums become 0", add=lambda points: flushed(added(points))),
    ),
}
