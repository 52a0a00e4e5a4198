"""A report written in any format, with what a baseline and the history add to it; JSON, CTRF and JUnit XML in pieces.

Every CI system reads one of the last two: CTRF is the Common Test Report Format (ctrf.io), JUnit has a suite per
operator and a testcase per result. A long report is never there as a whole.
"""

import hashlib
import json
import sys
import uuid
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import msgspec
from msgspec.structs import replace

from mluops_gtest.base.errors import HarnessError, HarnessWarning, UnwritableError, UsageError
from mluops_gtest.base.files import replace_file
from mluops_gtest.base.text import BRANCH, COMMIT, strip_controls, strip_values
from mluops_gtest.base.typed_files import Source
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import REPORT_KINDS, RunReport, TalliedResults, backend_of
from mluops_gtest.core.result import CaseResult, format_worst
from mluops_gtest.results.folder import CAUSES, REPORT, RESULTS, RUN
from mluops_gtest.results.records import head_to_json, report_from_json, report_to_json, result_to_json

if TYPE_CHECKING:
    from mluops_gtest.core.report import ReportFormat
    from mluops_gtest.results.history import CaseTrend

    _Past = tuple[CaseTrend, ...] | None
_Transitions = Mapping[str, str] | None
# What the page and the table have room for.
_MAX_RUNS = 40


def render(
    report: RunReport, form: str, lang: str = "en", transitions: _Transitions = None, past: "_Past" = None
) -> Iterable[str]:
    """The text of the report in pieces, so that a long one need never be there as a whole."""
    module, _, function = REPORT_KINDS.get(form, REPORT_KINDS["json"]).renderer.partition(":")
    renderer = getattr(import_module(f"mluops_gtest.results.reports.{module}"), function)
    pieces: Iterable[str] = renderer(report, transitions, lang, past)
    return pieces


def html_pieces(report: RunReport, transitions: _Transitions, lang: str, past: "_Past") -> list[str]:
    """The page for the browser."""
    from mluops_gtest.results.reports.html import render_html

    history = None if past is None else {trend.case: trend.story for trend in past}
    return [render_html(report, lang=lang, transitions=transitions, history=history)]


def json_pieces(report: RunReport, transitions: _Transitions, _lang: str, past: "_Past") -> Iterator[str]:
    """report.json with a summary made anew, and what was asked for beside it."""
    document = head_to_json(report) | {"results": []}
    if transitions is not None:
        document["transitions"] = dict(transitions)
    if past is not None:
        document["history"] = {trend.case: trend.to_json() for trend in past}
    return stream_json_list(document, ("results",), map(result_to_json, report.results))


def find_transitions(report: RunReport, baseline: Path) -> dict[str, str]:
    """How every case changed since the baseline, including those without a result."""
    from mluops_gtest.results.gate import transition
    from mluops_gtest.results.gate_request import read_reference

    before = {case: known.outcome for case, known in read_reference(baseline).cases.items()}
    now = {result.case: result.outcome for result in report.results}
    return {case: transition(before.get(case), now.get(case)).value for case in sorted(before | now)}


def read_past(report: RunReport, file: Path | None) -> "_Past":
    """How the cases of this report went in the newest runs on its backend.

    Without a file: what the history says that the commands use by default, where it holds this run, else None.
    """
    from mluops_gtest.results.history import History, history_path

    path = history_path(file)
    if file is None and not path.is_file():
        return None
    cases, backend = {result.case for result in report.results}, backend_of(report)
    with History(path) as history:
        runs = history.runs(backend=backend)
        if file is None and (report.started, report.seconds) not in [(run.started, run.seconds) for run in runs]:
            return None
        return tuple(trend for trend in history.trends(runs[-_MAX_RUNS:]) if trend.case in cases)


def find_past(report: RunReport) -> "_Past":
    """What the default history says of this run; None with a warning where it cannot be read, since nobody named it."""
    try:
        return read_past(report, None)
    except HarnessError as error:
        warnings.warn(HarnessWarning(f"the page has no trends: {error}"), stacklevel=2)
        return None


def write(pieces: Iterable[str], file: Path | None) -> None:
    """Write to the file, all of it or nothing, or to standard output; always in UTF-8."""
    data = (piece.encode() for piece in pieces)
    if file is None:
        sys.stdout.buffer.writelines(data)
        sys.stdout.buffer.flush()
    else:
        replace_file(file, data)


def check_reports(reports: "Mapping[ReportFormat, str]", results: Path) -> None:
    """Refuse, before anything runs, files of a run that cannot be written; `results` is the run's folder."""
    seen = {(results / name).resolve(): f"the run's own {name}" for name in (RUN, RESULTS, REPORT, CAUSES)}
    for form, name in reports.items():
        path = Path(name)
        if not path.parent.is_dir():
            raise UsageError(f"--{form} {name}: there is no folder {path.parent}; make it, or name another file.")
        if path.resolve() in seen:
            raise UsageError(f"--{form} {name} is {seen[path.resolve()]}; name another file.")
        seen[path.resolve()] = f"the file of --{form}"


def write_reports(report: RunReport, reports: "Mapping[ReportFormat, str]") -> Iterator[UnwritableError]:
    """Write the reports that the run asked for; if one cannot be written, the others still are."""
    if not reports:
        return
    # With the digits that report.json keeps, so that `report` writes the same later; results that lie in a file have.
    source = Source(REPORT, "")
    if isinstance(report.results, TalliedResults):
        head = report_from_json(head_to_json(report) | {"results": [], "summary": None}, source)
        stored = replace(head, results=report.results)
    else:
        stored = report_from_json(report_to_json(report), source)
    for form, name in reports.items():
        try:
            write(render(stored, form), Path(name))
        except UnwritableError as error:
            yield error


def _indent_json(value: Any, *, is_plain: bool) -> str:
    """The value with a line per item; `is_plain`: every text in it fit to be shown."""
    text = json.dumps(value, allow_nan=False)
    # What is unfit is written as an escape, or is the one character of ASCII that is not.
    if is_plain and any(sign in text for sign in ("\\u", "\\r", "\x7f")):
        text = json.dumps(strip_values(value), allow_nan=False)
    # json.dumps itself does this ten times slower.
    return msgspec.json.format(text, indent=1)


def stream_json_list(
    document: Any, place: tuple[str, ...], items: Iterable[Any], *, is_plain: bool = False
) -> Iterator[str]:
    """The document with these items in the empty list at `place`; only one of them is there at a time."""
    margin = "\n" + " " * len(place)
    head, empty, rest = _indent_json(document, is_plain=is_plain).partition(f'{margin}"{place[-1]}": []')
    assert empty, "the document has the list"
    yield head + empty[:-1]
    end = "]"
    for number, item in enumerate(items):
        lines = _indent_json(item, is_plain=is_plain).replace("\n", f"{margin} ")
        yield f"{',' if number else ''}{margin} {lines}"
        end = f"{margin}]"
    yield f"{end}{rest}\n"


def details(result: CaseResult) -> str:
    """All that is known of a result that did not pass, one thing a line."""
    lines = [result.reason] if result.reason else []
    if result.status is not result.expected_status:
        named = [status.name if status is not None else "none" for status in (result.status, result.expected_status)]
        lines.append("status {}, expected {}".format(*named))
    if result.worst is not None:
        lines.append(format_worst(result))
    lines += [
        f"{r.output}: {r.criterion} = {r.value:.6g}, threshold {r.threshold:g}" for r in result.readings if not r.within
    ]
    lines += [f"attempt {number}: {a.outcome.value} {a.reason}".rstrip() for number, a in enumerate(result.attempts, 1)]
    lines += result.notes
    known = {name: getattr(result, name) for name in ("fingerprint", "repro", "debug")}
    lines += [f"{name}: {value}" for name, value in known.items() if value]
    return strip_controls("\n".join(lines))


# Of the published JSON schema that the document is valid against.
SPEC_VERSION = "0.0.0"
# What the fields of the format do not hold, in the words of report.json.
_EXTRA = ("readings", "worst", "status", "expected_status", "fingerprint", "seconds", "repro", "perf")


def render_ctrf(report: RunReport, transitions: _Transitions, *_: object) -> Iterator[str]:
    """The CTRF document in pieces; `transitions` (case → word) go into `extra` of each test."""
    start = round(datetime.fromisoformat(report.started).timestamp() * 1000)
    outcomes = {Outcome.named(word): count for word, count in report.summary.items()}
    statuses: Counter[str] = Counter()
    for outcome, count in outcomes.items():
        statuses[_ctrf_status(outcome)] += count
    labels = {"labels": dict(report.labels)} if report.labels else {}
    values = {} if report.reseed is None else {"reseed": report.reseed, "fixed": report.fixed}
    # What the format has fields for; all labels are in `extra`.
    source = {"commit": report.labels.get(COMMIT), "branchName": report.labels.get(BRANCH)}
    document = {
        "reportFormat": "CTRF",
        "specVersion": SPEC_VERSION,
        # The same report has the same id, however often it is written.
        "reportId": _report_id(report),
        "timestamp": report.started,
        "generatedBy": f"mluops-test {report.tool_version}",
        "results": {
            "tool": {"name": "mluops-test", "version": report.tool_version},
            "summary": {
                "tests": len(report.results),
                **{status: statuses[status] for status in ("passed", "failed", "skipped", "pending", "other")},
                "flaky": outcomes.get(Outcome.FLAKY, 0),
                "suites": len({result.operator for result in report.results}),
                "start": start,
                "stop": start + round(report.seconds * 1000),
                "duration": round(report.seconds * 1000),
                "extra": {"outcomes": report.summary, "interrupted": report.interrupted},
            },
            "tests": [],
            "environment": {
                "appName": backend_of(report),
                "osPlatform": str(report.environment.get("platform", "")),
                **{name: value for name, value in source.items() if value is not None},
                "extra": {"backend": dict(report.backend), **report.environment, **labels, **values},
            },
        },
    }
    tests = (_ctrf_test(result, (transitions or {}).get(result.case, "")) for result in report.results)
    return stream_json_list(document, ("results", "tests"), tests, is_plain=True)


def _report_id(report: RunReport) -> str:
    digest = hashlib.sha256(msgspec.json.encode(head_to_json(report)))
    for result in report.results:
        try:
            digest.update(msgspec.json.encode(result))
        except UnicodeEncodeError:
            # A text has half a surrogate pair, which UTF-8 cannot say.
            digest.update(json.dumps(result_to_json(result)).encode())
    return str(uuid.uuid5(uuid.NAMESPACE_OID, digest.hexdigest()))


def _ctrf_status(outcome: Outcome) -> str:
    """Whatever neither passed nor was left out has failed; `rawStatus` says how."""
    if outcome.blocks:
        return "failed"
    return "passed" if outcome is Outcome.PASSED else "skipped"


def _ctrf_test(result: CaseResult, transition: str) -> dict[str, Any]:
    # Nothing is said here of where and how outputs are wrong.
    record = result_to_json(replace(result, explained=(), profile=None))
    test: dict[str, Any] = {
        "name": result.case,
        "status": _ctrf_status(result.outcome),
        # Whole milliseconds is what the format has; `extra` keeps the seconds.
        "duration": round(result.seconds * 1000),
        "suite": [result.operator],
        "rawStatus": result.outcome.value,
        "tags": list(result.tags),
        "parameters": record["info"]["params"],
        "extra": {key: record[key] for key in _EXTRA if record[key] not in (None, "", [])},
    }
    if transition:
        test["extra"]["transition"] = transition
    if result.outcome is not Outcome.PASSED:
        test |= {"message": result.reason or result.outcome.value, "trace": details(result)}
    if result.attempts:
        test["retries"] = len(result.attempts) - 1
        # The last attempt is the test itself.
        test["retryAttempts"] = [
            {"attempt": number, "status": _ctrf_status(attempt.outcome), "message": attempt.reason}
            for number, attempt in enumerate(result.attempts[:-1], 1)
        ]
    if result.outcome is Outcome.FLAKY:
        test["flaky"] = True
    if result.output:
        test["stdout"] = strip_controls(result.output).splitlines()
    return test


class _TestcaseKey(NamedTuple):
    """What is asked of all results before the first one is written; the place is that in the report."""

    operator: str
    case: str
    place: int
    element: str | None
    seconds: float


def render_junit(report: RunReport, transitions: _Transitions, *_: object) -> Iterator[str]:
    """The XML document in pieces, one testcase at a time; `transitions` (case → word) go into the properties."""
    keys = [
        _TestcaseKey(r.operator, r.case, place, _junit_element(r.outcome), r.seconds)
        for place, r in enumerate(report.results)
    ]
    environment = {"tool_version": report.tool_version, "backend": report.backend.get("name"), **report.environment}
    environment |= {f"label.{name}": value for name, value in report.labels.items()}
    if report.reseed is not None:
        environment["reseed"] = report.reseed
    facts = [(name, str(value)) for name, value in environment.items() if isinstance(value, str | int | float)]
    # Without the zone, as the format has it: the run's clock is UTC.
    started = strip_controls(report.started.partition("+")[0])
    yield '<?xml version="1.0" encoding="UTF-8"?>\n'
    suites = tostring(Element("testsuites", {"name": "mluops-test", **_junit_counts(keys)}), encoding="unicode")
    yield suites if not keys else _opening_tag(suites)
    for operator, group in groupby(sorted(keys), key=lambda key: key.operator):
        members = tuple(group)
        suite = Element("testsuite", {"name": strip_controls(operator), **_junit_counts(members), "timestamp": started})
        yield "\n  " + _opening_tag(tostring(suite, encoding="unicode"))
        yield _render_inside_suite(_add_properties(suite, facts))
        for key in members:
            result = report.results[key.place]
            yield _render_inside_suite(_testcase(result, (transitions or {}).get(result.case, "")))
        yield "\n  </testsuite>"
    yield "\n</testsuites>\n" if keys else "\n"


def _opening_tag(element: str) -> str:
    return element.removesuffix(" />") + ">"


def _render_inside_suite(element: Element) -> str:
    """The element on lines of its own."""
    # Indentation adds white space between elements alone: where an element holds text, it stays as it is.
    indent(element, level=2)
    return "\n    " + tostring(element, encoding="unicode")


def _junit_counts(keys: Sequence[_TestcaseKey]) -> dict[str, str]:
    elements = Counter(key.element for key in keys)
    counts = {"failures": elements["failure"], "errors": elements["error"], "skipped": elements["skipped"]}
    texts = {name: str(count) for name, count in {"tests": len(keys), **counts}.items()}
    return {**texts, "time": f"{sum(key.seconds for key in keys):.6f}"}


def _testcase(result: CaseResult, transition: str) -> Element:
    names = {"classname": strip_controls(result.operator), "name": strip_controls(result.case)}
    case = Element("testcase", {**names, "time": f"{result.seconds:.6f}"})
    facts = [
        ("outcome", result.outcome.value),
        ("transition", transition),
        ("tags", " ".join(result.tags)),
        ("status", "" if result.status is None else result.status.name),
        ("expected_status", "" if result.expected_status is None else result.expected_status.name),
    ]
    for reading in result.readings:
        name = f"{reading.output}.{reading.criterion}"
        facts += [(name, f"{reading.value:.9g}"), (f"{name}.threshold", f"{reading.threshold:.9g}")]
    facts += [("fingerprint", result.fingerprint), ("host", result.host), ("repro", result.repro)]
    _add_properties(case, [(name, value) for name, value in facts if value])
    element = _junit_element(result.outcome)
    if element is not None:
        message = strip_controls(result.reason) or result.outcome.value
        child = SubElement(case, element, {"type": result.outcome.value, "message": message})
        child.text = details(result)
    if result.output:
        SubElement(case, "system-out").text = strip_controls(result.output)
    return case


def _junit_element(outcome: Outcome) -> str | None:
    """The element inside the testcase; a passed one has none."""
    if outcome.blocks:
        return "error" if outcome.has_no_answer else "failure"
    return None if outcome is Outcome.PASSED else "skipped"


def _add_properties(parent: Element, facts: Iterable[tuple[str, str]]) -> Element:
    properties = SubElement(parent, "properties")
    for name, value in facts:
        SubElement(properties, "property", {"name": strip_controls(name), "value": strip_controls(value)})
    return properties
