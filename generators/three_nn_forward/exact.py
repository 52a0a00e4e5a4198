"""One neighbour as §1.2 defines it: all known points sorted by their squared distance, equals by index."""

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import cache

from mluops_gtest.authoring import OpCall
from mluops_gtest.authoring.exact_numbers import ExactElement, overflows, squared_distances_to


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """The three nearest of each unknown point; +Inf and 0 where there are fewer."""
    unknown, known = call.array("unknown"), call.array("known")

    distances_in = cache(lambda batch: squared_distances_to(known[batch]))

    @cache
    def nearest(batch: int, point: int) -> list[tuple[Fraction | float, int]]:
        distances = distances_in(batch)(unknown[batch, point])
        found = sorted(
            (squared, place)
            for place, squared in enumerate(distances)
            if squared is not None and not overflows(squared, unknown.itemsize)
        )
        return [*found[:3], *[(math.inf, 0)] * (3 - len(found))]

    return {
        "dist2": lambda batch, point, rank: nearest(batch, point)[rank][0],
        "idx": lambda batch, point, rank: nearest(batch, point)[rank][1],
    }
