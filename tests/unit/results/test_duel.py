"""What a bench may say: alarms are rare where nothing differs, and real differences are named."""

import math
import random

import pytest

from mluops_gtest.results.statistics import TimeVerdict, compare_backends


def times(draw, count, scale=1.0):
    """Log-normal with 5 %, and now and then a sample three times as long."""
    one = [1e5 * scale * math.exp(draw.gauss(0, 0.05)) for _ in range(count)]
    return [round(ns * 3) if draw.random() < 0.02 else round(ns) for ns in one]


@pytest.mark.slow
@pytest.mark.parametrize("count", [10, 40])
def test_equal_backends_are_seldom_told_apart(count):
    draw = random.Random(count)
    answers = [
        [compare_backends(times(draw, count), times(draw, count), 30).answer for _ in range(30)] for _ in range(50)
    ]
    alarms = sum(set(bench) != {TimeVerdict.INCONCLUSIVE} for bench in answers)
    assert alarms <= 5


@pytest.mark.parametrize(("scale", "answer"), [(1.1, TimeVerdict.SLOWER), (0.9, TimeVerdict.FASTER)])
def test_ten_percent_are_found_with_enough_samples(scale, answer):
    draw = random.Random(7)
    found = sum(compare_backends(times(draw, 60), times(draw, 60, scale), 30).answer is answer for _ in range(100))
    assert found >= 90


def test_what_is_sure_but_small_is_no_answer():
    said = compare_backends([100_000, 100_001] * 50, [103_000, 103_001] * 50)
    assert said.answer is TimeVerdict.INCONCLUSIVE
    assert said.remark == "they differ by less than 5%"
    assert said.low <= said.ratio <= said.high


def test_the_number_of_samples_that_it_names_would_do():
    draw = random.Random(3)
    said = compare_backends(times(draw, 8), times(draw, 8, 1.12), 30)
    assert said.answer is TimeVerdict.INCONCLUSIVE
    needed = int(said.remark.split()[1])
    assert 8 < needed < 200
    pairs = [(times(draw, 2 * needed), times(draw, 2 * needed, 1.12)) for _ in range(50)]
    assert sum(compare_backends(*pair, 30).answer is TimeVerdict.SLOWER for pair in pairs) >= 45


def test_a_number_that_nobody_takes_is_not_named():
    noisy = [90_000, 100_000, 110_000] * 10
    said = compare_backends(noisy, [round(ns * 1.04999) for ns in noisy])
    assert said.remark == "too close to 5% to tell"


def test_calls_that_may_be_overhead_alone_are_neither_faster_nor_slower():
    first, second = [100_000] * 20, [200_000] * 20
    said = compare_backends(first, second, overhead_ns=21_000)
    assert said.answer is TimeVerdict.TOO_SHORT
    assert said.remark.startswith("the call takes 200 µs, an empty one 21 µs; from 210 µs on it can be judged")
    assert compare_backends(first, second, overhead_ns=20_000).answer is TimeVerdict.SLOWER
    assert compare_backends(first, second).answer is TimeVerdict.SLOWER
