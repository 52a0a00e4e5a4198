"""Results to JSON and back: one line per result while running, one report at the end."""

import json
import math
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Any, Final, Literal, get_args

import msgspec
from msgspec import field
from msgspec.structs import fields, replace

from mluops_gtest.base.errors import ContentError, repr_short
from mluops_gtest.base.typed_files import Source, convert, decode_json
from mluops_gtest.core.call import Status
from mluops_gtest.core.cause import Cause
from mluops_gtest.core.report import FORMAT, RunReport
from mluops_gtest.core.result import CaseResult, ElementReading
from mluops_gtest.results.checks import check_result

# JSON has no such numbers.
_NUMBERS: Final = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_ERRORS: Final = ("backend_error", "backend_ulp", "baseline_error", "baseline_ulp")
_LISTS: Final = ("tags", "readings", "notes", "attempts")
_KINDS: Final = {kind.__struct_config__.tag for kind in get_args(Cause)}
_STATUSES: Final = {status.name: status.value for status in Status}


def result_to_json(result: CaseResult) -> dict[str, Any]:
    """A result as plain JSON values; statuses go by name, NaN and infinities are words."""
    record: dict[str, Any] = msgspec.to_builtins(result)
    # For people and for programs that know no causes; nothing here reads it back where there are causes.
    record["reason"] = result.reason
    for attempt, tried in zip(record["attempts"], result.attempts, strict=True):
        attempt["reason"] = tried.reason
        attempt["causes"] = _causes(attempt["causes"])
    record["causes"] = _causes(record["causes"])
    record["status"] = None if result.status is None else result.status.name
    record["expected_status"] = None if result.expected_status is None else result.expected_status.name
    record["seconds"] = round(result.seconds, 9)
    for key in _LISTS:
        record[key] = list(record[key])
    for reading in record["readings"]:
        reading["value"] = _word(reading["value"])
        reading["threshold"] = _word(reading["threshold"])
    record["elements"] = [_worded(reading) for reading in record["elements"]]
    record["arbitrated"] = [
        {**_worded(found), "examples": [_worded(example) for example in found["examples"]]}
        for found in record["arbitrated"]
    ]
    # What there is not is left out, as it was before results could have it; device 0 is one.
    for name in ("elements", "arbitrated", "stress", "explained", "host", "device", "judged_by"):
        if record[name] != 0 and not record[name]:
            del record[name]
    if result.perf is not None and result.perf.overhead_ns is None:
        # As it was written before that was measured: a report keeps its digest in the history.
        del record["perf"]["overhead_ns"]
    if record["profile"] is not None:
        cells = record["profile"]["cells"]
        record["profile"]["cells"] = list(cells) if all(map(math.isfinite, cells)) else list(map(_word, cells))
    params = record["info"]["params"]
    record["info"]["params"] = {name: _words(value) for name, value in params.items()}
    return record


def report_to_json(report: RunReport) -> dict[str, Any]:
    """The whole report as plain JSON values."""
    return {**head_to_json(report), "results": [result_to_json(result) for result in report.results]}


def head_to_json(report: RunReport) -> dict[str, Any]:
    """All but the results; a report without labels and shapes is written as before there were any."""
    labels = {"labels": dict(report.labels)} if report.labels else {}
    return {
        "format": FORMAT,
        "tool_version": report.tool_version,
        "backend": dict(report.backend),
        "environment": dict(report.environment),
        "selection": dict(report.selection),
        "started": report.started,
        "seconds": round(report.seconds, 6),
        "timing": {phase: round(seconds, 6) for phase, seconds in report.timing.items()},
        "interrupted": report.interrupted,
        **labels,
        **({"shapes": {name: dict(shapes) for name, shapes in report.shapes.items()}} if report.shapes else {}),
        "summary": report.summary,
    }


def sorted_json(report: RunReport, separators: tuple[str, str]) -> Iterator[str]:
    """`report_to_json` as one line with sorted keys, in pieces; for digests, which stay what they are."""
    between, colon = separators
    encode = json.JSONEncoder(sort_keys=True, separators=separators).encode
    document = head_to_json(report) | {"results": []}
    for number, key in enumerate(sorted(document)):
        yield f"{between if number else '{'}{encode(key)}{colon}"
        if key != "results":
            yield encode(document[key])
            continue
        yield "["
        for place, result in enumerate(report.results):
            yield (between if place else "") + encode(result_to_json(result))
        yield "]"
    yield "}"


def _causes(causes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Causes with words for what JSON has no number for."""
    for cause in causes:
        for excess in cause["criteria"] if cause["kind"] == "exceeded" else ():
            excess |= {key: _word(excess[key]) for key in ("value", "threshold")}
    return list(causes)


def _worded(record: dict[str, Any]) -> dict[str, Any]:
    return {name: _word(value) if isinstance(value, float) else value for name, value in record.items()}


def _word(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _words(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_words(item) for item in value]
    return _word(value) if isinstance(value, float) else value


def result_from_json(record: Any, source: Source) -> CaseResult:
    """The result that `result_to_json` wrote; ContentError names the place of what is none, and the case."""
    if isinstance(record, dict) and isinstance(record.get("case"), str):
        source = Source(f"{source.file}: case {repr_short(record['case'])}", source.remedy, source.at)
        _read_words(record)
    result = convert(record, CaseResult, source)
    from mluops_gtest.results.checks import check_result  # late: who writes results does not check them

    check_result(result, source)
    return result


def report_from_json(record: Any, source: Source) -> RunReport:
    """The report that `report_to_json` wrote; ContentError names the place of what is none."""
    if not isinstance(record, dict) or "results" not in record:
        raise source.error("not a report of mluops-test: it must be an object with `format` and `results`")
    if record.get("format") != FORMAT:
        raise source.error(f"format {repr_short(record.get('format'))}; this version reads format {FORMAT}")
    head = convert({**record, "results": []}, RunReport, source)
    records = convert(record["results"], list[Any], replace(source, at="$.results"))
    results = tuple(
        result_from_json(result, Source(source.file, source.remedy, f"$.results[{index}]"))
        for index, result in enumerate(records)
    )
    return with_results(head, results, record.get("summary"), source)


def with_results(head: RunReport, results: Sequence[CaseResult], summary: Any, source: Source) -> RunReport:
    """The report of these results, checked as a whole; `summary` is what the file says of them."""
    report = replace(head, results=results)
    from mluops_gtest.results.checks import check_report

    check_report(report, summary, source)
    return report


def _read_words(record: dict[str, Any]) -> None:
    """Words become what the types hold; what is no such word stays, and is told as what it is."""
    for key in ("status", "expected_status"):
        word = record.get(key)
        if word is not None:
            # A number is no status in a results file, so it must not be taken for one.
            record[key] = _STATUSES.get(word, word) if isinstance(word, str) else f"{repr_short(word)}"
    for reading in (*_objects(record.get("readings")), *_objects(record.get("elements"))):
        for key in ("value", "threshold", "ratio", "allowed"):
            if isinstance(reading.get(key), str):
                reading[key] = _NUMBERS.get(reading[key], reading[key])
    for found in _objects(record.get("arbitrated")):
        for one in (found, *_objects(found.get("examples"))):
            one |= {key: _NUMBERS.get(one[key], one[key]) for key in _ERRORS if isinstance(one.get(key), str)}
    for told in (record, *_objects(record.get("attempts"))):
        _read_causes(told)
    for profile in _objects([record.get("profile")]):
        if isinstance(profile.get("cells"), list):
            profile["cells"] = [_NUMBERS.get(c, c) if isinstance(c, str) else c for c in profile["cells"]]


def _read_causes(told: dict[str, Any]) -> None:
    """The causes of a result or of an attempt; one of an earlier version, or of a kind from a later one, has words."""
    causes, reason = told.setdefault("causes", []), told.get("reason")
    unknown = any(cause.get("kind") not in _KINDS for cause in _objects(causes))
    if reason and (causes == [] or unknown):
        causes = told["causes"] = [{"kind": "told", "text": reason}]
    for cause in _objects(causes):
        for excess in _objects(cause.get("criteria")):
            excess |= {key: _NUMBERS.get(word, word) for key, word in excess.items() if isinstance(word, str)}


def _objects(items: Any) -> Iterator[dict[str, Any]]:
    if isinstance(items, list):
        yield from (item for item in items if isinstance(item, dict))


def _twin(kind: type[Any], **other: tuple[Any, Any]) -> Any:
    """The same open to changes; other fields with type and default."""
    known = [(one.name, one.type, field(default=one.default)) for one in fields(kind) if one.name not in other]
    further = [(name, *rest) for name, rest in other.items()]
    return msgspec.defstruct(f"Written{kind.__name__}", [*known, *further], kw_only=True, gc=False)


# As lines have it: statuses go by name, a reason stands beside its causes, and an infinite ratio is a word.
_WrittenElement: Final = _twin(ElementReading, ratio=(float | Literal["inf"], field()))
_Written: Final = _twin(
    CaseResult,
    elements=(tuple[_WrittenElement, ...], ()),  # type: ignore[valid-type]
    status=(str | None, None),
    expected_status=(str | None, None),
    reason=(str, ""),
)
_DECODER: Final = msgspec.json.Decoder(_Written)
_OF_ELEMENT: Final = attrgetter(*ElementReading.__struct_fields__)
_OF_RESULT: Final = attrgetter(*CaseResult.__struct_fields__)
_STATUSES_BY_NAME: Final[dict[str | None, Status | None]] = {None: None, **{status.name: status for status in Status}}
# A word for what JSON has no number for, a cause of a later version, or a mistake, which is told on the long way.
_NOT_AS_IT_STANDS: Final = (msgspec.MsgspecError, KeyError, ValueError, RecursionError, ContentError)


class ResultReader:
    """Reads results one after the other."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def read(self, line: bytes) -> CaseResult:
        """The result that the line holds; ContentError names the place of what is none, and the case."""
        try:
            result = _typed(line)
            check_result(result, self._source)
        except _NOT_AS_IT_STANDS:
            return self._the_long_way(line)
        return result

    def read_again(self, line: bytes) -> CaseResult:
        """The result in a line that is known to hold one."""
        try:
            return _typed(line)
        except _NOT_AS_IT_STANDS:
            return self._the_long_way(line)

    def _the_long_way(self, line: bytes) -> CaseResult:
        return result_from_json(decode_json(line, self._source), self._source)


def _typed(line: bytes) -> CaseResult:
    written = _DECODER.decode(line)
    if written.attempts or (written.reason and not written.causes):
        raise KeyError("causes in words")
    written.status = _STATUSES_BY_NAME[written.status]
    written.expected_status = _STATUSES_BY_NAME[written.expected_status]
    if written.elements:
        written.elements = tuple(map(_element, written.elements))
    return CaseResult(*_OF_RESULT(written))


def _element(written: Any) -> ElementReading:
    written.ratio = float(written.ratio)
    return ElementReading(*_OF_ELEMENT(written))
