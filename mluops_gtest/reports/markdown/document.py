"""The test report that teams file with a change, filled in from the results."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from mluops_gtest.content.root import BUILTIN, recorded_roots
from mluops_gtest.model.report import RunReport, TalliedResults
from mluops_gtest.model.result import CaseResult
from mluops_gtest.reports.markdown.changes import against, over_time
from mluops_gtest.reports.markdown.conclusions import conclusions
from mluops_gtest.reports.markdown.function_tests import function_tests
from mluops_gtest.reports.markdown.operator_summary import OperatorSummary
from mluops_gtest.reports.markdown.performance import performance
from mluops_gtest.reports.markdown.requirements import (
    accuracy_standard,
    change,
    checklist,
    feature_tests,
    parameter_checks,
)
from mluops_gtest.reports.markdown.syntax import code, text
from mluops_gtest.reports.markdown.translations import Words, words
from mluops_gtest.results.history.trends import CaseTrend
from mluops_gtest.timing.performance import timed_results


def render_markdown(
    report: RunReport,
    *,
    lang: str = "en",
    transitions: Mapping[str, str] | None = None,
    history: Sequence[CaseTrend] | None = None,
    device: Mapping[str, Any] | None = None,
) -> str:
    """The document; `device` describes bandwidth and peak, `transitions` are case → word."""
    say = words(lang)
    if isinstance(report.results, TalliedResults):
        # It goes through them many times, and has no room for all of them.
        report = replace(report, results=tuple(map(_asked_of, report.results)))
    return "\n".join(_lines(report, transitions, history, device, say)).rstrip("\n") + "\n"


def _asked_of(result: CaseResult) -> CaseResult:
    """The result without what the document never says."""
    info, repro = replace(result.info, doc=""), result.repro if result.outcome.blocks else ""
    return replace(result, profile=None, worst=None, repro=repro, notes=(), output="", info=info)


def _lines(
    report: RunReport,
    transitions: Mapping[str, str] | None,
    history: Sequence[CaseTrend] | None,
    device: Mapping[str, Any] | None,
    say: Words,
) -> Iterator[str]:
    names = sorted({result.operator for result in report.results})
    by_operator = {name: OperatorSummary(tuple(r for r in report.results if r.operator == name)) for name in names}
    yield f"# {say('title', operators=say('comma').join(map(text, names)) or say('none'))}"
    yield ""
    yield say("made", version=report.tool_version, started=report.started, backend=code(str(report.backend["name"])))
    yield ""
    if report.labels:
        labels = (f"{text(name)} {code(value)}" for name, value in report.labels.items())
        yield from (say("labels", labels=say("comma").join(labels)), "")
    roots, settings = recorded_roots(report.selection), report.environment.get("settings")
    if roots != [BUILTIN]:
        yield from (say("roots", roots=say("comma").join(map(code, roots))), "")
    if settings:
        yield from (say("settings_file", file=code(settings)), "")
    if report.reseed is not None:
        yield say("reseeded", number=report.reseed, fixed=report.fixed)
        yield ""
    yield from _section("change", change(by_operator, say), say)
    yield from _section("standard", accuracy_standard(by_operator, say), say, level=3)
    described = str(device.get("name", "")) if device else ""
    yield from _section("checklist", checklist(report, by_operator, described, say), say, level=3)
    yield from _section("features", feature_tests(OperatorSummary(tuple(report.results)), report, say), say, level=3)
    yield from _section("checks", parameter_checks(by_operator, say), say, level=3)
    yield from _section("function", function_tests(report, by_operator, say), say)
    timed = timed_results(report, device)
    yield from _section("performance", performance(timed, device, say), say)
    yield from _section("conclusions", conclusions(report, timed, say), say)
    if transitions is not None:
        yield from _section("against", against(transitions, say), say, level=3)
    if history is not None:
        yield from _section("history", over_time(history, say), say, level=3)


def _section(key: str, body: Iterator[str], say: Words, *, level: int = 2) -> Iterator[str]:
    yield f"{'#' * level} {say(key)}"
    yield ""
    yield from body
