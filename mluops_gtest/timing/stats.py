"""Times of repeated calls in a few figures that outliers do not move."""

import math
import operator
import statistics
from collections.abc import Sequence

from mluops_gtest.value import Value

# A smaller change of a time counts for nothing.
MIN_EFFECT = 0.05
# What the overhead of a call may differ by between two builds or runs, as a share of it: layout, interpreter, copies.
_SWING = 0.5
# Standard normal quantile of a two-sided 95 % interval.
_Z = 1.959964


class TimingStats(Value):
    """Median with its 95 % interval, median absolute deviation and coefficient of variation; times in nanoseconds."""

    count: int
    median: float
    low: float
    high: float
    mad: float
    cv: float

    @property
    def half_width(self) -> float:
        """How far the median may be off, as a share of it; infinite where too few samples tell."""
        if not math.isfinite(self.high) or self.median <= 0:
            return math.inf
        return (self.high - self.low) / 2 / self.median


def timing_stats(samples_ns: Sequence[int]) -> TimingStats:
    """The figures of at least one sample.

    The interval is that between two order statistics: it needs no distribution, so skew and outliers, which times
    always have, do no harm. Fewer than six samples have no such interval of 95 %: it is unbounded then.
    """
    ordered = sorted(samples_ns)
    median = statistics.median(ordered)
    rank = _rank(len(ordered))
    return TimingStats(
        count=len(ordered),
        median=median,
        low=ordered[rank - 1] if rank else 0.0,
        high=ordered[-rank] if rank else math.inf,
        mad=statistics.median([abs(sample - median) for sample in ordered]),
        cv=_variation(ordered),
    )


def _variation(samples_ns: Sequence[int]) -> float:
    """Standard deviation over mean; sums of integers are exact, so that nothing cancels."""
    count, total = len(samples_ns), sum(samples_ns)
    if count < 2 or not total:
        return 0.0
    squares = sum(map(operator.mul, samples_ns, samples_ns))
    return math.sqrt((count * squares - total * total) / (count * (count - 1))) * count / total


def _rank(count: int) -> int:
    """The rank r for which the r-th smallest and r-th largest sample enclose the true median with 95 %; 0: none."""
    # Up to 1000 samples the binomial's own rank is this one, or in 1 % of the counts the next: never a narrower one.
    return max(0, math.floor((count + 1) / 2 - _Z * math.sqrt(count) / 2))


def too_short(first_ns: float, second_ns: float, overhead_ns: float | None, effect: float) -> bool:
    """Both calls are so short against their overhead that its swing may be all that the times tell."""
    return overhead_ns is not None and max(first_ns, second_ns) < _long_enough(overhead_ns, effect)


def short_words(call_ns: float, overhead_ns: float | None, effect: float) -> str:
    """Why a call is too short to be judged, and from which time on it could be."""
    overhead = overhead_ns or 0.0
    least = duration(_long_enough(overhead, effect))
    return f"the call takes {duration(call_ns)}, an empty one {duration(overhead)}; from {least} on it can be judged"


def _long_enough(overhead_ns: float, effect: float) -> float:
    """The time from which on no swing of the overhead passes for an effect of the kernel: 10 overheads at 5 %."""
    return overhead_ns * _SWING / effect


def duration(nanoseconds: float) -> str:
    """A time for people: four digits and the unit that suits them."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.4g} {unit}"
    return f"{nanoseconds:.4g} ns"
