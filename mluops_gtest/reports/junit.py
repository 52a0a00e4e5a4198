"""The report as JUnit XML, which every CI system reads: a suite per operator, a testcase per result."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from mluops_gtest.model.plain_text import plain
from mluops_gtest.model.report import RunReport
from mluops_gtest.model.result import CaseResult, Outcome
from mluops_gtest.reports.plain_text import details


def render_junit(report: RunReport, transitions: Mapping[str, str] | None = None) -> str:
    """The XML document; `transitions` (case → word) go into the properties."""
    root = Element("testsuites", {"name": "mluops-test", **_counts(report.results)})
    ordered = sorted(report.results, key=lambda result: (result.operator, result.case))
    for operator, group in groupby(ordered, key=lambda result: result.operator):
        root.append(_suite(operator, tuple(group), report, transitions or {}))
    # Indentation adds white space between elements alone: where an element holds text, it stays as it is.
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _suite(
    operator: str, results: tuple[CaseResult, ...], report: RunReport, transitions: Mapping[str, str]
) -> Element:
    # Without the zone, as the format has it: the run's clock is UTC.
    started = report.started.partition("+")[0]
    suite = Element("testsuite", {"name": plain(operator), **_counts(results), "timestamp": plain(started)})
    environment = {"tool_version": report.tool_version, "backend": report.backend.get("name"), **report.environment}
    environment |= {f"label.{name}": value for name, value in report.labels.items()}
    if report.reseed is not None:
        environment["reseed"] = report.reseed
    plain_facts = ((name, value) for name, value in environment.items() if isinstance(value, str | int | float))
    _properties(suite, ((name, str(value)) for name, value in plain_facts))
    for result in results:
        suite.append(_testcase(result, transitions.get(result.case, "")))
    return suite


def _counts(results: Sequence[CaseResult]) -> dict[str, str]:
    elements = [_element(result.outcome) for result in results]
    return {
        "tests": str(len(results)),
        "failures": str(elements.count("failure")),
        "errors": str(elements.count("error")),
        "skipped": str(elements.count("skipped")),
        "time": f"{sum(result.seconds for result in results):.6f}",
    }


def _testcase(result: CaseResult, transition: str) -> Element:
    case = Element(
        "testcase",
        {"classname": plain(result.operator), "name": plain(result.case), "time": f"{result.seconds:.6f}"},
    )
    _properties(case, _facts(result, transition))
    element = _element(result.outcome)
    if element is not None:
        message = plain(result.reason) or result.outcome.value
        child = SubElement(case, element, {"type": result.outcome.value, "message": message})
        child.text = details(result)
    if result.output:
        SubElement(case, "system-out").text = plain(result.output)
    return case


def _element(outcome: Outcome) -> str | None:
    """The element inside the testcase; a passed one has none."""
    if outcome is Outcome.PASSED:
        return None
    if not outcome.blocks:
        return "skipped"
    return "error" if outcome.has_no_answer else "failure"


def _facts(result: CaseResult, transition: str) -> Iterator[tuple[str, str]]:
    yield "outcome", result.outcome.value
    if transition:
        yield "transition", transition
    if result.tags:
        yield "tags", " ".join(result.tags)
    if result.status is not None:
        yield "status", result.status.name
    if result.expected_status is not None:
        yield "expected_status", result.expected_status.name
    for reading in result.readings:
        yield f"{reading.output}.{reading.criterion}", f"{reading.value:.9g}"
        yield f"{reading.output}.{reading.criterion}.threshold", f"{reading.threshold:.9g}"
    if result.fingerprint:
        yield "fingerprint", result.fingerprint
    if result.host:
        yield "host", result.host
    if result.repro:
        yield "repro", result.repro


def _properties(parent: Element, facts: Iterator[tuple[str, str]]) -> None:
    properties = SubElement(parent, "properties")
    for name, value in facts:
        SubElement(properties, "property", {"name": plain(name), "value": plain(value)})
