"""What the points carry, conditioned so that float32 means in any order stay well within the criterion."""

import math
from collections.abc import Callable
from typing import Literal

import numpy as np

from mluops_gtest.authoring import Array, Draw, diff1_and_diff2
from mluops_gtest.authoring.sums import assert_conditioned, exact_sums

from .voxels import Voxels

# §1.5.1
CRITERIA = diff1_and_diff2(3e-3)

Reduce = Literal["mean", "max"]
Kind = Literal[
    "lattice",
    "exact",
    "ends",
    "positive",
    "negative",
    "deep",
    "tied",
    "zeros",
    "wide",
    "wider",
    "leading",
    "cancelling",
    "tiny",
]

# Beyond this a sum overflows whose mean does not, and whether it does depends on where an implementation divides.
_LARGEST_SUM = 1e37
# Terms that the conditioning test looks at, the most crowded voxels first.
_TESTED = 1 << 18


def lattice(draw: Draw, _voxels: Voxels, shape: tuple[int, int]) -> Array:
    """±k · 2^-24, below 1, every mantissa bit of a float32 in use: sums are exact in float64."""
    return draw.stream("feats").lattice(shape, 24)


def exact(draw: Draw, voxels: Voxels, shape: tuple[int, int]) -> Array:
    """So few bits that float32 sums of any voxel are exact in any order: whoever loses one addition is seen."""
    return draw.stream("feats").lattice(shape, 24 - math.ceil(math.log2(max(int(voxels.sizes.max()), 2))))


def ends(draw: Draw, voxels: Voxels, shape: tuple[int, int]) -> Array:
    """Lattice, and the first and the last point of each voxel are its maximum in every other channel each."""
    feats = lattice(draw, voxels, shape)
    for which, channels in ((voxels.starts, slice(0, None, 2)), (voxels.starts + voxels.sizes - 1, slice(1, None, 2))):
        feats[voxels.points[which], channels] = 1 + np.abs(feats[voxels.points[which], channels])
    return feats


def positive(draw: Draw, voxels: Voxels, shape: tuple[int, int]) -> Array:
    """Lattice without signs: the sum grows with every term."""
    return np.abs(lattice(draw, voxels, shape))


def negative(draw: Draw, voxels: Voxels, shape: tuple[int, int]) -> Array:
    """Below 0 throughout: a maximum that starts at 0 or at the smallest float never ends below it."""
    return -positive(draw, voxels, shape)


def deep(draw: Draw, _voxels: Voxels, shape: tuple[int, int]) -> Array:
    """Below −1.7e38: a maximum that starts at −1.17549e38 never ends there."""
    return -np.abs(draw.stream("feats").mantissas(shape, (127, 127)))


def tied(draw: Draw, _voxels: Voxels, shape: tuple[int, int]) -> Array:
    """−3/4 … 3/4 in quarters: most maxima stand at several points."""
    return (draw.stream("feats").integers(-3, 4, shape) / 4).astype("<f4")


def zeros(draw: Draw, voxels: Voxels, shape: tuple[int, int]) -> Array:
    """+0, −0 and, half of the time, below 0."""
    kind = draw.stream("kind").integers(0, 4, shape)
    return np.select([kind == 0, kind == 1], [np.float32(0.0), np.float32(-0.0)], negative(draw, voxels, shape))


def wide(draw: Draw, _voxels: Voxels, shape: tuple[int, int]) -> Array:
    """Exponents over 41 binades, more than one float64 accumulator holds exactly and far more than a half has."""
    return draw.stream("feats").mantissas(shape, (-20, 20))


def wider(draw: Draw, _voxels: Voxels, shape: tuple[int, int]) -> Array:
    """Exponents over 161 binades, nearly all that stay below the largest sum."""
    return draw.stream("feats").mantissas(shape, (-80, 80))


def leading(draw: Draw, voxels: Voxels, shape: tuple[int, int]) -> Array:
    """Positive, and the first point of each voxel outweighs another by 2^11: half precision would lose the others."""
    feats = positive(draw, voxels, shape)
    feats[voxels.points[voxels.starts]] *= np.float32(2048)
    return feats


def cancelling(draw: Draw, voxels: Voxels, shape: tuple[int, int]) -> Array:
    """Points in pairs of one voxel that cancel but for five bits."""
    feats = lattice(draw, voxels, shape)
    rest = np.abs(draw.stream("rest").lattice(shape, 19))
    places = np.arange(len(voxels.points)) - np.repeat(voxels.starts, voxels.sizes)
    second = np.flatnonzero(places % 2)
    first, second = voxels.points[second - 1], voxels.points[second]
    feats[second] = -feats[first] * (np.float32(1) - rest[second] / np.float32(32))
    return feats


def tiny(draw: Draw, _voxels: Voxels, shape: tuple[int, int]) -> Array:
    """±k · 2^-147 with k of 12 bits: sums of a thousand and their quarters are subnormal numbers, all exact."""
    return draw.stream("feats").lattice(shape, 12, scale=147)


_VALUES: dict[str, Callable[[Draw, Voxels, tuple[int, int]], Array]] = {
    kind.__name__: kind
    for kind in (lattice, exact, ends, positive, negative, deep, tied, zeros, wide, wider, leading, cancelling, tiny)
}


def features(draw: Draw, voxels: Voxels, channels: int, values: Kind, reduce: Reduce) -> Array:
    """float32 [N, C]; whoever counts an invalid point gets another mean and another maximum."""
    shape = (len(voxels.of_point), channels)
    feats = _VALUES[values](draw, voxels, shape)
    outside = np.flatnonzero(voxels.of_point < 0)
    feats[outside] = 8 + draw.stream("outside").lattice((len(outside), channels), 20)
    if reduce == "mean":
        _assert_any_order(feats, voxels)
    return feats


def _assert_any_order(feats: Array, voxels: Voxels) -> None:
    """float32 means of the most crowded voxels pass the criterion with room, in any order of additions, and also
    where every feature is divided before it is added."""
    if not np.abs(feats, dtype=np.float64).sum() < _LARGEST_SUM:
        raise ValueError(f"features of a mean must stay below {_LARGEST_SUM} together")
    if voxels.count == 0:
        return
    crowded_first = np.argsort(-voxels.sizes, kind="stable")
    longest, channels = int(voxels.sizes.max()), feats.shape[1]
    chosen = crowded_first[: max(1, _TESTED // (longest * channels))]
    terms = np.zeros((longest, len(chosen), channels), np.float64)
    for place, voxel in enumerate(chosen):
        size, start = voxels.sizes[voxel], voxels.starts[voxel]
        terms[:size, place] = feats[voxels.points[start : start + size]].astype(np.float64) / size
    columns = terms.reshape(longest, -1)
    assert_conditioned(columns, exact_sums(columns), CRITERIA)
