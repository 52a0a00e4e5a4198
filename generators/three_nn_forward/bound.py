"""What arithmetic allows: a distance is the sum of three squares, in any order."""

import math

import numpy as np

from mluops_gtest.authoring import Bound, OpCall
from mluops_gtest.authoring.sums import lattice_exponent

from .._shared.points import nearest

# Beyond it a unit no longer matters, and its square would overflow.
_LARGEST_UNIT = 100


def bound(call: OpCall) -> dict[str, Bound]:
    """The difference rounds once and is squared, the square rounds, and two additions do."""
    unknown, known = call.array("unknown"), call.array("known")
    squared, _ = nearest(unknown, known)
    exponent = min(lattice_exponent(unknown), lattice_exponent(known), _LARGEST_UNIT)
    return {"dist2": Bound(np.where(np.isfinite(squared), squared, 0.0), 5, unit=math.ldexp(1.0, 2 * exponent))}
