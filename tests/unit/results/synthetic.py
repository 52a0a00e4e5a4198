"""Gates on made-up times, with the noise that real ones have."""

import numpy as np

from mluops_gtest.results.statistics import Pair, TimeComparison, TimeVerdict, compare, run_time

SPREAD = 0.05  # log-normal
OUTLIERS, OUTLIER_FACTOR = 0.02, 3.0
SHIFT = 0.015  # from run to run


def run_samples(rng, true_ns, count, shifts):
    """The samples of one run: a row per case."""
    shape = (len(true_ns), count)
    outliers = np.where(rng.random(shape) < OUTLIERS, OUTLIER_FACTOR, 1.0)
    return (true_ns * np.exp(shifts))[:, None] * np.exp(rng.normal(0.0, SPREAD, shape)) * outliers


def synthetic_gate(rng, factors, *, samples=200, runs=1, shared=False, shift=SHIFT) -> TimeComparison:
    """Compare `runs` runs of one build with a run of another, whose cases take `factors` times as long.

    A run shifts every case by an amount of its own, or (`shared`) all of them by the same.
    """
    cases = len(factors)
    true_ns = 1e6 * np.exp(rng.normal(0.0, 1.0, cases))

    def run(scale):
        shifts = np.full(cases, rng.normal(0.0, shift)) if shared else rng.normal(0.0, shift, cases)
        return [run_time(row) for row in run_samples(rng, true_ns * scale, samples, shifts)]

    before = [run(1.0) for _ in range(runs)]
    now = run(factors)
    return compare([Pair(tuple(one[i] for one in before), now[i]) for i in range(cases)])


def one_slower(cases, factor=1.10, which=7):
    """Factors of a gate in which one case became slower."""
    factors = np.ones(cases)
    factors[which] = factor
    return factors


def alarmed(comparison):
    """A case, or all of them together, was called slower."""
    answers = [ratio.answer for ratio in comparison.ratios]
    shift = comparison.shift
    return TimeVerdict.SLOWER in answers or (shift is not None and shift.answer is TimeVerdict.SLOWER)
