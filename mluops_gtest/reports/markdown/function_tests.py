"""Section 2: per operator, how many cases test each point and what came out."""

from collections.abc import Iterator, Mapping

from mluops_gtest.model.report import RunReport
from mluops_gtest.model.result import CaseResult
from mluops_gtest.reports.markdown.operator_summary import OperatorSummary
from mluops_gtest.reports.markdown.points import CheckedPoint, checked_points
from mluops_gtest.reports.markdown.syntax import code, table
from mluops_gtest.reports.markdown.translations import Words

_MAX_NAMED = 3


def function_tests(report: RunReport, by_operator: Mapping[str, OperatorSummary], say: Words) -> Iterator[str]:
    """A table per operator."""
    head = [say(key) for key in ("point", "description", "cases", "result", "remarks")]
    for operator, facts in by_operator.items():
        yield f"### {code(operator)}"
        yield ""
        whole = CheckedPoint(say("all_cases"), "", facts.all, facts.all.bad, bool(facts.results))
        points = (*checked_points(facts, report, say), whole)
        yield from table(head, (_row(point, say) for point in points), right=[2])


def _row(point: CheckedPoint, say: Words) -> list[str]:
    count = str(len(point.tally.results)) if point.tested else "0"
    return [point.name, point.description, count, _result(point, say), _remarks(point, say)]


def _result(point: CheckedPoint, say: Words) -> str:
    if not point.tested:
        return say("not_tested")
    return say("bad", count=len(point.bad)) if point.bad else say("ok")


def _remarks(point: CheckedPoint, say: Words) -> str:
    words = [named(point.bad, _MAX_NAMED, say)] if point.bad else []
    if point.tested and point.tally.left_out:
        words.append(say("left_out", count=point.tally.left_out))
    return say("semicolon").join(words)


def named(results: tuple[CaseResult, ...], most: int, say: Words) -> str:
    """The first so many cases by name, and how many more there are."""
    names = [code(result.case) for result in results[:most]]
    if len(results) > most:
        names.append(say("and_more", count=len(results) - most))
    return say("comma").join(names)
