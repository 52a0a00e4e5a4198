"""Scans, random numbers, profiles and sums of rows have the same bits, whoever looks, draws, counts and adds."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from generators._shared.points import nearest, squared_distances
from generators.dynamic_scatter_backward import reference as scatter_back
from mluops_gtest.authoring import call_of, random
from mluops_gtest.authoring.random import Stream
from mluops_gtest.authoring.rows import add_rows, blended, native_add_rows, scattered, wide_rows
from mluops_gtest.authoring.sum_of_terms import SumOfTerms
from mluops_gtest.base import files
from mluops_gtest.base.native.library import LEVELS
from mluops_gtest.core import buffers
from mluops_gtest.core.buffers import fill, first_difference, pattern_of, places_holding, places_touched
from mluops_gtest.core.tensor import DType
from mluops_gtest.judging.blocks import profile_of
from tests.support.examples import examples
from tests.support.native_core import NATIVE, NUMPY, going

SIZES = (0, 1, 7, 8, 100, 16383, 16384, 16385, 40_001)
ONE_OF_EACH_SIZE = (DType.INT8, DType.BFLOAT16, DType.FLOAT, DType.DOUBLE, DType.COMPLEX128)


@pytest.mark.parametrize("way", [NUMPY, NATIVE])
@pytest.mark.parametrize("size", SIZES)
def test_the_first_byte_that_differs_is_found_at_any_place(size: int, way: str, monkeypatch) -> None:
    """Also behind the seams of pieces and of numpy's blocks."""
    for module, name, value in ((files, "_LEAST", 1), (files, "PIECE", 30_000), (buffers, "_BLOCK", 10_000)):
        monkeypatch.setattr(module, name, value)
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


ODD = (-0.0, np.inf, -np.inf, np.nan, 1e-42, 3e38)


def random_rows(rng: np.random.Generator, *shape: int, dtype: str = "f4") -> np.ndarray:
    """Numbers of many sizes, some of them odd ones."""
    values = (rng.standard_normal(shape) * 2.0 ** rng.integers(-30, 30, shape)).astype(dtype)
    values.flat[rng.integers(0, max(1, values.size), len(ODD))[: values.size]] = ODD[: values.size]
    return values


@pytest.fixture(params=[(1, 0), (1, 1), (13, 5), (40, 300)])
def size(request: pytest.FixtureRequest) -> tuple[int, int]:
    return request.param


def same_both_ways(work: Callable[[], np.ndarray], level: str) -> None:
    found = []
    for way in (NUMPY, level):
        with going(way), np.errstate(invalid="ignore"):
            result = work()
        # Which NaN an operation gives is nobody's promise.
        found.append(np.where(np.isnan(result), 0, result).tobytes() + np.isnan(result).tobytes())
    assert found[0] == found[1]


@pytest.mark.parametrize("level", LEVELS)
def test_gathered_and_added_rows_have_the_same_bits_both_ways(level: str, size: tuple[int, int]) -> None:
    rng, (width, number) = np.random.default_rng(1), size
    rows, wide = random_rows(rng, 7, width), random_rows(rng, number, width, dtype="f8")
    chosen = rng.integers(0, 7, number).astype(np.int32)

    def added() -> np.ndarray:
        sums = np.ones((7, width))
        add_rows(sums, chosen, wide)
        return sums

    same_both_ways(added, level)
    same_both_ways(lambda: wide_rows(rows, chosen), level)


@pytest.mark.parametrize("level", LEVELS)
def test_three_products_have_the_same_bits_both_ways(level: str, size: tuple[int, int]) -> None:
    rng, (height, number) = np.random.default_rng(2), size
    cells = rng.integers(0, 9, (3, number)).astype(np.int32)
    weights = random_rows(rng, 3, number, dtype="f8")
    same_both_ways(lambda: blended(random_rows(np.random.default_rng(3), height, 9, dtype="f8"), cells, weights), level)
    rows = random_rows(rng, height, number, dtype="f8")
    same_both_ways(lambda: scattered(rows, cells.T, np.ascontiguousarray(weights.T), 9), level)


@pytest.mark.parametrize("level", LEVELS)
def test_distances_have_the_same_bits_both_ways(level: str, size: tuple[int, int]) -> None:
    rng, (queries, points) = np.random.default_rng(6), size
    near, cloud = random_rows(rng, queries, 3), random_rows(rng, points, 3)
    with np.errstate(over="ignore"):
        same_both_ways(lambda: squared_distances(near, cloud), level)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("absolute", [False, True])
def test_rows_are_added_one_after_the_other(level: str, absolute: bool) -> None:
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((40, 13), np.float32)
    rows[3], rows[7, 2] = -0.0, 1e-42
    sources, targets = rng.integers(0, 40, 100), rng.integers(0, 6, 100)
    sums, expected = np.zeros((6, 13)), np.zeros((6, 13))
    with going(level):
        added = native_add_rows(sums, targets, rows, sources, absolute=absolute)
    for source, target in zip(sources, targets, strict=True):
        expected[target] += np.abs(rows[source]) if absolute else rows[source]
    assert sums.tobytes() == expected.tobytes()
    sizes = np.abs(rows[sources])
    assert added == (sizes[sizes > 0].min(), sizes.max())


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_what_is_not_finite_is_told(value: float) -> None:
    rows = np.array([[1, 0, value]], np.float32)
    with going(NATIVE):
        added = native_add_rows(np.zeros((1, 3)), np.zeros(1, int), rows, np.zeros(1, int))
    assert not np.isfinite(added.largest)


def test_nothing_added_has_no_magnitude() -> None:
    with going(NATIVE):
        assert native_add_rows(np.zeros((1, 2)), np.zeros(1, int), np.zeros((1, 2), "f4"), np.zeros(1, int)) == (0, 0)


@pytest.mark.parametrize("index", [-1, 3])
def test_a_row_that_does_not_exist_is_refused(index: int) -> None:
    with going(NATIVE), pytest.raises(IndexError, match="0 … 2"):
        wide_rows(np.ones((3, 2), np.float32), np.array([0, index]))


@pytest.mark.parametrize("level", LEVELS)
def test_the_first_equal_point_gets_the_gradient_both_ways(level: str) -> None:
    rng = np.random.default_rng(5)
    feats = rng.integers(0, 3, (200, 19)).astype("<f4")
    feats[5], feats[7, 3] = -0.0, np.nan
    inputs = {
        "grad_voxel_feats": random_rows(rng, 12, 19),
        "feats": feats,
        "voxel_feats": rng.integers(0, 3, (12, 19)).astype("<f4"),
        # One voxel is so crowded that numpy searches it alone.
        "point2voxel_map": np.where(rng.random(200) < 0.4, 2, rng.integers(-1, 12, 200)).astype("<i4"),
        "voxel_points_count": np.ones(12, "<i4"),
        "voxel_num": np.array([11], "<i4"),
    }
    call = call_of("dynamic_scatter_backward", {"reduce_type": 1}, inputs)
    same_both_ways(lambda: scatter_back(call).outputs["grad_feats"], level)


def test_windows_of_longer_axes_are_measured_alike() -> None:
    """So many points that only those beside a query are looked at."""
    rng = np.random.default_rng(7)
    queries, points = (rng.integers(-500, 500, (2, count, 3)).astype("<f4") for count in (70, 900))
    same_both_ways(lambda: np.stack([part.astype(np.float64) for part in nearest(queries, points)]), NATIVE)


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("scale", [1.0, 2.0**30])
def test_sums_of_rows_have_the_same_bits_both_ways(scale: float, absolute: bool) -> None:
    """The second scale needs more than float64 has for one sum."""
    rng = np.random.default_rng(2)
    features = (rng.integers(-1000, 1000, (6000, 5)) / 64).astype(np.float32)
    features[::3] *= np.float32(scale)
    points, cells = rng.permutation(6000)[:5000], np.minimum(rng.integers(0, 90, 5000), 40)
    named = (of.reshape(1, -1, 1) for of in (points, cells))
    terms = SumOfTerms(features[None], *named, count=91)
    same_both_ways(lambda: terms.bound().magnitude if absolute else terms.sums(), NATIVE)
