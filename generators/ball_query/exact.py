"""One index as §3.1 lists it: the first nsample points in the shell, the first of them again behind the last."""

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import cache

import numpy as np

from mluops_gtest.authoring import OpCall
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction, squared_distances_to


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """Points by index; 0 in the row of a centre without any, as the caller leaves it."""
    centres, cloud = call.array("new_xyz"), call.array("xyz")
    # The bounds of the shell are float products of floats; one that overflows leaves nothing out.
    with np.errstate(over="ignore", under="ignore"):
        low, high = (fraction(np.square(np.float32(call.param(f"{name}_radius")))) for name in ("min", "max"))
    distances_in = cache(lambda batch: squared_distances_to(cloud[batch]))

    def is_inside(squared: Fraction | None) -> bool:
        # A point that coincides always counts; the inner sphere belongs to the shell, the outer one does not.
        return squared is not None and (squared == 0 or (low <= squared and (high == math.inf or squared < high)))

    @cache
    def inside(batch: int, centre: int) -> list[int]:
        distances = distances_in(batch)(centres[batch, centre])
        return [place for place, squared in enumerate(distances) if is_inside(squared)]

    def idx(batch: int, centre: int, sample: int) -> int:
        found = inside(batch, centre)
        return 0 if not found else found[sample] if sample < len(found) else found[0]

    return {"idx": idx}
