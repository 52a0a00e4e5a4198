"""The report as JUnit XML, which every CI system reads: a suite per operator, a testcase per result."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from mluops_gtest.base.text import strip_controls
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import RunReport
from mluops_gtest.core.result import CaseResult
from mluops_gtest.results.reports.text import details


def render_junit(report: RunReport, transitions: Mapping[str, str] | None = None) -> str:
    """The XML document; `transitions` (case → word) go into the properties."""
    return "".join(junit_pieces(report, transitions))


def junit_pieces(report: RunReport, transitions: Mapping[str, str] | None = None) -> Iterator[str]:
    """The same in pieces, one testcase at a time."""
    known = [
        _Known(r.operator, r.case, place, _element(r.outcome), r.seconds) for place, r in enumerate(report.results)
    ]
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    yield _opened(Element("testsuites", {"name": "mluops-test", **_counts(known)}), closed=not known)
    for operator, group in groupby(sorted(known), key=lambda one: one.operator):
        yield from _suite(operator, tuple(group), report, transitions or {})
    yield "\n</testsuites>\n" if known else "\n"


class _Known(NamedTuple):
    """What is asked of all results before the first one is written."""

    operator: str
    case: str
    place: int
    element: str | None
    seconds: float


def _suite(operator: str, known: Sequence[_Known], report: RunReport, transitions: Mapping[str, str]) -> Iterator[str]:
    # Without the zone, as the format has it: the run's clock is UTC.
    started = report.started.partition("+")[0]
    suite = Element(
        "testsuite", {"name": strip_controls(operator), **_counts(known), "timestamp": strip_controls(started)}
    )
    yield "\n  " + _opened(suite)
    environment = {"tool_version": report.tool_version, "backend": report.backend.get("name"), **report.environment}
    environment |= {f"label.{name}": value for name, value in report.labels.items()}
    if report.reseed is not None:
        environment["reseed"] = report.reseed
    plain_facts = ((name, value) for name, value in environment.items() if isinstance(value, str | int | float))
    yield _written(_properties(suite, ((name, str(value)) for name, value in plain_facts)))
    for one in known:
        result = report.results[one.place]
        yield _written(_testcase(result, transitions.get(result.case, "")))
    yield "\n  </testsuite>"


def _opened(element: Element, *, closed: bool = False) -> str:
    """The tag that opens the element, which holds nothing yet."""
    tag = tostring(element, encoding="unicode")
    return tag if closed else tag.removesuffix(" />") + ">"


def _written(element: Element) -> str:
    """The element inside of a suite, on lines of its own."""
    # Indentation adds white space between elements alone: where an element holds text, it stays as it is.
    indent(element, level=2)
    return "\n    " + tostring(element, encoding="unicode")


def _counts(known: Sequence[_Known]) -> dict[str, str]:
    elements = [one.element for one in known]
    return {
        "tests": str(len(known)),
        "failures": str(elements.count("failure")),
        "errors": str(elements.count("error")),
        "skipped": str(elements.count("skipped")),
        "time": f"{sum(one.seconds for one in known):.6f}",
    }


def _testcase(result: CaseResult, transition: str) -> Element:
    case = Element(
        "testcase",
        {
            "classname": strip_controls(result.operator),
            "name": strip_controls(result.case),
            "time": f"{result.seconds:.6f}",
        },
    )
    _properties(case, _facts(result, transition))
    element = _element(result.outcome)
    if element is not None:
        message = strip_controls(result.reason) or result.outcome.value
        child = SubElement(case, element, {"type": result.outcome.value, "message": message})
        child.text = details(result)
    if result.output:
        SubElement(case, "system-out").text = strip_controls(result.output)
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


def _properties(parent: Element, facts: Iterator[tuple[str, str]]) -> Element:
    properties = SubElement(parent, "properties")
    for name, value in facts:
        SubElement(properties, "property", {"name": strip_controls(name), "value": strip_controls(value)})
    return properties
