"""Rows are added by the C library in the order in which they are named, in float64."""

import numpy as np
import pytest

from generators.voxel_pooling_forward.pooling import pooled
from mluops_gtest.authoring import row_adder
from tests.support.native_core import NATIVE, NUMPY, going


@pytest.mark.parametrize("absolute", [False, True])
def test_runs_are_added_one_row_after_the_other(absolute: bool) -> None:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((40, 13), np.float32)
    rows[3], rows[7, 2], rows[8, 2] = -0.0, np.inf, np.nan
    order = rng.integers(0, 40, 100)
    starts, counts = np.array([0, 90, 5, 5]), np.array([50, 10, 1, 0])
    with going(NATIVE):
        sums = row_adder()(rows, order, starts, counts, absolute=absolute)
    for found, start, count in zip(sums, starts, counts, strict=True):
        expected = np.zeros(13)
        for row in order[start : start + count]:
            expected += np.abs(rows[row]) if absolute else rows[row]
        assert found.tobytes() == expected.tobytes()


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
