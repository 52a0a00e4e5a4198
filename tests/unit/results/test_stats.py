"""Figures of times: medians that outliers do not move, intervals that hold."""

import math
import random

import pytest

from mluops_gtest.results.times import timing_stats


def test_the_figures_of_a_small_sample():
    figures = timing_stats([30, 10, 20, 1000])
    assert (figures.count, figures.median, figures.mad) == (4, 25, 10)
    assert figures.cv == pytest.approx(1.8509, rel=1e-3)


def test_one_sample_has_a_median_and_no_interval():
    figures = timing_stats([7])
    assert (figures.median, figures.mad, figures.cv) == (7, 0, 0)
    assert (figures.low, figures.high, figures.half_width) == (0, math.inf, math.inf)


@pytest.mark.parametrize(("count", "rank"), [(5, 0), (6, 1), (9, 2), (10, 2), (20, 6), (30, 10), (100, 40)])
def test_ranks_are_those_of_the_tables(count, rank):
    figures = timing_stats(range(1, count + 1))
    assert (figures.low, figures.high) == ((rank, count + 1 - rank) if rank else (0, math.inf))


def test_an_outlier_moves_neither_median_nor_interval():
    samples = [100, 101, 99, 100, 102, 98, 100, 101, 99, 100]
    calm, wild = timing_stats([*samples, 110]), timing_stats([*samples, 10**9])
    assert (calm.median, calm.low, calm.high) == (wild.median, wild.low, wild.high)


@pytest.mark.parametrize("count", [6, 17, 40])
def test_the_interval_holds_the_true_median_at_least_95_times_in_100(count):
    draw = random.Random(count)
    held = 0
    for _ in range(1000):
        # Skewed as times are; the median of this distribution is 1000.
        figures = timing_stats([round(1000 * math.exp(draw.gauss(0, 0.3))) for _ in range(count)])
        held += figures.low <= 1000 <= figures.high
    assert held >= 935


def test_times_of_nothing_are_never_tight():
    assert timing_stats([0] * 20).half_width == math.inf
