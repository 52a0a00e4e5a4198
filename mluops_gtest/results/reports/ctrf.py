"""JSON in pieces, and the report in the Common Test Report Format (ctrf.io)."""

import hashlib
import json
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from mluops_gtest.base.text import BRANCH, COMMIT, strip_controls, strip_values
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import RunReport
from mluops_gtest.core.result import CaseResult
from mluops_gtest.results.records import head_to_json, result_to_json
from mluops_gtest.results.reports.text import details


def indented(value: Any, *, plain: bool = False) -> str:
    """The value with a line per item; `plain`: every text in it fit to be shown."""
    text = json.dumps(value, allow_nan=False)
    # What is unfit is written as an escape, or is the one character of ASCII that is not.
    if plain and any(sign in text for sign in ("\\u", "\\r", "\x7f")):
        text = json.dumps(strip_values(value), allow_nan=False)
    # json.dumps itself does this ten times slower.
    return msgspec.json.format(text, indent=1)


def with_items(document: Any, place: tuple[str, ...], items: Iterable[Any], *, plain: bool = False) -> Iterator[str]:
    """The document with these items in the empty list at `place`; only one of them is there at a time."""
    level = len(place)
    margin = "\n" + " " * level
    head, empty, rest = indented(document, plain=plain).partition(f'{margin}"{place[-1]}": []')
    assert empty, "the document has the list"
    yield head + empty[:-1]
    end = "]"
    for number, item in enumerate(items):
        yield ("," if number else "") + f"{margin} " + indented(item, plain=plain).replace("\n", f"{margin} ")
        end = f"{margin}]"
    yield f"{end}{rest}\n"


# Of the published JSON schema that the document is valid against.
SPEC_VERSION = "0.0.0"
# What the fields of the format do not hold, in the words of report.json.
_EXTRA = ("readings", "worst", "status", "expected_status", "fingerprint", "seconds", "repro", "perf")


def render_ctrf(report: RunReport, transitions: Mapping[str, str] | None = None) -> str:
    """The JSON document; `transitions` (case → word) go into `extra` of each test."""
    return "".join(ctrf_pieces(report, transitions))


def ctrf_pieces(report: RunReport, transitions: Mapping[str, str] | None = None) -> Iterator[str]:
    """The same in pieces."""
    start = round(datetime.fromisoformat(report.started).timestamp() * 1000)
    outcomes = {Outcome.named(word): count for word, count in report.summary.items()}
    statuses: Counter[str] = Counter()
    for outcome, count in outcomes.items():
        statuses[_status(outcome)] += count
    labels = {"labels": dict(report.labels)} if report.labels else {}
    values = {} if report.reseed is None else {"reseed": report.reseed, "fixed": report.fixed}
    # What the format has fields for; all labels are in `extra`.
    source = {"commit": report.labels.get(COMMIT), "branchName": report.labels.get(BRANCH)}
    document = {
        "reportFormat": "CTRF",
        "specVersion": SPEC_VERSION,
        # The same report has the same id, however often it is written.
        "reportId": _identity(report),
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
                "appName": str(report.backend.get("name", "")),
                "osPlatform": str(report.environment.get("platform", "")),
                **{name: value for name, value in source.items() if value is not None},
                "extra": {"backend": dict(report.backend), **report.environment, **labels, **values},
            },
        },
    }
    tests = (_test(result, (transitions or {}).get(result.case, "")) for result in report.results)
    return with_items(document, ("results", "tests"), tests, plain=True)


def _identity(report: RunReport) -> str:
    digest = hashlib.sha256(msgspec.json.encode(head_to_json(report)))
    for result in report.results:
        digest.update(_bytes(result))
    return str(uuid.uuid5(uuid.NAMESPACE_OID, digest.hexdigest()))


def _bytes(result: CaseResult) -> bytes:
    try:
        return msgspec.json.encode(result)
    except UnicodeEncodeError:
        # A text has half a surrogate pair, which UTF-8 cannot say.
        return json.dumps(result_to_json(result)).encode()


def _status(outcome: Outcome) -> str:
    """Whatever neither passed nor was left out has failed; `rawStatus` says how."""
    if outcome.blocks:
        return "failed"
    return "passed" if outcome is Outcome.PASSED else "skipped"


def _test(result: CaseResult, transition: str) -> dict[str, Any]:
    # Nothing is said here of where and how outputs are wrong.
    record = result_to_json(replace(result, explained=(), profile=None))
    test: dict[str, Any] = {
        "name": result.case,
        "status": _status(result.outcome),
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
            {"attempt": number, "status": _status(attempt.outcome), "message": attempt.reason}
            for number, attempt in enumerate(result.attempts[:-1], 1)
        ]
    if result.outcome is Outcome.FLAKY:
        test["flaky"] = True
    if result.output:
        test["stdout"] = strip_controls(result.output).splitlines()
    return test
