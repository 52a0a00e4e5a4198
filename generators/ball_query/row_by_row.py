"""The right query in rules that can be replaced one by one; mutants do."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mluops_gtest.authoring import Array, OpCall, Status

F32 = np.float32


def squared_distances(centre: Array, points: Array) -> Array:
    """[N] between one centre and all points."""
    total: Array = np.square(points - centre).sum(axis=1)
    return total


def in_shell(distance: Array, low: np.float32, high: np.float32) -> Array:
    """bool [N]: §3.1 step 6."""
    inside: Array = (distance == 0) | ((distance >= low) & (distance < high))
    return inside


def _leave(_row: Array, _distance: Array) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Rules:
    """The right decisions; a mistake replaces one of them."""

    # Coordinates as the arithmetic has them, float32.
    coordinates: Callable[[Array], Array] = lambda coordinates: coordinates.astype(np.float32)
    # Centres and points of a batch: (new_xyz, xyz, batch).
    sides: Callable[[Array, Array, int], tuple[Array, Array]] = lambda new_xyz, xyz, batch: (new_xyz[batch], xyz[batch])
    distances: Callable[[Array, Array], Array] = squared_distances
    # The bounds that distances are compared with: (min_radius, max_radius).
    bounds: Callable[[np.float32, np.float32], tuple[np.float32, np.float32]] = lambda low, high: (
        low * low,
        high * high,
    )
    inside: Callable[[Array, np.float32, np.float32], Array] = in_shell
    # Which of the hits, in which order: (hits, distances of all points, nsample).
    listed: Callable[[Array, Array, int], Array] = lambda hits, _, nsample: hits[:nsample]
    # The whole row of nsample entries: (listed, nsample).
    row: Callable[[Array, int], Array] = lambda listed, nsample: np.append(
        listed, np.full(nsample - len(listed), listed[0])
    )
    # What becomes of a row without a hit: (row, distances).
    empty: Callable[[Array, Array], None] = _leave
    # What a row holds of its indices: (entries, batch, points).
    entries: Callable[[Array, int, int], Array] = lambda entries, _batch, _points: entries
    # Whether a row is computed: (an earlier one is empty).
    reached: Callable[[bool], bool] = lambda _: True


def apply(rules: Rules, call: OpCall) -> Status:
    """Write the rows of a valid call by these rules."""
    with np.errstate(all="ignore"):
        low, high = rules.bounds(*(F32(call.param(name)) for name in ("min_radius", "max_radius")))
        new_xyz, xyz = (rules.coordinates(call.array(name)) for name in ("new_xyz", "xyz"))
        for batch, rows in enumerate(call.array("idx")):
            centres, points = rules.sides(new_xyz, xyz, batch)
            some_empty = False
            for centre, row in zip(centres, rows, strict=True):
                distance = rules.distances(centre, points)
                hits = np.flatnonzero(rules.inside(distance, low, high))
                if len(hits) == 0:
                    rules.empty(row, distance)
                    some_empty = True
                elif rules.reached(some_empty):
                    listed = rules.listed(hits, distance, len(row))
                    row[:] = rules.entries(rules.row(listed, len(row)), batch, len(points))
    return Status.SUCCESS
