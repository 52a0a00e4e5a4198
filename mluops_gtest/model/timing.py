"""Times of repeated calls in a few figures that outliers do not move."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

# Standard normal quantile of a two-sided 95 % interval.
_Z = 1.959964


@dataclass(frozen=True, slots=True)
class Figures:
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


def figures_of(samples_ns: Sequence[int]) -> Figures:
    """The figures of at least one sample.

    The interval is that between two order statistics: it needs no distribution, so skew and outliers, which times
    always have, do no harm. Fewer than six samples have no such interval of 95 %: it is unbounded then.
    """
    ordered = sorted(samples_ns)
    median = statistics.median(ordered)
    mean = statistics.fmean(ordered)
    rank = _rank(len(ordered))
    return Figures(
        count=len(ordered),
        median=median,
        low=ordered[rank - 1] if rank else 0.0,
        high=ordered[-rank] if rank else math.inf,
        mad=statistics.median(abs(sample - median) for sample in ordered),
        cv=statistics.stdev(ordered) / mean if len(ordered) > 1 and mean else 0.0,
    )


def _rank(count: int) -> int:
    """The rank r for which the r-th smallest and r-th largest sample enclose the true median with 95 %; 0: none."""
    # Up to 1000 samples the binomial's own rank is this one, or in 1 % of the counts the next: never a narrower one.
    return max(0, math.floor((count + 1) / 2 - _Z * math.sqrt(count) / 2))
