"""The points that every operator is tested for, with what the results say of them."""

from collections.abc import Mapping

from mluops_gtest.model.report import RunReport
from mluops_gtest.model.result import CaseResult, Outcome
from mluops_gtest.reports.markdown.operator_summary import OperatorSummary, TestPoint
from mluops_gtest.reports.markdown.translations import Words
from mluops_gtest.value import Value


class CheckedPoint(Value):
    """One line of the function test table."""

    name: str
    description: str
    tally: TestPoint
    # What stands against the point; of a special one, not every case that blocks.
    bad: tuple[CaseResult, ...]
    tested: bool

    @property
    def holds(self) -> bool:
        """Tested, and nothing stands against it."""
        return self.tested and not self.bad


def checked_points(facts: OperatorSummary, report: RunReport, say: Words) -> tuple[CheckedPoint, ...]:
    """All points in the order of the report."""
    repeat = int(report.backend.get("repeat") or 1)
    called = TestPoint(tuple(result for result in facts.results if result.outcome.was_called))
    trampled = tuple(result for result in called.results if result.outcome is Outcome.MEMORY)
    stability = say("stability_words", repeat=repeat) if repeat > 1 else say("stability_once")
    exercised = bool(facts.unstable) or (repeat > 1 and bool(called.results))
    remainders = len(facts.remainders.results)
    return (
        _point("dtype", _listed(facts.by_dtype, say), facts.computing, say),
        _point("rank", ranks(facts, say), facts.computing, say),
        _point("layout", _listed(facts.by_layout, say), facts.computing, say),
        _point("size", say("size_words", shapes=facts.shapes, remainders=remainders), facts.sizes, say),
        _point("zero", say("zero_words"), facts.zero_elements, say),
        CheckedPoint(say("point_stability"), stability, called, facts.unstable, exercised),
        _point("nonfinite", say("nonfinite_words"), facts.tagged("nonfinite"), say),
        _point("precision", say("precision_words"), facts.tagged("precision"), say),
        _point("network", say("network_words"), facts.tagged("network"), say),
        CheckedPoint(say("point_memory"), say("memory_words"), called, trampled, bool(called.results)),
        _point("checks", say("checks_words"), facts.rejected, say),
    )


def ranks(facts: OperatorSummary, say: Words) -> str:
    """The numbers of dimensions that cases have."""
    found = sorted(map(int, facts.by_rank))
    return say("dimensions", ranks=say("comma").join(map(str, found))) if found else say("none")


def _point(key: str, description: str, tally: TestPoint, say: Words) -> CheckedPoint:
    tested = tally.passed > 0 or bool(tally.bad)
    return CheckedPoint(say(f"point_{key}"), description, tally, tally.bad, tested)


def _listed(groups: Mapping[str, TestPoint], say: Words) -> str:
    return say("comma").join(f"{key} ({len(tally.results)})" for key, tally in groups.items()) or say("none")
