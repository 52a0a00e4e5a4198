"""Rows are gathered and added by the C library in the order in which they are named: the bits are those of numpy."""

from collections.abc import Callable

import numpy as np
import pytest

from generators._shared.points import nearest, squared_distances
from generators.dynamic_scatter_backward.reference import reference as scatter_back
from generators.voxel_pooling_forward.pooling import pooled
from mluops_gtest.authoring import call_of
from mluops_gtest.authoring.rows import add_rows, blended, native_add_rows, scattered, wide_rows
from mluops_gtest.base.native.library import LEVELS
from tests.support.native_core import NATIVE, NUMPY, going

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
def test_pooling_has_the_same_bits_both_ways(scale: float, absolute: bool) -> None:
    """The second scale needs more than float64 has for one sum: numpy splits the terms then."""
    rng = np.random.default_rng(2)
    features = (rng.integers(-1000, 1000, (6000, 5)) / 64).astype(np.float32)
    features[::3] *= np.float32(scale)
    points, cells = rng.permutation(6000)[:5000], np.minimum(rng.integers(0, 90, 5000), 40)
    found = []
    for way in (NATIVE, NUMPY):
        with going(way):
            found.append(pooled(features, points, cells, 91, absolute=absolute).tobytes())
    assert found[0] == found[1]
