"""The C library and numpy find the same figures, bit for bit, on every type and on every instruction set."""

import math
from collections.abc import Iterable
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mluops_gtest.base.native.arrays import CELL, LANES
from mluops_gtest.base.native.library import LEVELS
from mluops_gtest.core.tensor import Array, DType
from mluops_gtest.judging import blocks
from mluops_gtest.judging.criteria import compare, count_beyond
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


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: dtype.value)
def test_every_length_has_the_same_figures(dtype: DType, level: str) -> None:
    for pair, figures in pairs_of_every_length(dtype):
        assert compare_by(level, *pair, dtype) == figures, len(pair[0])


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


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: dtype.value)
def test_finite_numbers_with_one_nan_among_them_have_the_same_figures(dtype: DType, level: str) -> None:
    for number, (pair, figures) in enumerate(finite_pairs(dtype)):
        assert compare_by(level, *pair, dtype) == figures, number


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
def pairs_but_for_one_end() -> list[tuple[Pair, list[object]]]:
    baseline = random_parts(3, 3 * CELL, 4).astype(np.float32) / np.float32(3)
    pairs = []
    for place in (CELL - 1, CELL, 2 * CELL + 5 * LANES, 3 * CELL - 1):
        evaluated = baseline.copy()
        evaluated[place] += 1000
        pairs.append((evaluated, baseline))
    return with_figures(pairs, DType.FLOAT)


@pytest.mark.parametrize("level", LEVELS)
def test_a_cell_that_is_equal_but_for_its_end_weighs_what_it_must(level: str) -> None:
    for pair, figures in pairs_but_for_one_end():
        assert compare_by(level, *pair, DType.FLOAT) == figures


@cache
def pairs_hard_to_divide() -> list[tuple[Pair, list[object]]]:
    """Quotients that differ in their last bit, subnormal ones, and those that overflow: no shortcut may lose one."""
    tiny, huge = 5e-324, 1.7976931348623157e308
    baseline = np.array([1.0, 3.0, 1e300, huge, 1e-5, -huge, 1e-6, 2e-6] * 80)
    evaluated = np.nextafter(baseline, 0)
    evaluated[100:] = np.nextafter(evaluated[100:], 0)
    evaluated[5], evaluated[301], baseline[301], evaluated[302] = huge, tiny, -tiny, tiny
    return with_figures(((evaluated[start:], baseline[start:]) for start in range(0, 600, 7)), DType.DOUBLE)


@pytest.mark.parametrize("level", LEVELS)
def test_the_relative_error_is_the_divided_one(level: str) -> None:
    for pair, figures in pairs_hard_to_divide():
        assert compare_by(level, *pair, DType.DOUBLE) == figures
