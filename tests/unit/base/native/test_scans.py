"""Scans, random numbers and profiles are the same, whoever looks, draws and counts."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mluops_gtest.authoring import random
from mluops_gtest.authoring.random import Stream
from mluops_gtest.core.buffers import fill, first_difference, pattern_of, places_holding, places_touched
from mluops_gtest.core.tensor import DType
from mluops_gtest.judging.blocks import profile_of
from tests.support.examples import examples
from tests.support.native_core import NATIVE, NUMPY, going

SIZES = (0, 1, 7, 8, 100, 16383, 16384, 16385, 40_001)
ONE_OF_EACH_SIZE = (DType.INT8, DType.BFLOAT16, DType.FLOAT, DType.DOUBLE, DType.COMPLEX128)


@pytest.mark.parametrize("way", [NUMPY, NATIVE])
@pytest.mark.parametrize("size", SIZES)
def test_the_first_byte_that_differs_is_found_at_any_place(size: int, way: str) -> None:
    left = np.arange(size).astype(np.uint8)
    with going(way):
        assert first_difference(left, left.copy()) is None
        for place in {0, size // 2, size - 1} if size else ():
            right = left.copy()
            right[place:] ^= 0x80
            assert first_difference(left, right) == place
            assert first_difference(left[1:], right[1:]) == (max(place - 1, 0) if size > 1 else None)


@pytest.mark.parametrize("way", [NUMPY, NATIVE])
@pytest.mark.parametrize("dtype", ONE_OF_EACH_SIZE, ids=lambda dtype: dtype.value)
def test_places_that_hold_the_poison_and_those_that_were_written(dtype: DType, way: str) -> None:
    pattern = pattern_of(dtype, None)
    room = np.zeros(100 * dtype.itemsize + 1, np.uint8)
    # Unaligned on purpose.
    data = room[1:]
    fill(data, pattern)
    values = data.view(dtype.storage)
    with going(way):
        assert places_holding(values, pattern).tolist() == list(range(100))
        assert places_touched(values, pattern).tolist() == []
        values[[3, 99]] = 0
        assert places_touched(values, pattern).tolist() == [3, 99]
        values[:] = 0
        assert places_holding(values, pattern).tolist() == []
        assert places_touched(values[::2], pattern).tolist() == list(range(50))
        assert places_touched(values[:0], pattern).tolist() == []


def random_bytes(way: str, ask) -> bytes:
    with going(way):
        return ask(Stream(2024, "x")).tobytes()


@settings(derandomize=True, max_examples=examples(60), database=None)
@given(st.integers(0, 2**40), st.integers(0, 70))
def test_lanes_from_anywhere(start: int, count: int) -> None:
    assert random_bytes(NATIVE, lambda s: s.lanes(count, start)) == random_bytes(NUMPY, lambda s: s.lanes(count, start))


@pytest.mark.parametrize("dtype", ["<f4", "<f2"])
@pytest.mark.parametrize("scale", [None, 0, -3, 140, 149, 160])
def test_lattices_of_any_width_and_scale(dtype: str, scale: int | None) -> None:
    for bits in (1, 3, 11) if dtype == "<f2" else (1, 3, 11, 24):
        for count in (0, 1, 7, 8, 9, 1001):
            with np.errstate(all="ignore"):
                ask = partial(Stream.lattice, shape=count, bits=bits, scale=scale, dtype=dtype)
                ways = {random_bytes(way, ask) for way in (NATIVE, NUMPY)}
            assert len(ways) == 1


@pytest.mark.parametrize("threads", [1, 3])
def test_chunks_and_threads_change_nothing(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asks = (lambda s: s.lattice((10, 103), 11)), (lambda s: s.lanes(1030, 5))
    whole = [random_bytes(NUMPY, ask) for ask in asks]
    monkeypatch.setattr(random, "_CHUNK", 64)
    monkeypatch.setattr(random, "_THREADS", threads)
    for way in (NATIVE, NUMPY):
        assert [random_bytes(way, ask) for ask in asks] == whole


def profiles(evaluated, baseline, dtype):
    for way in (NATIVE, NUMPY):
        with going(way):
            yield profile_of("y", evaluated, baseline, dtype)


@given(st.data(), st.sampled_from([DType.FLOAT, DType.HALF, DType.BFLOAT16, DType.DOUBLE]))
def test_both_count_the_same(data, dtype):
    shape = data.draw(st.sampled_from([(1,), (17,), (3, 5), (2, 3, 70), (130, 3), (700,)]))
    patterns = arrays.arrays(dtype.bits, shape, elements=arrays.from_dtype(dtype.bits), fill=st.nothing())
    baseline = data.draw(arrays.arrays(dtype.bits, shape)).view(dtype.storage)
    evaluated = data.draw(patterns if np.prod(shape) < 20 else arrays.arrays(dtype.bits, shape)).view(dtype.storage)
    natively, by_numpy = profiles(evaluated, baseline, dtype)
    assert natively == by_numpy


@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])
def test_both_count_the_same_where_everything_differs(dtype):
    random = np.random.default_rng(5)
    baseline = random.standard_normal((61, 333)).astype(dtype.storage)
    evaluated = (baseline * (1 + np.exp2(random.uniform(-35, 5, baseline.shape)))).astype(dtype.storage)
    evaluated.reshape(-1)[[0, 7]] = np.nan, -np.inf
    natively, by_numpy = profiles(evaluated, baseline, dtype)
    assert natively == by_numpy
