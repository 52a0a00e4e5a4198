"""The times of all cases that pass before and now, answered together."""

from collections.abc import Mapping
from enum import Enum

from msgspec.structs import replace

from mluops_gtest.gate.reference import Reference, ReferenceCase, machine_of, times_of
from mluops_gtest.model.report import RunReport
from mluops_gtest.model.result import CaseResult, Outcome
from mluops_gtest.timing.statistics import MIN_SAMPLES, Pair, Ratio, TimeVerdict, compare
from mluops_gtest.timing.stats import MIN_EFFECT, short_words, too_short
from mluops_gtest.value import Value


class Lack(Enum):
    """What an inconclusive comparison of times lacks; the words name the finding from run to run."""

    BASELINE_TIMES = "no times in the baseline"
    SAMPLES = "no samples"
    ENOUGH_SAMPLES = "too few samples"
    SAME_MACHINE = "another machine"
    SAME_VALUES = "other values"
    MORE_SAMPLES = "more samples are needed"
    QUIET = "runs of one build differ"


class TimeChange(Value):
    """The answer for one case; `lack` is what an inconclusive one lacks, `reason` says it in words."""

    case: str
    operator: str
    answer: TimeVerdict
    before_ns: float | None = None
    now_ns: float | None = None
    ratio: Ratio | None = None
    reason: str = ""
    lack: Lack | None = None

    @property
    def needed(self) -> int | None:
        """How many samples per run would be needed; None where it is not a matter of samples."""
        return None if self.ratio is None else self.ratio.needed


class Performance(Value):
    """Every case with times; `shift` is what the cases have in common, `noise` what runs of one build differ by."""

    changes: tuple[TimeChange, ...] = ()
    shift: Ratio | None = None
    noise: float | None = None

    def answered(self, answer: TimeVerdict) -> tuple[TimeChange, ...]:
        return tuple(change for change in self.changes if change.answer is answer)

    @property
    def all_slower(self) -> bool:
        """The cases together are slower, by more than runs of one build differ."""
        return self.shift is not None and self.shift.answer is TimeVerdict.SLOWER


def judge_times(
    reference: Reference, report: RunReport, results: Mapping[str, CaseResult], min_effect: float = MIN_EFFECT
) -> Performance:
    """One answer per case that passes before and now and has samples on either side."""
    there = machine_of(report)
    differing = [key for key, value in reference.machine.items() if there.get(key) != value]
    changes: list[TimeChange] = []
    pairs: dict[str, Pair] = {}
    for case in sorted(results.keys() & reference.cases.keys()):
        before, now = reference.cases[case], results[case]
        if before.outcome is not Outcome.PASSED or now.outcome is not Outcome.PASSED:
            continue
        samples = len(now.perf.samples_ns) if now.perf is not None else 0
        if not before.times and not samples:
            continue
        lacking = _lacking(before, samples, differing, other_values(reference, report))
        if lacking is not None:
            lack, reason = lacking
            changes.append(TimeChange(case, now.operator, TimeVerdict.INCONCLUSIVE, reason=reason, lack=lack))
            continue
        pair = Pair(before.times, times_of(now)[0])
        overhead = now.perf.overhead_ns if now.perf is not None else None
        if too_short(pair.before_ns, pair.current.median_ns, overhead, min_effect):
            times = (pair.before_ns, pair.current.median_ns)
            # It takes no part in the comparison: its noise is not that of the kernels.
            why = f"{short_words(max(times), overhead, min_effect)}: use a larger case"
            changes.append(TimeChange(case, now.operator, TimeVerdict.TOO_SHORT, *times, reason=why))
        else:
            pairs[case] = pair
    if not pairs:
        return Performance(tuple(changes))
    comparison = compare(list(pairs.values()), min_effect)
    for (case, pair), ratio in zip(pairs.items(), comparison.ratios, strict=True):
        change = TimeChange(case, results[case].operator, ratio.answer, pair.before_ns, pair.current.median_ns, ratio)
        if ratio.answer is TimeVerdict.INCONCLUSIVE:
            lack, reason = _open(pair, ratio, comparison.noise)
            change = replace(change, lack=lack, reason=reason)
        changes.append(change)
    return Performance(tuple(sorted(changes, key=lambda c: c.case)), comparison.shift, comparison.noise)


def other_values(reference: Reference, report: RunReport) -> str:
    """How the values of the cases differ, so that readings and times cannot be compared; empty if they can."""
    if report.reseed == reference.reseed:
        return ""
    return f"different values: RESULTS {_values(report.reseed)}, the baseline {_values(reference.reseed)}"


def _values(reseed: int | None) -> str:
    return "without --reseed" if reseed is None else f"with --reseed {reseed}"


def _lacking(before: ReferenceCase, samples: int, differing: list[str], other: str) -> tuple[Lack, str] | None:
    """Why the times of a case cannot be compared; None if they can."""
    if not before.times:
        return Lack.BASELINE_TIMES, "the baseline has no times for it"
    if not samples:
        return Lack.SAMPLES, "RESULTS has no samples for it; run with --perf"
    if samples < MIN_SAMPLES:
        return Lack.ENOUGH_SAMPLES, f"{samples} samples; at least {MIN_SAMPLES} are needed"
    if differing:
        return Lack.SAME_MACHINE, f"another machine: {', '.join(differing)} differ"
    return (Lack.SAME_VALUES, other) if other else None


def _open(pair: Pair, ratio: Ratio, noise: float) -> tuple[Lack, str]:
    samples = min(run.samples for run in (pair.current, *pair.reference))
    if ratio.needed is not None:
        return Lack.MORE_SAMPLES, f"{samples} samples; {ratio.needed} per run would be needed"
    words = f"runs of one build differ by {noise * 100:.1f} %, whatever the samples"
    return Lack.QUIET, f"{words}; more runs of the baseline help (--aa)"
