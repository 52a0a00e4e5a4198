"""The gate's decision: what became of every case since the reference, waivers, drift and times, and the exit code."""

import datetime
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any

from msgspec import field
from msgspec.structs import replace

from mluops_gtest.base.errors import ContentError, ExitCode, UsageError
from mluops_gtest.base.frozen import TableEnum, Value
from mluops_gtest.catalog.replaced import Successors
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import ResultsByCase, RunReport, backend_of
from mluops_gtest.core.result import CaseResult, format_worst_outlier
from mluops_gtest.results.gate_reference import (
    AppliedWaivers,
    Drift,
    DriftLimits,
    Reference,
    ReferenceCase,
    Waiver,
    WaiverProblem,
    apply_waivers,
    find_drifts,
    machine_of,
    times_of,
)
from mluops_gtest.results.statistics import MIN_SAMPLES, Pair, Ratio, TimeVerdict, compare
from mluops_gtest.results.times import MIN_EFFECT, samples_of, why_too_short

# Before there was no verdict on the kernel.
_WAS_OPEN = (None, Outcome.SKIPPED, Outcome.NOT_RUN)


class Transition(TableEnum):
    """From the reference to now; `blocks` unless a waiver covers the failure."""

    STILL_PASSING = ("still passing", False)
    FIXED = ("fixed", False)
    NEW = ("new", False)
    STILL_SKIPPED = ("still skipped", False)
    REPLACED = ("replaced", False)
    REGRESSED = ("regressed", True)
    STILL_FAILING = ("still failing", True)
    NEW_AND_FAILING = ("new and failing", True)
    MISSING = ("missing", True)
    BECAME_SKIPPED = ("became skipped", True)
    SUSPECT = ("suspect", True)
    NOT_RUN = ("not_run", True)

    def __init__(self, _word: str, blocks: bool) -> None:
        self.blocks = blocks


def transition(before: Outcome | None, now: Outcome | None) -> Transition:
    """The transition between two outcomes; None means the case was absent. Skipped or not run counts as absent."""
    match now:
        case None:
            return Transition.MISSING
        case Outcome.NOT_RUN:
            return Transition.NOT_RUN
        case Outcome.SUSPECT:
            return Transition.SUSPECT
        case Outcome.SKIPPED:
            if before is Outcome.SKIPPED:
                return Transition.STILL_SKIPPED
            return Transition.NEW if before in _WAS_OPEN else Transition.BECAME_SKIPPED
        case Outcome.PASSED:
            if before is not None and before.passes:
                return Transition.STILL_PASSING
            return Transition.NEW if before in _WAS_OPEN else Transition.FIXED
    if before is not None and before.passes:
        return Transition.REGRESSED
    return Transition.NEW_AND_FAILING if before in _WAS_OPEN else Transition.STILL_FAILING


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
        samples = len(samples_of(now))
        if not before.times and not samples:
            continue
        lacking = _missing_for_times(before, samples, differing, other_values(reference, report))
        if lacking is not None:
            lack, reason = lacking
            changes.append(TimeChange(case, now.operator, TimeVerdict.INCONCLUSIVE, reason=reason, lack=lack))
            continue
        pair = Pair(before.times, times_of(now)[0])
        overhead = now.perf.overhead_ns if now.perf is not None else None
        times = (pair.before_ns, pair.current.median_ns)
        if why := why_too_short(*times, overhead, min_effect):
            # It takes no part in the comparison: its noise is not that of the kernels.
            reason = f"{why}: use a larger case"
            changes.append(TimeChange(case, now.operator, TimeVerdict.TOO_SHORT, *times, reason=reason))
        else:
            pairs[case] = pair
    if not pairs:
        return Performance(tuple(changes))
    comparison = compare(list(pairs.values()), min_effect)
    for (case, pair), ratio in zip(pairs.items(), comparison.ratios, strict=True):
        change = TimeChange(case, results[case].operator, ratio.answer, pair.before_ns, pair.current.median_ns, ratio)
        if ratio.answer is TimeVerdict.INCONCLUSIVE:
            differ = f"runs of one build differ by {comparison.noise * 100:.1f} %"
            lack, reason = Lack.QUIET, f"{differ}, whatever the samples; more runs of the baseline help (--aa)"
            if ratio.needed is not None:
                samples = min(run.samples for run in (pair.current, *pair.reference))
                lack, reason = Lack.MORE_SAMPLES, f"{samples} samples; {ratio.needed} per run would be needed"
            change = replace(change, lack=lack, reason=reason)
        changes.append(change)
    return Performance(tuple(sorted(changes, key=lambda c: c.case)), comparison.shift, comparison.noise)


def other_values(reference: Reference, report: RunReport) -> str:
    """How the values of the cases differ, so that readings and times cannot be compared; empty if they can."""
    words = [f"with --reseed {n}" if n is not None else "without --reseed" for n in (report.reseed, reference.reseed)]
    return "" if words[0] == words[1] else f"different values: RESULTS {words[0]}, the baseline {words[1]}"


def _missing_for_times(
    before: ReferenceCase, samples: int, differing: list[str], other: str
) -> tuple[Lack, str] | None:
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


class Accept(Enum):
    """Changes that `--accept` lets through."""

    MISSING = "missing"
    SKIPPED = "skipped"
    SLOWER = "slower"


_ACCEPTED_AS = {Transition.MISSING: Accept.MISSING, Transition.BECAME_SKIPPED: Accept.SKIPPED}


class Switches(Value, kw_only=True):
    """What the user types and the gate asks alike."""

    cross_backend: bool = False
    strict_accuracy: bool = False
    strict_perf: bool = False
    # Elements beyond what arithmetic allows may appear in cases that had none.
    allow_outliers: bool = False
    # Results of foreign backends that ran in the process of the harness block.
    require_isolated: bool = False
    # Which part of the cases RESULTS must have compared, e.g. 95%.
    require_coverage: str | None = None


class Policy(Switches, kw_only=True):
    """What the team asks of the gate beyond its defaults."""

    drift: DriftLimits = field(default_factory=DriftLimits)
    min_effect: float = MIN_EFFECT
    accept: frozenset[Accept] = frozenset()

    def accepts(self, word: Transition) -> bool:
        """True if `--accept` covers the transition."""
        return _ACCEPTED_AS.get(word) in self.accept


DEFAULT_POLICY = Policy()


class CaseChange(Value):
    """One case: what it was and is now (xfailed and xpassed by waivers), None if it was or is absent."""

    case: str
    operator: str
    transition: Transition
    before: Outcome | None
    now: Outcome | None
    blocks: bool
    reason: str = ""
    fingerprint: str = ""
    # What the failure has in common with others: a name that stays the same, and words. Empty: it is not explained.
    cause: str = ""
    headline: str = ""
    # It shows what the headline says.
    is_example: bool = False
    # Its own explanation has the law and the place of the cause, so that a waiver by the cause covers it.
    has_cause: bool = False
    repro: str = ""
    waiver: Waiver | None = None
    # How large the case is, so that a group is shown by its smallest.
    elements: int = 0
    # Elements beyond what arithmetic allows, in words too; `outliers_before` is None where nobody looked.
    outliers: int = 0
    outliers_before: int | None = None
    outlier_words: str = ""

    @property
    def has_new_outliers(self) -> bool:
        """It passes as before, with the first elements that no order of operations explains."""
        return self.transition is Transition.STILL_PASSING and self.outliers > 0 and self.outliers_before == 0


class Decision(Value):
    """Everything the gate found; `blocked` is the answer."""

    backend: str
    changes: tuple[CaseChange, ...]
    problems: tuple[WaiverProblem, ...]
    drifts: tuple[Drift, ...]
    performance: Performance
    policy: Policy
    # Cases with a verdict on the kernel before and now.
    compared: int
    # Why readings and times were not compared; empty if they were.
    other_values: str = ""
    # None: RESULTS does not say.
    is_isolated: bool | None = None
    # How much less RESULTS compared than the policy asks for, in words.
    lacking: str = ""

    @property
    def blocking(self) -> tuple[CaseChange, ...]:
        return tuple(change for change in self.changes if change.blocks)

    @property
    def blocking_times(self) -> tuple[TimeChange, ...]:
        """The cases whose times stop the merge."""
        slower = () if Accept.SLOWER in self.policy.accept else (TimeVerdict.SLOWER,)
        answers = (*slower, TimeVerdict.INCONCLUSIVE) if self.policy.strict_perf else slower
        return tuple(change for change in self.performance.changes if change.answer in answers)

    @property
    def blocks_by_shift(self) -> bool:
        """All cases together are slower, and that stops the merge."""
        return self.performance.all_slower and Accept.SLOWER not in self.policy.accept

    @property
    def blocking_drifts(self) -> tuple[Drift, ...]:
        return self.drifts if self.policy.strict_accuracy else ()

    @property
    def blocking_outliers(self) -> tuple[CaseChange, ...]:
        """The cases that pass with elements beyond what arithmetic allows where there were none."""
        return () if self.policy.allow_outliers else tuple(change for change in self.changes if change.has_new_outliers)

    @property
    def blocks_by_isolation(self) -> bool:
        return self.policy.require_isolated and not self.is_isolated

    @property
    def blocked(self) -> bool:
        by_cases = self.blocking or self.blocking_drifts or self.blocking_outliers or self.blocking_times
        return bool(by_cases or self.problems or self.blocks_by_isolation or self.blocks_by_shift)

    @property
    def acceptable(self) -> tuple[Accept, ...]:
        """The kinds of blocking changes that `--accept` could let through."""
        found = {_ACCEPTED_AS.get(change.transition) for change in self.blocking}
        if self.blocks_by_shift or any(change.answer is TimeVerdict.SLOWER for change in self.blocking_times):
            found.add(Accept.SLOWER)
        return tuple(accept for accept in Accept if accept in found)

    @property
    def accepted(self) -> tuple[tuple[Accept, str], ...]:
        """What `--accept` let through, with the case; an empty case id means all cases together."""
        cases = [(_ACCEPTED_AS[c.transition], c.case) for c in self.changes if self.policy.accepts(c.transition)]
        if Accept.SLOWER not in self.policy.accept:
            return tuple(cases)
        together = [(Accept.SLOWER, "")] if self.performance.all_slower else []
        slower = [(Accept.SLOWER, change.case) for change in self.performance.answered(TimeVerdict.SLOWER)]
        return (*cases, *together, *slower)

    @property
    def transitions(self) -> dict[Transition, int]:
        """How many cases made each transition, in the order of the transitions; absent ones are left out."""
        counts = Counter(change.transition for change in self.changes)
        return {word: counts[word] for word in Transition if counts[word]}

    @property
    def table(self) -> tuple[tuple[str, ...], dict[Transition, tuple[int, ...]]]:
        """The heads of the columns, and per transition how many cases belong there; outliers only if there are some."""
        heads, rows = ["cases", "blocking"], {word: [number, 0] for word, number in self.transitions.items()}
        for change in self.changes:
            rows[change.transition][1] += change.blocks
        if any(change.outliers for change in self.changes):
            heads.append("with outliers")
            for word, row in rows.items():
                row.append(sum(change.outliers > 0 for change in self.changes if change.transition is word))
        return tuple(heads), {word: tuple(row) for word, row in rows.items()}

    @property
    def exit_code(self) -> ExitCode:
        """What the gate answers to the shell."""
        if self.blocked:
            return ExitCode.FAILED
        return ExitCode.OK if self.compared and not self.lacking else ExitCode.EMPTY


def decide(
    report: RunReport,
    reference: Reference,
    waivers: Sequence[Waiver],
    today: datetime.date,
    policy: Policy = DEFAULT_POLICY,
    required_cases: set[str] | None = None,
    replaced: Successors = MappingProxyType({}),
) -> Decision:
    """Compare a report with a reference; `required_cases` are those that the report must have, by default all.

    Waivers and the reference may name cases that are replaced by others.
    """
    backend = backend_of(report)
    if backend != reference.backend and not policy.cross_backend:
        raise UsageError(
            f"RESULTS is from backend {backend!r}, the baseline from {reference.backend!r}; "
            "add --cross-backend if you mean that."
        )
    results = results_by_case(report)
    wanted = reference.cases.keys() if required_cases is None else required_cases
    known, vague = _causes_by_case(report)
    elsewhere = set(reference.cases) - set(wanted)
    waivers = [waiver.followed(replaced) for waiver in waivers]
    waived = apply_waivers(waivers, results, backend, today, elsewhere, vague)
    differing = other_values(reference, report)
    changes: list[CaseChange] = []
    drifts: list[Drift] = []
    timed: list[str] = []
    # Once, since results of a long run are read when they are asked for.
    for case in sorted(results.keys() | wanted):
        result, before = results.get(case), reference.cases.get(case)
        change = _case_change(result, case, reference, waived, policy)
        if result is None and case in replaced:
            change = _replaced_change(change, replaced[case], results)
        if case in known and change.blocks:
            change = replace(change, **known[case])
        changes.append(change)
        if result is None or before is None:
            continue
        if change.transition is Transition.STILL_PASSING and not differing:
            drifts += find_drifts(result, before.readings, policy.drift)
        if before.times or result.perf is not None:
            timed.append(case)
    required = policy.require_coverage
    verdicts = (Transition.STILL_PASSING, Transition.FIXED, Transition.REGRESSED, Transition.STILL_FAILING)
    return Decision(
        backend=backend,
        changes=tuple(changes),
        problems=waived.problems,
        drifts=tuple(drifts),
        performance=judge_times(reference, report, results.among(timed), policy.min_effect),
        policy=policy,
        compared=sum(change.transition in verdicts for change in changes),
        other_values=differing,
        is_isolated=report.is_isolated,
        lacking=report.tally.coverage_words(required) if report.tally.lacks(required) else "",
    )


def _replaced_change(missing: CaseChange, successors: Sequence[str], results: Mapping[str, CaseResult]) -> CaseChange:
    """A case that has no result under its old id; it does not block where its successors have verdicts."""
    if all(one in results and results[one].compared for one in successors):
        return replace(missing, transition=Transition.REPLACED, blocks=False, reason=f"now {', '.join(successors)}")
    return replace(missing, reason=f"now {', '.join(successors)}, without a verdict in RESULTS")


def _causes_by_case(report: RunReport) -> tuple[dict[str, dict[str, Any]], set[str]]:
    """Case → what is known of its cause, of failures that are explained; and the causes without a law at a place."""
    failing = report.failing
    if not any(result.explained for result in failing):
        return {}, set()
    # Late: results that are fine need none of it.
    from mluops_gtest.core.readings import format_headline
    from mluops_gtest.judging.groups import cause_groups

    known: dict[str, dict[str, Any]] = {}
    vague = set()
    for group in cause_groups(failing, report.results, report.shapes):
        if group.headline is not None:
            words, placed = format_headline(group.headline), group.placed_law
            showing = {result.case for result in group.examples}
            for result in group.members:
                known[result.case] = {
                    "cause": group.mark,
                    "headline": words,
                    "is_example": result.case in showing,
                    "has_cause": placed is not None and placed.holds_of(result),
                }
            vague |= set() if placed is not None else {group.mark}
    return known, vague


def results_by_case(report: RunReport) -> ResultsByCase:
    """The results of a run by case; an error if a case occurs twice or has a verdict that only the gate gives."""
    places: dict[str, int] = {}
    for place, result in enumerate(report.results):
        if result.case in places:
            raise ContentError(f"RESULTS: {result.case} has two results; each case must have one.")
        if result.outcome in (Outcome.XFAILED, Outcome.XPASSED):
            raise ContentError(
                f"RESULTS: {result.case} is {result.outcome.value}, which only the gate gives, to waived cases."
            )
        places[result.case] = place
    return ResultsByCase(report.results, places)


def _case_change(
    result: CaseResult | None, case: str, reference: Reference, waived: AppliedWaivers, policy: Policy
) -> CaseChange:
    known = reference.cases.get(case)
    before = None if known is None else known.outcome
    if result is None:
        operator = "" if known is None else known.operator
        reason = "the baseline has it, RESULTS does not"
        blocks = not policy.accepts(Transition.MISSING)
        return CaseChange(case, operator, Transition.MISSING, before, None, blocks=blocks, reason=reason)
    word = transition(before, result.outcome)
    waiver, now = waived.covered.get(case) or waived.xpassed.get(case), result.outcome
    if waiver is not None:
        now = Outcome.XFAILED if case in waived.covered else Outcome.XPASSED
    return CaseChange(
        case=case,
        operator=result.operator,
        transition=word,
        before=before,
        now=now,
        blocks=(word.blocks and now is not Outcome.XFAILED and not policy.accepts(word)) or now is Outcome.XPASSED,
        reason=result.reason,
        fingerprint=result.fingerprint,
        repro=result.repro,
        waiver=waiver,
        elements=result.info.elements,
        outliers=0 if result.outcome.blocks else result.outliers,
        outliers_before=None if known is None else known.outliers,
        outlier_words=format_worst_outlier(result),
    )
