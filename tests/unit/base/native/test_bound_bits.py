"""Elements held to what arithmetic allows, in the same read as the comparison: the same bits as by numpy."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pytest

from mluops_gtest.base.native.arrays import CELL, LANES
from mluops_gtest.base.native.library import LEVELS
from mluops_gtest.core.operator import Bound
from mluops_gtest.core.tensor import Array, CriterionKind, DType, Precision
from mluops_gtest.judging import blocks
from mluops_gtest.judging.criteria import compare
from mluops_gtest.judging.elementwise import Limits
from tests.support.native_core import NATIVE, NUMPY, going
from tests.unit.base.native.test_compare_bits import bits, pair_of, random_parts, unaligned
from tests.unit.judging.test_compare import FLOATS

KINDS = (CriterionKind.DIFF1,)
SHAPES = ((1,), (LANES - 1,), (5, LANES), (3, 7, 33), (2, 1, 517), (70, 64))


def numbers(seed: int, shape: tuple[int, ...], kind: str) -> Array:
    """Positive numbers of all sizes, with zeros, infinities and NaN among them; small integers."""
    words = random_parts(seed, int(np.prod(shape)), 8)
    if kind == "i8":
        return (words % np.uint64(40)).astype(np.int64).reshape(shape)
    found = np.ldexp(1.0 + (words % np.uint64(1000)) / 1000.0, (words >> np.uint64(20)).astype(np.int64) % 55 - 40)
    for place, value in enumerate((0.0, np.inf, np.nan)):
        found[words % np.uint64(41) == place] = value
    return found.astype(kind).reshape(shape)


def bounds(seed: int, shape: tuple[int, ...]) -> list[Bound]:
    """Numbers of their own for elements, for rows, for all; a size that only the first axis does not have."""
    rows, columns = (*shape[:-1], 1), (1,) * (len(shape) - 1) + shape[-1:]
    return [
        Bound(0.0),
        Bound(3e-5, 7, products=True),
        Bound(numbers(seed, shape, "f8"), 30),
        Bound(numbers(seed + 1, shape, "f4"), numbers(seed + 2, rows, "i8"), 2.0**-20, products=True),
        Bound(numbers(seed + 3, rows, "f4"), numbers(seed + 4, rows, "i8"), numbers(seed + 5, rows, "f8"), 2),
        Bound(
            numbers(seed + 6, columns, "f8"), numbers(seed + 7, shape, "i8") * 2**21, numbers(seed, columns, "f4"), 1
        ),
        Bound(numbers(seed + 8, shape, "f2"), numbers(seed + 9, columns, "i8").astype(np.int32), 2.0**-149),
    ]


def check_limits(way: str, pair: tuple[Array, Array], dtype: DType, limits: Limits) -> object:
    with going(way):
        found = compare(*pair, dtype, KINDS, lambda: limits).elements
    return None if found is None else list(map(bits, found))


class LimitedPair(NamedTuple):
    """A pair of arrays and the limits it is held to, with what numpy finds."""

    pair: tuple[Array, Array]
    limits: Limits
    found: object


def holding(pair: tuple[Array, Array], dtype: DType, limits: Limits) -> LimitedPair:
    return LimitedPair(pair, limits, check_limits(NUMPY, pair, dtype, limits))


# For all instruction sets of a type, which come one after another.
@lru_cache(maxsize=1)
def every_bound(dtype: DType) -> list[LimitedPair]:
    cases = []
    for number, shape in enumerate(SHAPES):
        count = int(np.prod(shape))
        # Whatever bits there are, and finite numbers that are near each other.
        pairs = [pair_of(10 * number, count, dtype, 0.05, 0.5)]
        near = (random_parts(number, count, 8) >> np.uint64(60)).astype(np.int64)
        baseline = (pairs[0][1].view(f"<u{dtype.itemsize}") >> 2).astype(f"<i{dtype.itemsize}")
        pairs.append(((baseline + near).astype(baseline.dtype).view(dtype.storage), baseline.view(dtype.storage)))
        for which, bound in enumerate(bounds(number, shape)):
            limits = Limits(bound, list(Precision)[(which + number) % len(Precision)], Precision.HALF)
            cases += [holding((one.reshape(shape), other.reshape(shape)), dtype, limits) for one, other in pairs]
    return cases


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.value)
def test_every_bound_finds_the_same_elements(dtype: DType, level: str) -> None:
    for number, case in enumerate(every_bound(dtype)):
        assert check_limits(level, case.pair, dtype, case.limits) == case.found, (number, case.pair[0].shape)


@lru_cache(maxsize=1)
def shrinking_bounds(dtype: DType) -> list[LimitedPair]:
    """Row after row is a little further from what is allowed than all before: none may be taken for cleared."""
    shape = (2 * CELL // 64, 64)
    integer = np.dtype(f"<i{dtype.itemsize}")
    one, two = (np.float32(number).view("<u4") >> 16 if dtype is DType.BFLOAT16 else number for number in (1, 2))
    first, behind = (int(np.array(number, dtype.storage).view(integer)) for number in (one, two))
    # Numbers from 1 to 2, the second half of them the last one below 2, from which a step leads to longer steps.
    places = (random_parts(1, 2 * CELL, 8) % np.uint64(behind - first)).astype(integer)
    places[CELL:] = behind - first - 1
    baseline = (first + places).astype(integer).reshape(shape)
    pair = (baseline + integer.type(1)).view(dtype.storage), baseline.view(dtype.storage)
    step = 1.0 / (behind - first)
    shrinking = np.linspace(1.3, 0.2, 2 * CELL).reshape(shape)
    rows = (random_parts(2, shape[0], 8) % np.uint64(3)).astype(np.int64).reshape(-1, 1) + 1
    cases = []
    for precision in (Precision.FLOAT, Precision.TF32, Precision.HALF):
        for products in (False, True):
            share = 2.0**-precision.bits + 2 * (precision.factor_loss if products else 0.0)
            for magnitude, roundings, unit, behind_sum in (
                (step / share * shrinking, 1, 0.0, 0),
                ((step / share * shrinking).astype(np.float32), 1, step / share, 1),
                (step / share * shrinking, rows, rows * 2.0**-30, 0),
                (step / share * shrinking, rows - 1, step / share, 0),
                (step / share * shrinking[:, :1], rows[0, 0], 0.0, 2),
            ):
                limits = Limits(Bound(magnitude, roundings, unit, behind_sum, products), precision)
                cases.append(holding(pair, dtype, limits))
    return cases


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.value)
def test_bounds_that_shrink_until_a_step_is_beyond_find_the_same_elements(dtype: DType, level: str) -> None:
    for number, case in enumerate(shrinking_bounds(dtype)):
        assert check_limits(level, case.pair, dtype, case.limits) == case.found, number


def test_unaligned_bounds_and_any_number_of_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = (9 * CELL // 100, 100)
    pair = tuple(side.reshape(shape) for side in pair_of(7, shape[0] * shape[1], DType.FLOAT, 0.001, 0.9))
    magnitude = numbers(1, shape, "f8")
    expected = check_limits(NUMPY, pair, DType.FLOAT, Limits(Bound(magnitude, 9)))
    moved = Bound(unaligned(magnitude.reshape(-1), 3).reshape(shape), 9)
    assert check_limits(NATIVE, pair, DType.FLOAT, Limits(moved)) == expected
    monkeypatch.setattr(blocks, "SHARED_FROM", 1)
    for threads in (1, 2, 5):
        monkeypatch.setattr(blocks, "THREADS", threads)
        assert check_limits(NATIVE, pair, DType.FLOAT, Limits(moved)) == expected


@pytest.mark.parametrize("way", [NATIVE, NUMPY])
def test_limits_are_asked_for_only_where_something_differs(way: str) -> None:
    ones = np.ones(1000, np.float32)
    with going(way):
        equal = compare(ones, ones.copy(), DType.FLOAT, KINDS, lambda: pytest.fail("nothing differs"))
        zeros = compare(0 * ones, -0.0 * ones, DType.FLOAT, KINDS, lambda: Limits(Bound(0.0)))
        unbounded = compare(2 * ones, ones, DType.FLOAT, KINDS, lambda: None)
    assert equal.elements is zeros.elements is unbounded.elements is None
