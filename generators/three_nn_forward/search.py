"""The right search in steps that can be replaced one by one; mutants do."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mluops_gtest.authoring import Array, OpCall, Status

INFINITY = np.float32(np.inf)


def differences(unknown: Array, known: Array) -> Array:
    """[N, M, 3]."""
    result: Array = unknown[:, None] - known
    return result


def sum_of_squares(values: Array) -> Array:
    """Of the three along the last axis."""
    x, y, z = np.moveaxis(values, -1, 0)
    result: Array = x * x + y * y + z * z
    return result


def distances(unknown: Array, known: Array) -> Array:
    """[N, M]."""
    return sum_of_squares(differences(unknown, known))


def ascending(squared: Array) -> Array:
    """[N, M]: all known points, the nearest first, of equals the one that comes first."""
    return np.argsort(squared, axis=1, kind="stable")


def filled(dist2: Array, idx: Array, _: Array) -> tuple[Array, Array]:
    """What stands where there is no neighbour."""
    return dist2, np.where(np.isfinite(dist2), idx, 0)


def write(call: OpCall, batch: int, dist2: Array, idx: Array) -> None:
    """The results of a batch."""
    call.array("dist2")[batch], call.array("idx")[batch] = dist2, idx


@dataclass(frozen=True, slots=True)
class Steps:
    """Everything at once and in float32: all distances, sorted. A mistake replaces one step."""

    # The coordinates [B, N, 3] and [B, M, 3] to compute with.
    clouds: Callable[[Array, Array], tuple[Array, Array]] = lambda unknown, known: (unknown, known)
    distances: Callable[[Array, Array], Array] = distances
    # Distances [N, M], +Inf where there is none.
    valid: Callable[[Array], Array] = lambda squared: np.fmin(squared, INFINITY)
    order: Callable[[Array], Array] = ascending
    # (dist2 [N, 3], idx [N, 3], all distances): +Inf and the first indices at hand where there are fewer.
    filled: Callable[[Array, Array, Array], tuple[Array, Array]] = filled
    # (idx, known points in the batches before) → the indices of neighbours as they are reported.
    named: Callable[[Array, int], Array] = lambda idx, _: idx
    write: Callable[[OpCall, int, Array, Array], None] = write


def apply(steps: Steps, call: OpCall) -> Status:
    """Write both outputs of a valid call by these steps."""
    unknown, known = steps.clouds(call.array("unknown").astype("<f4"), call.array("known").astype("<f4"))
    for batch, (queries, points) in enumerate(zip(unknown, known, strict=True)):
        squared = steps.valid(steps.distances(queries, points))
        order = steps.order(squared)[:, :3]
        dist2, idx = np.full((len(squared), 3), INFINITY), np.zeros((len(squared), 3), np.int64)
        idx[:, : order.shape[1]] = order
        dist2[:, : order.shape[1]] = np.take_along_axis(squared, order, axis=1)
        dist2, idx = steps.filled(dist2, idx, squared)
        steps.write(call, batch, dist2, np.where(np.isfinite(dist2), steps.named(idx, batch * len(points)), idx))
    return Status.SUCCESS
