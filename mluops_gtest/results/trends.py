"""What a row of runs says of one case: how often it passes, flakes and flips, and whether its accuracy drifts."""

import itertools
import math
import statistics
from collections.abc import Mapping
from typing import Any

from msgspec import field

from mluops_gtest.base.frozen import Value
from mluops_gtest.base.text import commit_words
from mluops_gtest.core.outcome import FLOOR, SIZELESS, Outcome, reading_floor

_BARS = "▁▂▃▄▅▆▇█"
_GAP = "·"


class Run(Value):
    """One run that the history holds."""

    id: int
    started: str
    backend: str
    machine: str
    tool_version: str
    seconds: float
    # Outcome word → number of cases.
    counts: Mapping[str, int]
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def commit(self) -> str:
        """The commit that it ran on, in short; empty where none is known."""
        return commit_words(self.labels)


class CauseTrend(Value):
    """One cause of failures over runs: how many cases it had in each."""

    mark: str
    headline: str
    counts: tuple[int, ...]

    @property
    def first(self) -> int:
        """The place of the first run that has it."""
        return next(place for place, count in enumerate(self.counts) if count)

    @property
    def last(self) -> int:
        """The place of the last run that has it."""
        return max(place for place, count in enumerate(self.counts) if count)


class Measured(Value):
    """One criterion on one output, as one run read it."""

    output: str
    criterion: str
    dtype: str
    value: float
    threshold: float

    @property
    def used(self) -> float:
        """The reading as a multiple of its threshold; whatever exceeds an exact one is unbounded."""
        if self.value == 0.0:
            return 0.0
        return self.value / self.threshold if self.threshold > 0 and not math.isnan(self.value) else math.inf


class Point(Value):
    """One case in one run; `seconds` is the median of the samples where the run took several."""

    run: Run
    outcome: Outcome
    seconds: float
    measured: tuple[Measured, ...] = ()

    @property
    def used(self) -> float | None:
        """The largest reading as a multiple of its threshold; None where nothing was read."""
        return max((m.used for m in self.measured), default=None)

    @property
    def ran(self) -> bool:
        """The backend was asked, so that the point says something of it."""
        return self.outcome.was_called


class ReadingGrowth(Value):
    """How many times larger the newest reading is than the usual one before; `values` from old to new."""

    output: str
    criterion: str
    factor: float
    values: tuple[float, ...]


class CaseTrend(Value):
    """One case on one backend over all runs, from old to new."""

    case: str
    operator: str
    points: tuple[Point, ...] = field(default=())

    @property
    def ran(self) -> tuple[Point, ...]:
        """The points where the backend was asked."""
        return tuple(point for point in self.points if point.ran)

    @property
    def pass_rate(self) -> float | None:
        """Share of the runs in which the case passed; None where it never ran."""
        return self._share(Outcome.PASSED)

    @property
    def flake_rate(self) -> float | None:
        """Share of the runs in which the case both failed and passed; None where it never ran."""
        return self._share(Outcome.FLAKY)

    @property
    def flips(self) -> int:
        """How often the case went from good to bad or back from one run to the next."""
        blocks = [point.outcome.blocks for point in self.ran]
        return sum(before != after for before, after in itertools.pairwise(blocks))

    @property
    def drifts(self) -> tuple[ReadingGrowth, ...]:
        """Every criterion read at least once, the one that grew most first."""
        series: dict[tuple[str, str, str], list[float]] = {}
        for point in self.points:
            for m in point.measured:
                if m.criterion == SIZELESS:
                    continue
                series.setdefault((m.output, m.criterion, m.dtype), []).append(m.value)
        drifts = [
            ReadingGrowth(output, criterion, _growth(values, reading_floor(dtype)), tuple(values))
            for (output, criterion, dtype), values in series.items()
        ]
        return tuple(sorted(drifts, key=lambda drift: -drift.factor))

    @property
    def seconds(self) -> tuple[float, ...]:
        """The times, from old to new."""
        return tuple(point.seconds for point in self.ran)

    @property
    def story(self) -> tuple[tuple[str, str, float | None, str], ...]:
        """Start, outcome, largest reading as a multiple of its threshold, and commit, from old to new."""
        return tuple((point.run.started, point.outcome.value, point.used, point.run.commit) for point in self.points)

    def to_json(self) -> dict[str, Any]:
        """The trend for programs."""
        return {
            "pass_rate": self.pass_rate,
            "flake_rate": self.flake_rate,
            "flips": self.flips,
            "drifts": [
                {"output": d.output, "criterion": d.criterion, "factor": _finite(d.factor)} for d in self.drifts
            ],
            "runs": [
                {
                    "started": point.run.started,
                    "labels": dict(point.run.labels),
                    "outcome": point.outcome.value,
                    "seconds": point.seconds,
                    "readings": [
                        {"output": m.output, "criterion": m.criterion, "value": _finite(m.value)}
                        for m in point.measured
                    ],
                }
                for point in self.points
            ],
        }

    def _share(self, outcome: Outcome) -> float | None:
        points = self.ran
        return sum(point.outcome is outcome for point in points) / len(points) if points else None


def _finite(value: float) -> float | str:
    """JSON has words for what is no finite number."""
    return value if math.isfinite(value) else str(value)


def _growth(values: list[float], floor: float) -> float:
    """The newest over the median before it, neither below the floor; a NaN where there was none is unbounded growth."""
    *before, newest = values
    known = [value for value in before if not math.isnan(value)]
    if not known:
        return 1.0
    usual = max(statistics.median(known), floor)
    if math.isnan(newest):
        return math.inf
    # Infinite before and now is no growth.
    return 1.0 if math.isinf(usual) else max(newest, floor) / usual


def sparkline(values: tuple[float, ...], *, log: bool = False) -> str:
    """A bar per value between the smallest and the largest; a dot where there is no number.

    With `log` a factor is a step of the same height everywhere, and zero is the lowest bar.
    """
    heights = [_log_height(value) if log else value for value in values]
    known = [height for height in heights if math.isfinite(height)]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    return "".join(_bar(height, low, high) for height in heights)


def _log_height(value: float) -> float:
    # Nothing below the floor of float is told apart.
    return value if math.isnan(value) else math.log2(max(value, FLOOR))


def _bar(height: float, low: float, high: float) -> str:
    if math.isnan(height):
        return _GAP
    if math.isinf(height):
        return _BARS[-1] if height > 0 else _BARS[0]
    span = high - low
    return _BARS[0] if span <= 0 else _BARS[min(int((height - low) / span * len(_BARS)), len(_BARS) - 1)]
