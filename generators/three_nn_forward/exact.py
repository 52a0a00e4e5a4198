"""One neighbour as §1.2 defines it: all known points sorted by their squared distance, equals by index."""

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from heapq import nsmallest

from mluops_gtest.authoring import OpCall
from mluops_gtest.authoring.exact_numbers import ExactElement, overflows, squared_distances_to


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """The three nearest of each unknown point; +Inf and 0 where there are fewer."""
    unknown, known = call.array("unknown"), call.array("known")

    distances_in = cache(lambda batch: squared_distances_to(known[batch]))

    @cache
    def nearest(batch: int, point: int) -> list[tuple[Fraction | float, int]]:
        distances = distances_in(batch)(unknown[batch, point])
        candidates = ((squared, place) for place, squared in enumerate(distances) if squared is not None)
        # Distances first, then indices; whatever overflows is behind all that do not.
        found = [one for one in nsmallest(3, candidates) if not overflows(one[0], unknown.itemsize)]
        return [*found, *[(math.inf, 0)] * (3 - len(found))]

    return {
        "dist2": lambda batch, point, rank: nearest(batch, point)[rank][0],
        "idx": lambda batch, point, rank: nearest(batch, point)[rank][1],
    }
