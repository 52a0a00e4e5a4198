"""Two sets of results side by side: outcome, readings, time."""

from typing import Any, Final

from mluops_gtest.base.frozen import Value
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import RunReport
from mluops_gtest.core.result import CaseResult
from mluops_gtest.results.shapes import Text, document_of, fill, list_of, shape_of
from mluops_gtest.results.times import MIN_EFFECT, samples_of, usual_seconds, why_too_short

# Of a single call, which nobody held against an empty one: first touches of memory and caches take about as much.
_SINGLE_OVERHEAD_NS = 100_000


class ReadingPair(Value):
    """One criterion on one output, read before and after; None where only the other has it."""

    output: str
    criterion: str
    before: float | None
    after: float | None

    @property
    def changed(self) -> bool:
        """The readings differ; two NaN do not."""
        return repr(self.before) != repr(self.after)


class Row(Value):
    """One case in both sets; None where a set lacks it."""

    case: str
    operator: str
    before: CaseResult | None
    after: CaseResult | None
    # False: the sets have different values, so that readings say nothing about each other.
    same_values: bool = True

    @property
    def worse(self) -> bool:
        """It is gone, it blocks and did not, or it passed and no longer runs."""
        if self.after is None:
            return True
        # A case that is new has not passed before, nor has it blocked.
        before = 1 if self.before is None else _badness(self.before.outcome)
        return _badness(self.after.outcome) > before

    @property
    def changed(self) -> bool:
        """Another outcome or another reading; times differ always."""
        if self.before is None or self.after is None or self.before.outcome is not self.after.outcome:
            return True
        return any(pair.changed for pair in self.readings)

    @property
    def readings(self) -> tuple[ReadingPair, ...]:
        """Every criterion that either set read; none where the sets have different values."""
        if not self.same_values:
            return ()
        before, after = _readings(self.before), _readings(self.after)
        return tuple(ReadingPair(*key, before.get(key), after.get(key)) for key in before | after)

    @property
    def seconds(self) -> tuple[float | None, float | None]:
        """Inside the backend; medians where both sets have samples."""
        before, after = self.before, self.after
        if before is not None and after is not None and not self._are_sampled:
            return before.seconds, after.seconds
        return _time(before), _time(after)

    @property
    def _are_sampled(self) -> bool:
        return all(result is not None and samples_of(result) for result in (self.before, self.after))

    @property
    def too_short(self) -> bool:
        """Both have times, and these may be overhead alone, so that their ratio says nothing."""
        before, after = self.seconds
        if before is None or after is None or self.before is None or self.after is None:
            return False
        perfs = [result.perf for result in (self.before, self.after)]
        overheads = [perf.overhead_ns for perf in perfs if perf is not None and perf.overhead_ns is not None]
        overhead = max(overheads, default=None) if self._are_sampled else _SINGLE_OVERHEAD_NS
        return bool(why_too_short(before * 1e9, after * 1e9, overhead, MIN_EFFECT))


class SideBySide(Value):
    """Every case of either set, by name."""

    before: RunReport
    after: RunReport
    rows: tuple[Row, ...]

    @property
    def same_values(self) -> bool:
        """Both ran with the same --reseed, or both without."""
        return self.before.reseed == self.after.reseed

    @property
    def worse(self) -> tuple[Row, ...]:
        """The cases that speak against the second set."""
        return tuple(row for row in self.rows if row.worse)

    @property
    def changed(self) -> tuple[Row, ...]:
        """The cases that differ in more than time."""
        return tuple(row for row in self.rows if row.changed)


def compare(before: RunReport, after: RunReport) -> SideBySide:
    """Pair the results by case."""
    same = before.reseed == after.reseed
    first = {result.case: _keep_compared(result) for result in before.results}
    second = {result.case: _keep_compared(result) for result in after.results}
    rows = (
        Row(case, (second.get(case) or first[case]).operator, first.get(case), second.get(case), same)
        for case in sorted(first.keys() | second.keys())
    )
    return SideBySide(before, after, tuple(rows))


_COMPARED = ("status", "expected_status", "readings", "seconds", "causes", "fingerprint", "perf", "compared")


def _keep_compared(result: CaseResult) -> CaseResult:
    """What is looked at here of a result: of two long runs all is too much to have at once."""
    fields = {name: getattr(result, name) for name in _COMPARED}
    return CaseResult(case=result.case, operator=result.operator, tags=(), outcome=result.outcome, **fields)


_RUN: Final = shape_of("ComparedRun", RunReport, "backend started labels summary")
_SIDE: Final = shape_of("ComparedResult", CaseResult, "outcome readings seconds reason fingerprint", status=Text | None)
_ROW: Final = shape_of(
    "ComparedCase",
    Row,
    "case operator changed worse too_short compared_seconds=seconds",
    before=_SIDE | None,
    after=_SIDE | None,
)
COMPARISON: Final = document_of(
    "compare", SideBySide, "same_values worse:list[str]", before=_RUN, after=_RUN, cases=list_of(_ROW)
)


def comparison_to_json(both: SideBySide) -> dict[str, Any]:
    """The comparison for programs."""
    return fill(COMPARISON, both, worse=[row.case for row in both.worse], cases=both.rows)


def _badness(outcome: Outcome) -> int:
    if outcome.blocks:
        return 2
    return 0 if outcome is Outcome.PASSED else 1


def _readings(result: CaseResult | None) -> dict[tuple[str, str], float]:
    return {} if result is None else {(r.output, r.criterion): r.value for r in result.readings}


def _time(result: CaseResult | None) -> float | None:
    return None if result is None else usual_seconds(result)
