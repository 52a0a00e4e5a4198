"""Implementations with one plausible mistake each; the small cases must catch every one."""

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status
from mluops_gtest.authoring.roundings import flushed


class Pooling:
    """The right pooling in four steps; a class below does one of them wrong."""

    def run(self, call: OpCall) -> Status:
        """Write both outputs of a valid call."""
        x, y, z = np.moveaxis(call.array("geom_xyz").astype(np.int64), -1, 0)
        batch = np.broadcast_to(np.arange(len(x))[:, None], x.shape)
        extents = tuple(int(call.param(f"num_voxel_{axis}")) for axis in "xyz")
        inside = self.inside((x, y, z), extents)
        call.array("pos_memo")[...] = self.memo(batch, y, x, inside)
        output = call.array("output_features")
        output[...] = 0
        cells = self.cells(batch, y, x, extents)
        inside = inside & (cells >= 0) & (cells < output.size // output.shape[-1])
        with np.errstate(invalid="ignore", over="ignore"):
            self.add(output.reshape(-1, output.shape[-1]), cells[inside], call.array("input_features")[inside])
        return Status.SUCCESS

    def inside(self, point: tuple[Array, Array, Array], extents: tuple[int, ...]) -> Array:
        """Which points count."""
        x, y, z = (self.within(axis, extent) for axis, extent in zip(point, extents, strict=True))
        return x & y & z

    def within(self, axis: Array, extent: int) -> Array:
        """Which coordinates lie on the axis."""
        return (axis >= 0) & (axis < extent)

    def memo(self, batch: Array, y: Array, x: Array, inside: Array) -> Array:
        """pos_memo."""
        return np.where(inside[..., None], np.stack([batch, y, x], axis=-1), -1)

    def cells(self, batch: Array, y: Array, x: Array, extents: tuple[int, ...]) -> Array:
        """The linear cell of each point."""
        width, height, _ = extents
        return (batch * height + y) * width + x

    def add(self, output: Array, cells: Array, features: Array) -> None:
        """The features of the counted points into their cells."""
        np.add.at(output, cells, features)


class StrictLowerBound(Pooling):
    """§3.1's `> 0`."""

    def inside(self, point: tuple[Array, Array, Array], extents: tuple[int, ...]) -> Array:
        """0 is outside on every axis."""
        return super().inside(point, extents) & (point[0] > 0) & (point[1] > 0) & (point[2] > 0)


class StrictLowerBoundInPlane(Pooling):
    """§3.1's `> 0` on x and y, with z excepted because it is always 0 in the network."""

    def inside(self, point: tuple[Array, Array, Array], extents: tuple[int, ...]) -> Array:
        """0 is outside on x and y."""
        return super().inside(point, extents) & (point[0] > 0) & (point[1] > 0)


class InclusiveUpperBound(Pooling):
    """`<=` the number of voxels."""

    def inside(self, point: tuple[Array, Array, Array], extents: tuple[int, ...]) -> Array:
        """One layer more on every axis."""
        return super().inside(point, tuple(extent + 1 for extent in extents))


class DepthIgnored(Pooling):
    """z is not looked at."""

    def inside(self, point: tuple[Array, Array, Array], extents: tuple[int, ...]) -> Array:
        """x and y alone decide."""
        return super().inside((point[0], point[1], np.zeros_like(point[2])), extents)


class OneLayer(Pooling):
    """As if num_voxel_z were always 1."""

    def inside(self, point: tuple[Array, Array, Array], extents: tuple[int, ...]) -> Array:
        """Layers above the first are not folded in."""
        return super().inside(point, (*extents[:2], 1))


class FloatBounds(Pooling):
    """Coordinates and bounds compared as float32."""

    def within(self, axis: Array, extent: int) -> Array:
        """2^24 and 2^24 + 1 look equal."""
        return (axis >= 0) & (axis.astype(np.float32) < np.float32(extent))


class LinearBounds(Pooling):
    """Only the linear cell is checked, so a point beyond one row lands in the next."""

    def inside(self, point: tuple[Array, Array, Array], extents: tuple[int, ...]) -> Array:
        """x is free, the cell must lie in the batch."""
        x, y, z = point
        width, height, depth = extents
        cell = y * width + x
        return (cell >= 0) & (cell < width * height) & (z >= 0) & (z < depth)


class MemoXFirst(Pooling):
    """pos_memo as (batch, x, y), the order in which §3.1 copies."""

    def memo(self, batch: Array, y: Array, x: Array, inside: Array) -> Array:
        """x before y."""
        return super().memo(batch, x, y, inside)


class MemoBatchFromOne(Pooling):
    """§3.1's loop over batches begins at 1."""

    def memo(self, batch: Array, y: Array, x: Array, inside: Array) -> Array:
        """Batches counted from 1."""
        return super().memo(batch + 1, y, x, inside)


class MemoOfAll(Pooling):
    """pos_memo written before the bounds are looked at."""

    def memo(self, batch: Array, y: Array, x: Array, inside: Array) -> Array:
        """Also where the point does not count."""
        return super().memo(batch, y, x, np.ones_like(inside))


class CellTransposed(Pooling):
    """Output laid out [B, X, Y, C]."""

    def cells(self, batch: Array, y: Array, x: Array, extents: tuple[int, ...]) -> Array:
        """x is the row."""
        width, height, _ = extents
        return (batch * width + x) * height + y


class BatchIgnored(Pooling):
    """Every batch pools into the first."""

    def cells(self, batch: Array, y: Array, x: Array, extents: tuple[int, ...]) -> Array:
        """No batch offset."""
        return super().cells(np.zeros_like(batch), y, x, extents)


class LastPointWins(Pooling):
    """Assigned, not added."""

    def add(self, output: Array, cells: Array, features: Array) -> None:
        """Later points overwrite earlier ones."""
        for cell, row in zip(cells.tolist(), features, strict=True):
            output[cell] = row


class LostUpdates(Pooling):
    """`output[cells] += features` without atomics: of points that meet in a cell one survives."""

    def add(self, output: Array, cells: Array, features: Array) -> None:
        """Duplicates are read before any is written."""
        output[cells] += features


class HalfAccumulator(Pooling):
    """Accumulates in half precision."""

    def add(self, output: Array, cells: Array, features: Array) -> None:
        """Rounded to 11 bits after every addition."""
        sums = np.zeros(output.shape, np.float16)
        np.add.at(sums, cells, features.astype(np.float16))
        output[...] = sums


class SubnormalFeaturesFlushed(Pooling):
    """Reads subnormal features as 0, as vector units do in their fast mode."""

    def add(self, output: Array, cells: Array, features: Array) -> None:
        """Nothing below 2^-126 is read."""
        super().add(output, cells, flushed(features))


class SubnormalSumsFlushed(Pooling):
    """Writes subnormal sums as 0."""

    def add(self, output: Array, cells: Array, features: Array) -> None:
        """Nothing below 2^-126 is written."""
        super().add(output, cells, features)
        output[...] = flushed(output)


class NanSkipped(Pooling):
    """Treats NaN as missing."""

    def add(self, output: Array, cells: Array, features: Array) -> None:
        """NaN counts as 0."""
        super().add(output, cells, np.where(np.isnan(features), np.float32(0), features))


class InfiniteClamped(Pooling):
    """Saturates at the largest float."""

    def add(self, output: Array, cells: Array, features: Array) -> None:
        """Neither an infinite term nor an infinite sum."""
        largest = np.finfo(np.float32).max
        super().add(output, cells, np.clip(features, -largest, largest))
        np.clip(output, -largest, largest, out=output)


class LastCellDropped(Pooling):
    """A loop over cells that ends one too early."""

    def add(self, output: Array, cells: Array, features: Array) -> None:
        """The last cell of the last batch stays 0."""
        super().add(output, cells, features)
        output[-1] = 0


class PointTailDropped(Pooling):
    """Whole tiles of 64 points only, where there is more than one."""

    def add(self, output: Array, cells: Array, features: Array) -> None:
        """The rest behind the last whole tile is not added."""
        whole = len(cells) // 64 * 64 or len(cells)
        super().add(output, cells[:whole], features[:whole])


class ChannelTailDropped(Pooling):
    """Whole vectors of 64 channels only, where there is more than one."""

    def add(self, output: Array, cells: Array, features: Array) -> None:
        """The rest behind the last whole vector is not added."""
        whole = features.shape[1] // 64 * 64 or features.shape[1]
        super().add(output[:, :whole], cells, features[:, :whole])


class MaskMultiplied(Pooling):
    """Points outside are added to the first cell times 0."""

    def run(self, call: OpCall) -> Status:
        """0 · NaN is NaN."""
        status = super().run(call)
        outside = call.array("pos_memo")[..., 0] < 0
        call.array("output_features")[0, 0, 0] += (call.array("input_features")[outside] * np.float32(0)).sum(axis=0)
        return status


class OutputNotCleared(Pooling):
    """Adds to what the buffer held."""

    def run(self, call: OpCall) -> Status:
        """The sums come on top."""
        before = call.array("output_features").copy()
        status = super().run(call)
        with np.errstate(invalid="ignore"):  # the buffer may hold a signalling NaN
            call.array("output_features")[...] += before
        return status


MUTANTS = (
    Mutant("strict_lower_bound", "§3.1's `> 0`: coordinate 0 is outside", StrictLowerBound().run),
    Mutant("strict_lower_bound_in_plane", "§3.1's `> 0` on x and y", StrictLowerBoundInPlane().run),
    Mutant(
        "inclusive_upper_bound", "the coordinate equal to the number of voxels is inside", InclusiveUpperBound().run
    ),
    Mutant("depth_ignored", "z does not decide whether a point counts", DepthIgnored().run),
    Mutant("one_layer", "only z = 0 counts", OneLayer().run),
    Mutant("float_bounds", "bounds compared in float32", FloatBounds().run),
    Mutant("linear_bounds", "only the linear cell is checked", LinearBounds().run),
    Mutant("memo_x_first", "pos_memo is (batch, x, y)", MemoXFirst().run),
    Mutant("memo_batch_from_one", "pos_memo counts batches from 1", MemoBatchFromOne().run),
    Mutant("memo_of_all", "pos_memo is written for points outside", MemoOfAll().run),
    Mutant("cell_transposed", "output_features is laid out [B, X, Y, C]", CellTransposed().run),
    Mutant("batch_ignored", "every batch pools into the first", BatchIgnored().run),
    Mutant("last_point_wins", "features are assigned, not added", LastPointWins().run),
    Mutant("lost_updates", "additions to one cell are not atomic", LostUpdates().run),
    Mutant("half_accumulator", "sums are kept in half precision", HalfAccumulator().run),
    Mutant("subnormal_features_flushed", "subnormal features count as 0", SubnormalFeaturesFlushed().run),
    Mutant("subnormal_sums_flushed", "subnormal sums become 0", SubnormalSumsFlushed().run),
    Mutant("nan_skipped", "NaN counts as 0", NanSkipped().run),
    Mutant("infinite_clamped", "infinities become the largest float", InfiniteClamped().run),
    Mutant("last_cell_dropped", "the last cell stays 0", LastCellDropped().run),
    Mutant("point_tail_dropped", "points behind the last whole tile of 64 are lost", PointTailDropped().run),
    Mutant("channel_tail_dropped", "channels behind the last whole vector of 64 are lost", ChannelTailDropped().run),
    Mutant("mask_multiplied", "points outside are multiplied by 0 instead of left out", MaskMultiplied().run),
    Mutant("output_not_cleared", "output_features is not set to 0 first", OutputNotCleared().run),
)
