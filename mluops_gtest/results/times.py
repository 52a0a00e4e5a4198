"""Times of repeated calls in a few figures that outliers do not move, and how near they come to what a device can do.

What a device can do at best stands in a YAML file.
"""

import json
import math
import operator
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from mluops_gtest.base.errors import ContentError, UsageError, repr_short, suggestion
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.yaml_lines import Lines, load_yaml
from mluops_gtest.core.report import RunReport
from mluops_gtest.core.result import CaseResult
from mluops_gtest.core.tensor import DType

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


def samples_of(result: CaseResult) -> Sequence[int]:
    """The interface times of a case in nanoseconds; empty where none were taken."""
    return result.perf.samples_ns if result.perf is not None else ()


def usual_seconds(result: CaseResult) -> float:
    """The median of the samples, or the time of the one call where there are none."""
    samples = samples_of(result)
    return statistics.median(samples) * 1e-9 if samples else result.seconds


def why_too_short(first_ns: float, second_ns: float, overhead_ns: float | None, effect: float) -> str:
    """Why the swing of the overhead may be all that both times tell; empty where they are long enough."""
    longer, overhead = max(first_ns, second_ns), overhead_ns or 0.0
    # From here on no swing of the overhead passes for an effect of the kernel: 10 overheads at 5 %.
    least = overhead * _SWING / effect
    if longer >= least:
        return ""
    words = f"the call takes {duration(longer)}, an empty one {duration(overhead)}"
    return f"{words}; from {duration(least)} on it can be judged"


def duration(nanoseconds: float) -> str:
    """A time for people: four digits and the unit that suits them."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.4g} {unit}"
    return f"{nanoseconds:.4g} ns"


_KEYS: Final = ("name", "bandwidth_bytes_per_s", "peak_ops_per_s")
_EXAMPLE: Final = "{name: my-device, bandwidth_bytes_per_s: 1.2e+12, peak_ops_per_s: 9.6e+13}"


class DeviceSpec(Value):
    """Bytes per second of its memory and operations per second; several peaks go by the output's data type."""

    name: str
    bandwidth: float
    peak: float | Mapping[str, float]

    @property
    def figures(self) -> dict[str, Any]:
        """Plain values, as reports keep them."""
        return asdict(self)


def read_device_spec(path: Path) -> DeviceSpec:
    """The description in `path`, or an error that says the line and what is allowed."""
    document = load_yaml(path)
    if not isinstance(document, Lines):
        raise ContentError(f"{path}:1: describe a device by a mapping such as {_EXAMPLE}.")

    def fail(line: int, what: str) -> ContentError:
        return ContentError(f"{path}:{line}: {what}")

    if unknown := [key for key in document if key not in _KEYS]:
        key = unknown[0]
        raise fail(document.line_of(key), f"unknown key {repr_short(key)}.{suggestion(key, _KEYS)}")
    if missing := [key for key in _KEYS if key not in document]:
        raise fail(document.line, f"the key {repr_short(missing[0])} is missing; write e.g. {_EXAMPLE}.")
    name = document["name"]
    if not isinstance(name, str) or not name.strip():
        raise fail(document.line_of("name"), f"name is {repr_short(name)}; it must be a name for the device.")
    bandwidth = _figure(path, document, "bandwidth_bytes_per_s")
    peaks = document["peak_ops_per_s"]
    if not isinstance(peaks, Lines):
        return DeviceSpec(name, bandwidth, _figure(path, document, "peak_ops_per_s"))
    known = [dtype.value for dtype in DType]
    if unknown := [word for word in peaks if word not in known]:
        word = unknown[0]
        raise fail(peaks.line_of(word), f"unknown data type {repr_short(word)}.{suggestion(word, known)}")
    if not peaks:
        raise fail(peaks.line, "peak_ops_per_s is empty; write a number, or one per data type.")
    return DeviceSpec(name, bandwidth, {word: _figure(path, peaks, word) for word in peaks})


def device_spec_text(spec: DeviceSpec, remark: str = "") -> str:
    """The YAML that `read_device_spec` reads."""
    lines = [f"# {line}" for line in remark.splitlines()]
    # A JSON string is a YAML string, whatever is in it.
    lines += [f"name: {json.dumps(spec.name)}", f"bandwidth_bytes_per_s: {spec.bandwidth:.4e}"]
    if isinstance(spec.peak, Mapping):
        lines += ["peak_ops_per_s:", *(f"  {word}: {peak:.4e}" for word, peak in spec.peak.items())]
    else:
        lines.append(f"peak_ops_per_s: {spec.peak:.4e}")
    return "\n".join(lines) + "\n"


class CompetitorTime(Value):
    """What a competitor takes for a case, and the share of its performance that is required."""

    nanoseconds: float
    wanted: float

    def share(self, nanoseconds: float) -> float:
        """The performance of who takes so long, as a share of the competitor's."""
        return self.nanoseconds / nanoseconds


# Section 1.5.2 of a design document: not worse than 1/10 of the competitor's performance.
COMPETITOR_SHARE = 0.1


def read_competitor_times(path: Path, report: RunReport) -> dict[str, CompetitorTime]:
    """The times in a YAML file, by case: `CASE: µs`, or `CASE: {us: µs, share: required}`."""
    try:
        document = load_yaml(path)
        if not isinstance(document, Lines) or not document:
            raise ContentError(f"{path}:1: write a line per case with its time in µs, e.g. {_COMPETITOR_EXAMPLE}.")
        cases = {result.case for result in report.results}
        return {case: _competitor_time(path, document, case, cases) for case in document}
    except ContentError as error:
        raise UsageError(str(error)) from error


_COMPETITOR_EXAMPLE = "`abs/network_a: 12.5` or `abs/network_a: {us: 12.5, share: 1}`"


def _competitor_time(path: Path, document: Lines, case: str, cases: Collection[str]) -> CompetitorTime:
    at, entry = f"{path}:{document.line_of(case)}", document[case]
    if case not in cases:
        import difflib  # late: only a mistyped name pays for it

        close = difflib.get_close_matches(case, cases, n=1)
        hint = f"did you mean {close[0]}?" if close else "name cases as `mluops-test list` does."
        raise ContentError(f"{at}: the results have no case {repr_short(case)}; {hint}")
    if not isinstance(entry, Lines):
        return CompetitorTime(_figure(path, document, case, "12.5 for µs") * 1e3, COMPETITOR_SHARE)
    if "us" not in entry or not entry.keys() <= {"us", "share"}:
        raise ContentError(f"{at}: {case} has {repr_short(dict(entry))}; write e.g. {_COMPETITOR_EXAMPLE}.")
    share = _figure(path, entry, "share", "0.1") if "share" in entry else COMPETITOR_SHARE
    return CompetitorTime(_figure(path, entry, "us", "12.5") * 1e3, share)


def _figure(path: Path, mapping: Lines, key: str, example: str = "1.2e+12") -> float:
    """A positive number; `1e12` is one, too, which YAML takes for a word."""
    value = mapping[key]
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        what = f"{key} is {repr_short(value)}; it must be a number above 0 without a unit, e.g. {example}."
        raise ContentError(f"{path}:{mapping.line_of(key)}: {what}")
    return number


# The share of the device that the bottleneck side should reach.
NETWORK_SHARE = 0.6
OTHER_SHARE = 0.3
# A launch takes two or three microseconds, whatever it computes: a kernel of this length at best still reaches 60 %
# beside it.
_LEAST_NANOSECONDS = 4_000


class Efficiency(Value):
    """Shares of the device's bandwidth and peak; `compute` is None for operators that only move data."""

    io: float
    compute: float | None
    wanted: float
    # Most of the time may be the way to the kernel: that of an interface, or the launch of a tiny one.
    too_short: bool = False

    @property
    def side(self) -> str:
        """The bottleneck: io or compute, whichever is used more."""
        return "compute" if self.compute is not None and self.compute > self.io else "io"

    @property
    def reached(self) -> float:
        """The share that the bottleneck side reached."""
        return max(self.io, self.compute or 0.0)

    @property
    def accepted(self) -> bool | None:
        """The bottleneck side reached what is asked; None where it did not and the call is too short to blame it."""
        return True if self.reached >= self.wanted else None if self.too_short else False


def efficiency(result: CaseResult, device: Mapping[str, Any] | None) -> Efficiency | None:
    """The efficiencies of a measured case; None where the device or the case does not say enough."""
    perf, info = result.perf, result.info
    samples = (perf.device_samples_ns or perf.samples_ns) if perf is not None else ()
    if device is None or perf is None or not samples or info.theory_io_bytes is None:
        return None
    nanoseconds = statistics.median(samples)
    bandwidth, peak = device.get("bandwidth"), _peak(result, device)
    operations = info.theory_ops or 0.0
    if nanoseconds <= 0 or not bandwidth or (operations and not peak):
        return None
    # One division: a share that is exactly what is asked must not fall below it by rounding.
    io = info.theory_io_bytes * 1e9 / (nanoseconds * bandwidth)
    compute = operations * 1e9 / (nanoseconds * peak) if operations and peak else None
    is_tiny = max(io, compute or 0.0) * nanoseconds < _LEAST_NANOSECONDS
    overhead = None if perf.device_samples_ns else perf.overhead_ns
    is_overhead = bool(why_too_short(nanoseconds, nanoseconds, overhead, MIN_EFFECT))
    wanted = NETWORK_SHARE if "network" in result.tags else OTHER_SHARE
    return Efficiency(io, compute, wanted, too_short=is_tiny or is_overhead)


def _peak(result: CaseResult, device: Mapping[str, Any]) -> float | None:
    """Operations per second; of the output's data type where the device has several peaks."""
    peak = device.get("peak")
    if isinstance(peak, Mapping):
        return next((float(peak[t.dtype]) for t in result.info.outputs if t.dtype in peak), None)
    return None if peak is None else float(peak)


class TimedResult(Value):
    """One case that was timed; `device` is None where the backend tells no device time."""

    result: CaseResult
    interface: TimingStats
    device: TimingStats | None
    efficiency: Efficiency | None

    @property
    def latency(self) -> TimingStats:
        """The time that efficiencies are of: the device's own where it is told."""
        return self.device or self.interface


def timed_results(report: RunReport, device: Mapping[str, Any] | None) -> tuple[TimedResult, ...]:
    """Every case with samples, in the order of the report; `device` has name, bandwidth and peak."""
    return tuple(
        TimedResult(
            result,
            timing_stats(result.perf.samples_ns),
            timing_stats(result.perf.device_samples_ns) if result.perf.device_samples_ns else None,
            efficiency(result, device),
        )
        for result in report.results
        if result.perf is not None and result.perf.samples_ns
    )
