"""The right search in steps that can be replaced one by one; mutants do."""

import numpy as np

from mluops_gtest.authoring import Array, OpCall, Status


class Search:
    """Everything at once and in float32: all distances, sorted."""

    def run(self, call: OpCall) -> Status:
        """Write both outputs of a valid call."""
        unknown, known = self.clouds(call.array("unknown").astype("<f4"), call.array("known").astype("<f4"))
        for batch in range(len(unknown)):
            squared = self.squared(unknown[batch], known[min(batch, len(known) - 1)])
            dist2, idx = self.found(squared, self.order(squared))
            self.write(call, batch, dist2, np.where(np.isfinite(dist2), self.named(idx, batch * known.shape[1]), idx))
        return Status.SUCCESS

    def clouds(self, unknown: Array, known: Array) -> tuple[Array, Array]:
        """The coordinates to compute with."""
        return unknown, known

    def squared(self, unknown: Array, known: Array) -> Array:
        """[N, M]; +Inf where there is no distance."""
        return np.fmin(self.distance(self.difference(unknown, known)), np.float32(np.inf))

    def difference(self, unknown: Array, known: Array) -> Array:
        """[N, M, 3]."""
        difference: Array = unknown[:, None] - known
        return difference

    def distance(self, difference: Array) -> Array:
        """Of three differences."""
        x, y, z = np.moveaxis(difference, -1, 0)
        distance: Array = x * x + y * y + z * z
        return distance

    def order(self, squared: Array) -> Array:
        """[N, M]: all known points, the nearest first."""
        return np.argsort(squared, axis=1, kind="stable")

    def found(self, squared: Array, order: Array) -> tuple[Array, Array]:
        """[N, 3] each: the first three and their distances; +Inf and 0 where there are fewer."""
        dist2 = np.full((len(squared), 3), np.inf, "<f4")
        idx = np.zeros((len(squared), 3), np.int64)
        count = min(3, order.shape[1])
        idx[:, :count] = order[:, :count]
        dist2[:, :count] = np.take_along_axis(squared, order[:, :count], axis=1)
        return self.filled(dist2, idx)

    def filled(self, dist2: Array, idx: Array) -> tuple[Array, Array]:
        """What stands where there is no neighbour."""
        return dist2, np.where(np.isfinite(dist2), idx, 0)

    def named(self, idx: Array, base: int) -> Array:
        """The indices as they are reported; `base` known points stand in the batches before."""
        del base
        return idx

    def write(self, call: OpCall, batch: int, dist2: Array, idx: Array) -> None:
        """The results of a batch."""
        call.array("dist2")[batch], call.array("idx")[batch] = dist2, idx
