"""Times of two builds, or of two backends, compared: medians, their bootstrap, the noise between runs, and the answers.

The model. A run's median differs from the truth by what its samples leave open (the bootstrap's standard error) and by
a shift that all samples of the run share, which resampling cannot see. That second part is estimated from runs of the
same build (A/A) and from the scatter of all cases of the gate. Everything is in logarithms: 0.05 is five percent.
At the end: what this machine can do at best, measured with numpy.
"""

import functools
import math
import os
import platform
import time
import timeit
from collections.abc import Callable, Sequence
from enum import Enum
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt

from mluops_gtest.base.frozen import Value
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult, Perf
from mluops_gtest.results.times import MIN_EFFECT, why_too_short

Floats = npt.NDArray[np.float64]
Ranks = npt.NDArray[np.intp]

MIN_SAMPLES = 5
# Of the gates in which nothing changed, this share may name a case slower, and this share all cases together.
CASE_ALARMS = 0.02
SHIFT_ALARMS = 0.005
# What a run's median shifts by, before anything was measured; it weighs as much as ten measured cases.
PRIOR_NOISE = 0.015
PRIOR_WEIGHT = 10.0
# From so many cases on their scatter tells the noise and their centre the shift that all of them share.
ENOUGH_CASES = 20
_RESAMPLES = 1000
# The densest stretch that holds this share of the cases is where nothing changed.
_CORE = 0.4
# Points further than this many robust standard deviations from the centre are changes, not noise; the variance of
# a normal distribution cut there is smaller by the second figure.
_CUT = 2.5
_CUT_VARIANCE = 0.91125
_MAD_TO_SD = 1.4826
# How much a median of absolute values is worth beside a mean of squares.
_MAD_EFFICIENCY = 0.37
# One-sided error of the claim that a single case is unchanged.
_SINGLE = 0.05
_NORMAL = NormalDist()


class TimeVerdict(Enum):
    """What the times of one case say; `unchanged` is shown, not assumed: the change is smaller than what counts."""

    FASTER = "faster"
    SLOWER = "slower"
    UNCHANGED = "unchanged"
    INCONCLUSIVE = "inconclusive"
    TOO_SHORT = "too short to judge"


class RunTime(Value):
    """One run of one case: the median, the bootstrap's standard error of its logarithm, the number of samples."""

    median_ns: float
    error: float
    samples: int


class Pair(Value):
    """One case: every run of the reference, and the run that is judged."""

    reference: tuple[RunTime, ...]
    current: RunTime

    @property
    def before_ns(self) -> float:
        """The time before: the geometric mean of the reference's medians."""
        return math.exp(math.fsum(math.log(run.median_ns) for run in self.reference) / len(self.reference))


class Ratio(Value):
    """Time now over time before, or the second backend's over the first's, with the interval for all cases together.

    `needed` is the number of samples per run with which an inconclusive answer would have become another one; None
    where no number would do, because the runs themselves differ by more. `remark` says what limits the answer.
    """

    answer: TimeVerdict
    ratio: float
    low: float
    high: float
    needed: int | None = None
    remark: str = ""


class TimeComparison(Value):
    """A ratio per pair; `shift` is what the cases share, `noise` the standard deviation between runs of one build.

    The shift is taken out of every ratio unless it is more than noise; with few cases there is none to speak of.
    """

    ratios: tuple[Ratio, ...]
    shift: Ratio | None
    noise: float


def run_time(samples_ns: Sequence[int], seed: int = 0) -> RunTime:
    """The median of one run's samples and how far resampling moves it."""
    samples = np.sort(np.log(np.maximum(np.asarray(samples_ns, np.float64), 1.0)))
    count, medians = len(samples), bootstrap_medians(samples, seed)
    # np.median would sort again, and takes longer than all the rest.
    median = (samples[(count - 1) // 2] + samples[count // 2]) / 2
    return RunTime(float(np.exp(median)), float(medians.std()), count)


def bootstrap_medians(ordered: Floats, seed: int = 0) -> Floats:
    """The medians of resamples of sorted samples."""
    lower, upper = _middle_ranks(len(ordered), seed)
    medians: Floats = (ordered[lower] + ordered[upper]) / 2
    return medians


@functools.lru_cache(maxsize=256)
def _middle_ranks(n: int, seed: int) -> tuple[Ranks, Ranks]:
    """Which two of n sorted samples are in the middle of each resample (one twice where n is odd).

    A resample takes the ranks floor(n·U) of n uniform numbers, and the middle one of these is Beta distributed: one
    draw stands for n, exactly.
    """
    rng = np.random.default_rng(seed)
    half = (n + 1) // 2
    position = rng.beta(half, n + 1 - half, _RESAMPLES)
    lower = np.minimum((position * n).astype(np.intp), n - 1)
    if n % 2:
        return lower, lower
    # The next one is the least of the n − half numbers above it.
    position += (1 - position) * (1 - rng.random(_RESAMPLES) ** (1 / (n - half)))
    return lower, np.minimum((position * n).astype(np.intp), n - 1)


def compare(pairs: Sequence[Pair], min_effect: float = MIN_EFFECT) -> TimeComparison:
    """Every pair's answer, of at least one pair; at most CASE_ALARMS of gates without a change name a case slower."""
    changes = np.array([math.log(pair.current.median_ns / pair.before_ns) for pair in pairs])
    sampling = np.array([_sampling_variance(pair) for pair in pairs])
    runs = np.array([1 + 1 / len(pair.reference) for pair in pairs])
    scatter = _scatter(changes)
    noise, weight = _noise(pairs, scatter, float(np.median(sampling)), float(np.median(runs)))
    effect = math.log1p(min_effect)
    shift = None if scatter is None else _shift(scatter, float(np.median(runs)), effect)
    removed, common = 0.0, max(noise, PRIOR_NOISE)
    if shift is not None and shift.answer is TimeVerdict.UNCHANGED:
        # Without the shift that all cases share, the noise that it was is gone as well.
        removed, common = math.log(shift.ratio), noise
    ratios = []
    for pair, change, variance, factor in zip(pairs, changes - removed, sampling, runs, strict=True):
        own, degrees = _own_noise(pair, common, weight)
        between = float(factor) * own**2
        ratios.append(_ratio(pair, float(change), float(variance), between, degrees, len(pairs), effect))
    return TimeComparison(tuple(ratios), shift, noise)


def _sampling_variance(pair: Pair) -> float:
    return pair.current.error**2 + math.fsum(run.error**2 for run in pair.reference) / len(pair.reference) ** 2


class _Scatter(Value):
    centre: float
    variance: float
    count: int


def _scatter(changes: Floats) -> _Scatter | None:
    """Centre and variance of the cases that did not change, which need be no more than two in five."""
    n = len(changes)
    if n < ENOUGH_CASES:
        return None
    ordered = np.sort(changes)
    inside = math.ceil(_CORE * n)
    lengths = ordered[inside - 1 :] - ordered[: n - inside + 1]
    start = int(np.argmin(lengths))
    middle = (ordered[start] + ordered[start + inside - 1]) / 2
    # The shortest of many stretches is too short with few points.
    scale = (1 + 10 / (n - 1)) * lengths[start] / 2 / _NORMAL.inv_cdf((1 + _CORE) / 2)
    kept = ordered[np.abs(ordered - middle) <= _CUT * scale]
    return _Scatter(float(kept.mean()), float(kept.var(ddof=1)) / _CUT_VARIANCE, len(kept))


def _noise(pairs: Sequence[Pair], scatter: _Scatter | None, sampling: float, runs: float) -> tuple[float, float]:
    """Standard deviation between runs of one build, and the degrees of freedom it is known with."""
    estimates = []
    if scatter is not None:
        # The cut and the search for the densest stretch cost about half of what the points could tell.
        estimates.append(_pool_with_prior(max(0.0, scatter.variance - sampling) / runs, (scatter.count - 1) / 2))
    spreads = [_spread(pair) for pair in pairs if len(pair.reference) > 1]
    if spreads:
        typical = _MAD_TO_SD * float(np.median(np.sqrt(np.concatenate([squares for squares, _ in spreads]))))
        error = float(np.median([error for _, error in spreads]))
        degrees = sum(len(squares) - 1 for squares, _ in spreads)
        estimates.append(_pool_with_prior(max(0.0, typical**2 - error), _MAD_EFFICIENCY * degrees))
    # Runs made one after the other agree better than those of different days, so the larger estimate counts.
    return max(estimates, default=_pool_with_prior(0.0, 0.0))


def _pool_with_prior(variance: float, weight: float) -> tuple[float, float]:
    total = weight + PRIOR_WEIGHT
    return math.sqrt((weight * variance + PRIOR_WEIGHT * PRIOR_NOISE**2) / total), total


def _spread(pair: Pair) -> tuple[Floats, float]:
    """Squared deviations of the reference's runs from their mean, unbiased, and the part that sampling explains."""
    logs = np.log([run.median_ns for run in pair.reference])
    count = len(logs)
    error = math.fsum(run.error**2 for run in pair.reference) / count
    squares: Floats = (logs - logs.mean()) ** 2 * count / (count - 1)
    return squares, error


def _own_noise(pair: Pair, common: float, weight: float) -> tuple[float, float]:
    """The common noise, unless this case's own runs differ by more than chance would have it."""
    count = len(pair.reference)
    if count < 3:
        return common, weight
    squares, error = _spread(pair)
    variance = float(squares.mean()) - error
    degrees = count - 1.0
    # Wilson and Hilferty's approximation of the 99 % quantile of χ² over its degrees of freedom.
    part = 2 / (9 * degrees)
    limit = (1 - part + _NORMAL.inv_cdf(0.99) * math.sqrt(part)) ** 3
    return (math.sqrt(variance), degrees) if variance > limit * common**2 else (common, weight)


def _shift(scatter: _Scatter, runs: float, effect: float) -> Ratio:
    """What the cases share; `unchanged` where it may be noise."""
    error = math.sqrt(runs * PRIOR_NOISE**2 + scatter.variance / scatter.count)
    width = _NORMAL.inv_cdf(1 - SHIFT_ALARMS) * error
    centre, answer = scatter.centre, TimeVerdict.UNCHANGED
    if abs(centre) > max(width, effect):
        answer = TimeVerdict.SLOWER if centre > 0 else TimeVerdict.FASTER
    return Ratio(answer, math.exp(centre), math.exp(centre - width), math.exp(centre + width))


def _ratio(
    pair: Pair, change: float, sampling: float, between: float, degrees: float, family: int, effect: float
) -> Ratio:
    variance = sampling + between
    count = len(pair.reference)
    parts = between**2 / degrees + pair.current.error**4 / (pair.current.samples - 1)
    parts += sum((run.error / count) ** 4 / (run.samples - 1) for run in pair.reference)
    # Welch and Satterthwaite: how well the sum of these variances is known.
    freedom = variance**2 / parts
    error = math.sqrt(variance)
    width = student(CASE_ALARMS / family, freedom) * error
    bounds = math.exp(change), math.exp(change - width), math.exp(change + width)
    if abs(change) >= effect and abs(change) > width:
        return Ratio(TimeVerdict.SLOWER if change > 0 else TimeVerdict.FASTER, *bounds)
    # Of one case alone, since this answer alarms nobody.
    if abs(change) + student(_SINGLE, freedom) * error <= effect:
        return Ratio(TimeVerdict.UNCHANGED, *bounds)
    tail, margin = (CASE_ALARMS / family, abs(change)) if abs(change) >= effect else (_SINGLE, effect - abs(change))
    left = (margin / student(tail, freedom)) ** 2 - between
    samples = min(run.samples for run in (pair.current, *pair.reference))
    needed = max(samples + 1, math.ceil(samples * sampling / left)) if left > 0 else None
    return Ratio(TimeVerdict.INCONCLUSIVE, *bounds, needed)


def student(tail: float, freedom: float) -> float:
    """The value that Student's t exceeds with probability `tail` (expansion in 1/freedom about the normal one)."""
    z = _NORMAL.inv_cdf(1 - tail)
    if math.isinf(freedom):
        return z
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / freedom ** (power + 1) for power, term in enumerate(terms))


# The share of benches that may wrongly call a case faster or slower although nothing differs.
_ALARMS = 0.05
# No bench takes more samples than this.
_MAX_NEEDED = 100_000


class TimedPair(Value):
    """One case on both backends."""

    results: tuple[CaseResult, ...]

    @property
    def problem(self) -> str:
        """Why the times are not compared; empty where they are."""
        for number, result in enumerate(self.results, 1):
            if result.outcome is not Outcome.PASSED:
                return f"{result.outcome.value} on {number}: {result.reason}"
        return "" if all(result.perf for result in self.results) else "not timed: the call computes nothing"

    @property
    def overhead_ns(self) -> int | None:
        """What an empty call takes, the longer of both; None where device times are compared, or it is not known."""
        perfs = [result.perf for result in self.results if result.perf is not None]
        known = [perf.overhead_ns for perf in perfs if perf.overhead_ns is not None]
        return None if all(perf.device_samples_ns for perf in perfs) else max(known, default=None)

    @property
    def samples(self) -> tuple[Sequence[int], Sequence[int]]:
        """The times that are compared: the devices' own where both tell them."""
        first, second = (result.perf or Perf(()) for result in self.results)
        if first.device_samples_ns and second.device_samples_ns:
            return first.device_samples_ns, second.device_samples_ns
        return first.samples_ns, second.samples_ns


def compare_backends(
    first_ns: Sequence[int], second_ns: Sequence[int], family: int = 1, overhead_ns: float | None = None
) -> Ratio:
    """Whether the second is faster or slower, of `family` cases that are asked together.

    Both ran in turn on the same machine, so there is no shift between runs to allow for; only the bootstrap's error of
    both medians remains. A difference below the minimum effect does not count, however certain it is.
    """
    first, second = run_time(first_ns, seed=1), run_time(second_ns, seed=2)
    change = math.log(second.median_ns / first.median_ns)
    freedom = max(1, first.samples + second.samples - 2)
    width = student(_ALARMS / 2 / family, freedom) * math.hypot(first.error, second.error)
    bounds = math.exp(change), math.exp(change - width), math.exp(change + width)
    effect = math.log1p(MIN_EFFECT)
    count = min(first.samples, second.samples)
    if why := why_too_short(first.median_ns, second.median_ns, overhead_ns, MIN_EFFECT):
        return Ratio(TimeVerdict.TOO_SHORT, *bounds, remark=f"{why}: use a larger case, or device_seconds()")
    if count < MIN_SAMPLES:
        return Ratio(TimeVerdict.INCONCLUSIVE, *bounds, remark=f"at least {MIN_SAMPLES} samples are needed")
    if abs(change) >= effect and abs(change) > width:
        return Ratio(TimeVerdict.SLOWER if change > 0 else TimeVerdict.FASTER, *bounds)
    if abs(change) + width <= effect:
        return Ratio(TimeVerdict.INCONCLUSIVE, *bounds, remark=f"they differ by less than {MIN_EFFECT:.0%}")
    margin = abs(change) if abs(change) >= effect else effect - abs(change)
    needed = max(count + 1, math.ceil(min(count * (width / margin) ** 2, _MAX_NEEDED))) if margin > 0 else _MAX_NEEDED
    remark = f"too close to {MIN_EFFECT:.0%} to tell"
    if needed < _MAX_NEEDED:
        remark = f"about {needed} samples would tell"
    return Ratio(TimeVerdict.INCONCLUSIVE, *bounds, remark=remark)


# Far beyond the caches of most machines, small enough for any.
_COPY_BYTES: Final = 128 << 20
_MATRIX: Final = 1024
_ROUNDS: Final = 7

Clock = Callable[[], float]


def measure_bandwidth(clock: Clock = time.perf_counter, size: int = _COPY_BYTES) -> float:
    """Bytes per second, read and written, of the best of several copies."""
    source, target = np.ones(size, np.uint8), np.empty(size, np.uint8)
    # The first copy also takes the memory from the system; the best of the others counts.
    return 2 * size / _best_seconds(lambda: np.copyto(target, source), clock)


def measure_peak(clock: Clock = time.perf_counter, size: int = _MATRIX) -> float:
    """Float32 operations per second of the best of several matrix products, on as many threads as BLAS takes."""
    left, right = np.ones((size, size), np.float32), np.ones((size, size), np.float32)
    product = np.empty_like(left)
    return 2 * size**3 / _best_seconds(lambda: np.matmul(left, right, out=product), clock)


def describe_host() -> str:
    """What was measured, for whoever reads the description later."""
    return f"Measured with numpy {np.__version__} on {platform.machine()} with {os.cpu_count()} processors."


def _best_seconds(work: Callable[[], object], clock: Clock) -> float:
    work()
    return min(timeit.repeat(work, timer=clock, number=1, repeat=_ROUNDS))
