"""What the document takes for granted: no rounding decides whether a point is inside."""

import math
from fractions import Fraction

import numpy as np

from mluops_gtest.authoring import Array, DType, OpCall
from mluops_gtest.authoring.sums import lattice_exponent

from .._shared.points import lattice_fault, squared_distances
from .reference import blocks, squared_radii

# Unit roundoffs. §3.1 rounds three differences, three squares and two sums, so a distance errs by five of them; the
# squared bound may be rounded once, and whoever compares roots rounds once more and doubles that.
_ROUNDOFF = {DType.FLOAT: 2.0**-24, DType.HALF: 2.0**-11}
_ROUNDINGS = 8


def precondition(call: OpCall) -> str | None:
    """Every float evaluation of the distances, in any order, finds the same points (§1.5.1 asks for equal indices)."""
    if lattice_fault(call.array("new_xyz"), call.array("xyz")) is None and _bounds_are_sharp(call):
        return None
    return _undecided(call)


def _bounds_are_sharp(call: OpCall) -> bool:
    """However a radius is squared, the same distances of the lattice lie below; 0 itself always counts."""
    unit = Fraction(4) ** min(lattice_exponent(call.array(name)) for name in ("new_xyz", "xyz"))
    for name in ("min_radius", "max_radius"):
        finite = [Fraction(square) for square in _squares(call, name) if math.isfinite(square)]
        if len({max(1, math.ceil(square / unit)) for square in finite}) > 1:
            return False
    return True


def _squares(call: OpCall, name: str) -> list[float]:
    """The square in exact arithmetic, in float, and in the type of the tensors."""
    radius, storage = np.float32(call.param(name)), call.tensor("xyz").dtype.storage
    with np.errstate(over="ignore", under="ignore"):
        own = radius.astype(storage)
        return [float(radius) ** 2, float(radius * radius), float((radius * radius).astype(storage)), float(own * own)]


def _undecided(call: OpCall) -> str | None:
    """The first pair whose distance rounding may carry across a bound, or to 0 or infinity."""
    new_xyz, xyz, dtype = call.array("new_xyz"), call.array("xyz"), call.tensor("xyz").dtype
    bounds = [float(bound) for bound in squared_radii(call)]
    for batch, rows, columns in blocks(call):
        squared = squared_distances(new_xyz[batch, rows], xyz[batch, columns])
        for doubt, found in _doubts(squared, dtype, bounds).items():
            if found.any():
                row, column = np.argwhere(found)[0].tolist()
                return f"{doubt}: centre [{batch}, {rows.start + row}], point {columns.start + column}"
    return None


def _doubts(squared: Array, dtype: DType, bounds: list[float]) -> dict[str, Array]:
    """Where a squared distance is too close to what decides."""
    limits = np.finfo(dtype.storage)
    least, largest, error = float(limits.tiny), float(limits.max), _ROUNDINGS * _ROUNDOFF[dtype]
    near = np.zeros(squared.shape, bool)
    with np.errstate(invalid="ignore"):
        for bound in bounds:
            if 0 < bound < math.inf:
                # Squares below the smallest normal number may become 0, on any two of the axes.
                near |= np.abs(squared - bound) <= error * np.maximum(squared, bound) + 2 * least
        return {
            # An infinite distance comes from an infinite coordinate, and is outside whatever rounds.
            "rounding decides on which side of the sphere a point is": near & np.isfinite(squared),
            "two points are so near that their distance may become 0": (squared > 0) & (squared < 3 * least),
            "a squared distance below the bound may become infinite": (
                (squared > largest * (1 - error)) & (squared < bounds[1])
            ),
        }
