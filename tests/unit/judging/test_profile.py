"""A profile counts every unequal element once and puts each error where it belongs."""

import math

import numpy as np
import pytest

from mluops_gtest.core.tensor import CriterionKind, DType
from mluops_gtest.judging.blocks import BINS, MAX_CELLS, profile_of
from mluops_gtest.judging.criteria import compare


def literal(evaluated, baseline, width):
    """Histogram and map by loops over single elements, in lines of so many."""
    height = math.ceil(evaluated.size / width)
    rows, columns = min(height, MAX_CELLS), min(width, MAX_CELLS)
    histogram, cells = [0] * BINS, [0.0] * (rows * columns)
    for at, (e, b) in enumerate(zip(evaluated.reshape(-1).tolist(), baseline.reshape(-1).tolist(), strict=True)):
        if e == b or (math.isnan(e) and math.isnan(b)):
            continue
        finite = math.isfinite(e) and math.isfinite(b)
        error = abs(e - b) / (abs(b) + 1e-9) if finite else math.inf
        histogram[BINS - 1 if not finite else min(max(math.floor(math.log2(error)) + 30, 0), BINS - 1)] += 1
        cell = (at // width) * rows // height * columns + (at % width) * columns // width
        cells[cell] = max(cells[cell], error)
    return histogram, rows, columns, cells


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape", [(1,), (7,), (1000,), (3, 5), (40, 33), (2, 3, 4, 50), (64, 64), (90_001,), (1100, 1000)]
)
@pytest.mark.parametrize("dtype", [DType.FLOAT, DType.HALF])
def test_it_agrees_with_loops(shape, dtype):
    random = np.random.default_rng(math.prod(shape))
    baseline = random.standard_normal(shape).astype(dtype.storage)
    evaluated = baseline.copy()
    picked = random.random(shape) < (0.3 if baseline.size < 1e5 else 0.01)
    picked.reshape(-1)[0] = True
    noise = np.exp2(random.uniform(-35, 5, shape))
    evaluated[picked] = (baseline * (1 + noise)).astype(dtype.storage)[picked]
    evaluated.reshape(-1)[0] = np.nan
    if baseline.size > 5:
        baseline.reshape(-1)[1] = evaluated.reshape(-1)[1] = np.nan  # meets its like
        baseline.reshape(-1)[2] = np.inf
        evaluated.reshape(-1)[3], baseline.reshape(-1)[3] = -0.0, 0.0
    profile = profile_of("y", evaluated, baseline, dtype)
    histogram, rows, columns, cells = literal(evaluated, baseline, profile.width or shape[-1])
    assert (profile.output, profile.rows, profile.columns) == ("y", rows, columns)
    assert list(profile.histogram) == histogram
    assert profile.cells == pytest.approx(cells, rel=1e-3)
    whole = compare(evaluated, baseline, dtype, (CriterionKind.DIFF3,))
    assert sum(profile.histogram) == whole.unequal


def test_equal_outputs_have_none():
    values = np.array([1.0, np.nan, 0.0], "<f4")
    other = np.array([1.0, np.nan, -0.0], "<f4")
    assert profile_of("y", values, other, DType.FLOAT) is None


@pytest.mark.parametrize(("exponent", "bin_"), [(-40, 0), (-30, 0), (-29, 1), (-10, 20), (0, 30), (1, 31), (9, 31)])
def test_bins_are_powers_of_two(exponent, bin_):
    baseline = np.array([1e9])
    profile = profile_of("y", baseline * (1 + 2.0**exponent), baseline, DType.DOUBLE)
    assert profile.histogram[bin_] == 1


def test_integers_keep_their_true_distance():
    """2^62 and 2^62 + 1 are one in float64."""
    baseline = np.array([[2**62, 5]], "<i8")
    profile = profile_of("y", baseline + np.array([[1, 5]]), baseline, DType.INT64)
    assert profile.cells == pytest.approx((2.0**-62, 1.0), rel=1e-3)
    assert (profile.histogram[0], profile.histogram[29] + profile.histogram[30]) == (1, 1)


def test_unsigned_differences_do_not_wrap():
    profile = profile_of("y", np.array([1], "u1"), np.array([2], "u1"), DType.UINT8)
    assert profile.cells == (0.5,)


def test_a_complex_element_counts_once_by_its_worse_part():
    baseline = np.array([1 + 1j, 1 + 1j, 1 + 1j], "<c8")
    evaluated = np.array([1.5 + 3j, 1 + 1j, 1 + 1.25j], "<c8")
    profile = profile_of("y", evaluated, baseline, DType.COMPLEX64)
    assert sum(profile.histogram) == 2
    assert profile.cells == pytest.approx((2.0, 0.0, 0.25))


def test_what_is_stored_stays_small():
    baseline = np.ones((500, 500), "<f4")
    profile = profile_of("y", baseline * np.float32(1.2345678), baseline, DType.FLOAT)
    assert len(profile.cells) == 32 * 32
    assert set(profile.cells) == {0.2346}


@pytest.mark.parametrize(
    ("shape", "width", "cells"),
    [
        ((10_000,), 100, (32, 32)),
        ((1, 10_000), 100, (32, 32)),
        ((10_000, 1), 100, (32, 32)),
        ((4000, 3), 108, (32, 32)),  # 36 whole rows beside each other
        ((2, 50, 50), 0, (32, 32)),
        ((64, 4, 320), 0, (32, 32)),
        ((32,), 0, (1, 32)),
        ((33,), 6, (6, 6)),
        ((3, 20), 0, (3, 20)),
        ((), 0, (1, 1)),
    ],
)
def test_long_and_thin_outputs_are_folded(shape, width, cells):
    """One wrong element, the last: it is in the cell of its place in the folded lines."""
    baseline = np.ones(shape, "<f4")
    evaluated = baseline.copy()
    evaluated.reshape(-1)[-1] = 2
    profile = profile_of("y", evaluated, baseline, DType.FLOAT)
    assert (profile.width, (profile.rows, profile.columns)) == (width, cells)
    across = width or (shape[-1] if shape else 1)
    row, column = divmod(baseline.size - 1, across)
    height = -(-baseline.size // across)
    at = (row * profile.rows // height) * profile.columns + column * profile.columns // across
    assert {place for place, cell in enumerate(profile.cells) if cell} == {at}


def test_the_map_has_the_cells_that_are_asked_for():
    baseline = np.ones((100, 100), "<f4")
    profile = profile_of("y", baseline * 2, baseline, DType.FLOAT, (10, 60))
    assert (profile.rows, profile.columns, len(profile.cells), profile.width) == (10, 60, 600, 0)
    thin = profile_of("y", baseline[:10, :2] * 2, baseline[:10, :2], DType.FLOAT, (8, 60))
    assert (thin.rows, thin.columns, thin.width) == (5, 4, 4)
