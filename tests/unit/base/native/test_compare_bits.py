"""The C library and numpy find the same figures and hold elements to the same bounds, bit for bit, on every type."""

import math
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mluops_gtest.base.native.arrays import CELL, LANES
from mluops_gtest.base.native.library import LEVELS
from mluops_gtest.core.declaration import Bound
from mluops_gtest.core.tensor import Array, CriterionKind, DType, Precision
from mluops_gtest.judging import blocks
from mluops_gtest.judging.criteria import compare, count_beyond
from mluops_gtest.judging.elementwise import Limits
from tests.support.examples import examples
from tests.support.native_core import NATIVE, NUMPY, going
from tests.unit.judging.test_compare import ALL, COMPLEX, D4, FLOATS, INTEGERS, KL, SPECIAL, part_size

TYPES = FLOATS + COMPLEX + INTEGERS
# Around every seam: lanes, rows, cells; and what two threads share.
LENGTHS = (0, 1, 2, LANES - 1, LANES, LANES + 1, 1000, CELL - 1, CELL, CELL + 1, 2 * CELL + 3 * LANES + 7)
# The others are numpy's own, whoever counts what they are computed from.
CRITERIA = tuple(criterion for criterion in ALL if criterion not in (D4, KL))
Pair = tuple[Array, Array]


def bits(value: object) -> object:
    """What tells two NaNs and two zeros apart."""
    return value.hex() if isinstance(value, float) else value


def compare_by(way: str, evaluated: Array, baseline: Array, dtype: DType) -> list[object]:
    with going(way):
        comparison = compare(evaluated, baseline, dtype, CRITERIA)
        beyond = [count_beyond(evaluated, baseline, dtype, threshold) for threshold in (1e-3, 0.5, math.inf)]
    readings = {kind: bits(value) for kind, value in comparison.readings.items()}
    return [readings, *map(bits, comparison[1:]), beyond]


def random_parts(seed: int, count: int, size: int) -> Array:
    words = np.random.Philox(key=seed).random_raw(-(-max(count, 1) * size // 8))
    return words.view(f"<u{size}")[:count].copy()


def pair_of(seed: int, count: int, dtype: DType, special: float, equal: float) -> tuple[Array, Array]:
    """Random bits; a share of special values, and a share of parts that are equal or one step apart."""
    size = part_size(dtype)
    count *= dtype.itemsize // size
    baseline, evaluated = (random_parts(seed + side, count, size) for side in (0, 1))
    chance = random_parts(seed + 2, count, 8) / 2**64
    known = np.array(SPECIAL[size], f"<u{size}")
    for side, offset in ((baseline, 3), (evaluated, 4)):
        chosen = random_parts(seed + offset, count, 8)
        np.copyto(side, known[(chosen % np.uint64(len(known))).astype(int)], where=chosen / 2**64 < special)
    step = (random_parts(seed + 5, count, 8) % np.uint64(2)).astype(baseline.dtype)
    np.copyto(evaluated, baseline + step, where=chance < equal)
    return evaluated.view(dtype.storage), baseline.view(dtype.storage)


def with_figures(pairs: Iterable[Pair], dtype: DType) -> list[tuple[Pair, list[object]]]:
    """Pairs of arrays with what numpy finds: computed once, whatever the number of instruction sets."""
    return [(pair, compare_by(NUMPY, *pair, dtype)) for pair in pairs]


@cache
def pairs_of_every_length(dtype: DType) -> list[tuple[Pair, list[object]]]:
    shares = ((0.0, 0.9), (0.05, 0.5))
    pairs = (pair_of(100 * number, count, dtype, *some) for number, count in enumerate(LENGTHS) for some in shares)
    return with_figures(pairs, dtype)


@cache
def finite_pairs(dtype: DType) -> list[tuple[Pair, list[object]]]:
    """Random bits have a NaN in almost every row: these have none or a few, and signs that may differ or not."""
    count, top = CELL + 9 * LANES + 7, 8 * dtype.itemsize
    pairs = []
    for kept in (~(1 << (top - 2)), (1 << (top - 2)) - 1):
        evaluated, baseline = (
            side.view(f"<i{dtype.itemsize}") & np.array(kept, f"<i{dtype.itemsize}")
            for side in pair_of(3, count, dtype, 0.0, 0.9)
        )
        for place in (None, CELL // 2, count - 1):
            if place is not None:
                evaluated[place] = -1
            pairs.append((evaluated.copy().view(dtype.storage), baseline.view(dtype.storage)))
    return with_figures(pairs, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.value)
def test_any_two_arrays_have_the_same_figures(dtype: DType) -> None:
    chances = st.sampled_from((0.0, 0.01, 0.3, 1.0))

    @settings(derandomize=True, max_examples=examples(60), database=None)
    @given(st.integers(0, 2**32), st.integers(0, 3 * LANES), st.integers(0, 9), chances, chances)
    def property_holds(seed: int, count: int, offset: int, special: float, equal: float) -> None:
        evaluated, baseline = pair_of(seed, count, dtype, special, equal)
        expected = compare_by(NUMPY, evaluated, baseline, dtype)
        assert compare_by(NATIVE, unaligned(evaluated, offset), unaligned(baseline, 9 - offset), dtype) == expected
        assert compare_by(NATIVE, strided(evaluated), strided(baseline), dtype) == expected

    property_holds()


def unaligned(array: Array, offset: int) -> Array:
    room = np.zeros(array.nbytes + offset, np.uint8)
    view = room[offset:].view(array.dtype)
    view[...] = array
    return view


def strided(array: Array) -> Array:
    room = np.zeros(3 * array.size, array.dtype)
    room[1::3] = array
    return room[1::3]


long_pair = cache(lambda: with_figures([pair_of(7, 9 * CELL + 12345, DType.FLOAT, 0.0, 0.999)], DType.FLOAT)[0])


@pytest.mark.parametrize("way", [*LEVELS, NUMPY])
def test_threads_change_no_bit(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "SHARED_FROM", 1)
    monkeypatch.setattr(blocks, "THREADS", 1)
    pair, alone = long_pair()
    for threads in (1, 2, 5):
        monkeypatch.setattr(blocks, "THREADS", threads)
        assert compare_by(way, *pair, DType.FLOAT) == alone


@cache
def pairs_but_for_one_end(dtype: DType) -> list[tuple[Pair, list[object]]]:
    """A cell that is equal but for its end weighs what it must."""
    baseline = random_parts(3, 3 * CELL, 4).astype(np.float32) / np.float32(3)
    pairs = []
    for place in (CELL - 1, CELL, 2 * CELL + 5 * LANES, 3 * CELL - 1):
        evaluated = baseline.copy()
        evaluated[place] += 1000
        pairs.append((evaluated, baseline))
    return with_figures(pairs, dtype)


@cache
def pairs_hard_to_divide(dtype: DType) -> list[tuple[Pair, list[object]]]:
    """Quotients that differ in their last bit, subnormal ones, and those that overflow: no shortcut may lose one."""
    tiny, huge = 5e-324, 1.7976931348623157e308
    baseline = np.array([1.0, 3.0, 1e300, huge, 1e-5, -huge, 1e-6, 2e-6] * 80)
    evaluated = np.nextafter(baseline, 0)
    evaluated[100:] = np.nextafter(evaluated[100:], 0)
    evaluated[5], evaluated[301], baseline[301], evaluated[302] = huge, tiny, -tiny, tiny
    return with_figures(((evaluated[start:], baseline[start:]) for start in range(0, 600, 7)), dtype)


PAIRS = [
    *((pairs_of_every_length, dtype) for dtype in TYPES),
    *((finite_pairs, dtype) for dtype in FLOATS),
    (pairs_but_for_one_end, DType.FLOAT),
    (pairs_hard_to_divide, DType.DOUBLE),
]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("pairs", "dtype"), PAIRS, ids=lambda one: getattr(one, "value", None) or one.__name__)
def test_every_level_finds_the_same_figures(pairs, dtype: DType, level: str) -> None:
    for number, (pair, figures) in enumerate(pairs(dtype)):
        assert compare_by(level, *pair, dtype) == figures, (number, len(pair[0]))


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
