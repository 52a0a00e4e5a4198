"""Results to JSON and back: one line per result while running, one report at the end.

What has the right types and still cannot be is refused when it is read: no verdict may rest on it.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter, lt
from typing import Any, Final, Literal, NotRequired, TypedDict, get_args

import msgspec
from msgspec import field
from msgspec.structs import fields, replace

from mluops_gtest.base.errors import ContentError, repr_short
from mluops_gtest.base.text import ANY_NAME
from mluops_gtest.base.typed_files import MAX_INTEGER, Source, convert, decode_json, keep_plain
from mluops_gtest.core import explanation as laws
from mluops_gtest.core.call import Status
from mluops_gtest.core.case import Percentage, Query
from mluops_gtest.core.cause import Cause
from mluops_gtest.core.explanation import MAX_CELLS, MAX_STORED_SAMPLES, AxisSet, Explanation, Fitted, Where
from mluops_gtest.core.outcome import SIZELESS, Outcome
from mluops_gtest.core.report import FORMAT, RunReport, TalliedResults
from mluops_gtest.core.result import MAX_EXAMINED, MAX_EXAMPLES, CaseResult, ElementReading, StressReading
from mluops_gtest.core.tensor import PRECISIONS

# JSON has no such numbers.
_NUMBERS: Final = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_ERRORS: Final = ("backend_error", "backend_ulp", "baseline_error", "baseline_ulp")
# The fields of readings, elements, arbitrations and causes that may hold one.
_MAY_BE_WORDS: Final = {"value", "threshold", "ratio", "allowed", *_ERRORS}
_KINDS: Final = {kind.__struct_config__.tag for kind in get_args(Cause)}
_STATUSES: Final = {status.name: status.value for status in Status}


def result_to_json(result: CaseResult) -> dict[str, Any]:
    """A result as plain JSON values; statuses go by name, NaN and infinities are words."""
    record: dict[str, Any] = msgspec.to_builtins(result)
    # For people and for programs that know no causes; nothing here reads it back where there are causes.
    record["reason"] = result.reason
    for attempt, tried in zip(record["attempts"], result.attempts, strict=True):
        attempt["reason"] = tried.reason
    for name in ("status", "expected_status"):
        status: Status | None = getattr(result, name)
        record[name] = None if status is None else status.name
    record["seconds"] = round(result.seconds, 9)
    for name in ("tags", "readings", "notes", "attempts", "causes", "elements", "arbitrated"):
        record[name] = with_words(record[name])
    # What there is not is left out, as before results could have it: a report keeps its digest in the history.
    for name in ("elements", "arbitrated", "stress", "explained", "host", "device", "judged_by"):
        if record[name] != 0 and not record[name]:
            del record[name]
    for part, name in (("perf", "overhead_ns"), ("info", "arch")):
        if record[part] is not None and record[part][name] is None:
            del record[part][name]
    if record["profile"] is not None:
        cells = record["profile"]["cells"]
        record["profile"]["cells"] = list(cells) if all(map(math.isfinite, cells)) else with_words(cells)
    record["info"]["params"] = with_words(record["info"]["params"])
    return record


def with_words(value: Any) -> Any:
    """The value with words for what JSON has no number for, and lists for tuples."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, list | tuple):
        return [with_words(item) for item in value]
    return {key: with_words(item) for key, item in value.items()} if isinstance(value, dict) else value


def share_of_threshold(value: float, threshold: float) -> float:
    """A reading as a multiple of its threshold, of which 0 allows only 0; infinite where it is no number."""
    if math.isfinite(value) and (threshold > 0 or value <= 0):
        return value / threshold if threshold > 0 else 0.0
    return math.inf


def report_to_json(report: RunReport) -> dict[str, Any]:
    """The whole report as plain JSON values."""
    return {**head_to_json(report), "results": [result_to_json(result) for result in report.results]}


def head_to_json(report: RunReport) -> dict[str, Any]:
    """All but the results; a report without labels and shapes is written as before there were any."""
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
        **({"labels": dict(report.labels)} if report.labels else {}),
        **({"shapes": {name: dict(shapes) for name, shapes in report.shapes.items()}} if report.shapes else {}),
        "summary": report.summary,
    }


def result_from_json(record: Any, source: Source) -> CaseResult:
    """The result that `result_to_json` wrote; ContentError names the place of what is none, and the case."""
    if isinstance(record, dict) and isinstance(record.get("case"), str):
        source = Source(f"{source.file}: case {repr_short(record['case'])}", source.remedy, source.at)
        _replace_words(record)
    result = convert(record, CaseResult, source)
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
    check_report(report, summary, source)
    return report


def _replace_words(record: dict[str, Any]) -> None:
    """Put what the types hold for words; what is no such word stays, and is told as what it is."""
    for key in ("status", "expected_status"):
        word = record.get(key)
        if word is not None:
            # A number is no status in a results file, so it must not be taken for one.
            record[key] = _STATUSES.get(word, word) if isinstance(word, str) else f"{repr_short(word)}"
    for outcome in (record, *_objects(record.get("attempts"))):
        # Causes of an earlier version, or of a kind from a later one, have words alone.
        causes, reason = outcome.setdefault("causes", []), outcome.get("reason")
        unknown = any(cause.get("kind") not in _KINDS for cause in _objects(causes))
        if reason and (causes == [] or unknown):
            outcome["causes"] = [{"kind": "told", "text": reason}]
        _replace_numbers(outcome["causes"])
    for key in ("readings", "elements", "arbitrated"):
        _replace_numbers(record.get(key))
    for profile in _objects([record.get("profile")]):
        if isinstance(profile.get("cells"), list):
            profile["cells"] = [
                _NUMBERS.get(cell, cell) if isinstance(cell, str) else cell for cell in profile["cells"]
            ]


def _replace_numbers(items: Any) -> None:
    for item in _objects(items):
        for key, value in item.items():
            if isinstance(value, list):
                _replace_numbers(value)
            elif key in _MAY_BE_WORDS and isinstance(value, str):
                item[key] = _NUMBERS.get(value, value)


def _objects(items: Any) -> Iterator[dict[str, Any]]:
    if isinstance(items, list):
        yield from (item for item in items if isinstance(item, dict))


def _open_twin(kind: type[Any], **other: tuple[Any, Any]) -> Any:
    """The same open to changes; other fields with type and default."""
    known = [(one.name, one.type, field(default=one.default)) for one in fields(kind) if one.name not in other]
    further = [(name, *rest) for name, rest in other.items()]
    return msgspec.defstruct(f"Written{kind.__name__}", [*known, *further], kw_only=True, gc=False)


# As lines have it: statuses go by name, a reason stands beside its causes, and an infinite ratio is a word.
_ElementLine: Final = _open_twin(ElementReading, ratio=(float | Literal["inf"], field()))
ResultLine: Final = _open_twin(
    CaseResult,
    elements=(tuple[_ElementLine, ...], ()),  # type: ignore[valid-type]
    status=(str | None, None),
    expected_status=(str | None, None),
    reason=(str, ""),
)
_DECODER: Final = msgspec.json.Decoder(ResultLine)
_ELEMENT_FIELDS: Final = attrgetter(*ElementReading.__struct_fields__)
_RESULT_FIELDS: Final = attrgetter(*CaseResult.__struct_fields__)
_STATUSES_BY_NAME: Final[dict[str | None, Status | None]] = {None: None, **{status.name: status for status in Status}}
# A word for what JSON has no number for, a cause of a later version, or a mistake, which is told on the long way.
_NOT_AS_IT_STANDS: Final = (msgspec.MsgspecError, KeyError, ValueError, RecursionError, ContentError)


def read_result(line: bytes, source: Source, *, check: bool = True) -> CaseResult:
    """The result that the line holds; ContentError names the place of what is none, and the case.

    Without `check` the line is known to hold one.
    """
    try:
        result = _decode_line(line)
        if check:
            check_result(result, source)
    except _NOT_AS_IT_STANDS:
        return result_from_json(decode_json(line, source), source)
    return result


def _decode_line(line: bytes) -> CaseResult:
    written = _DECODER.decode(line)
    if written.attempts or (written.reason and not written.causes):
        raise KeyError("causes in words")
    written.status = _STATUSES_BY_NAME[written.status]
    written.expected_status = _STATUSES_BY_NAME[written.expected_status]
    for element in written.elements:
        element.ratio = float(element.ratio)
    written.elements = tuple(ElementReading(*_ELEMENT_FIELDS(element)) for element in written.elements)
    return CaseResult(*_RESULT_FIELDS(written))


# Whether it holds, else what is wrong, and where.
Rules = Iterator[tuple[bool, str, str]]


def _enforce(rules: Rules, source: Source) -> None:
    for holds, what, at in rules:
        if not holds:
            raise source.error(what, at)


# Part I of N; more digits are no count of machines.
_SHARD: Final = re.compile(r"([1-9]\d{0,5})/([1-9]\d{0,5})")
# A parameter is a value or a list of values.
_PARAM_LEVELS: Final = 2


class DeviceRecord(TypedDict):
    """What a report keeps of a device."""

    name: str
    bandwidth: float
    peak: float | dict[str, float]


class EnvironmentRecord(TypedDict, total=False):
    """What reports ask the environment of a run."""

    platform: str
    machine: str
    cpus: int | None
    content: list[str]
    settings: str | None
    device: DeviceRecord | None


class BackendRecord(TypedDict):
    """What reports ask of the backend."""

    name: str
    repeat: NotRequired[int]


class SelectionRecord(TypedDict, total=False):
    """What a run was asked for beside the query."""

    roots: list[str]
    # Of earlier versions.
    root: str | None
    shard: str | None
    times: str | None
    reseed: int | None
    require_coverage: Percentage | None
    # Elements were looked at one by one; absent in earlier versions, which did not.
    elementwise: bool
    cases: int
    left_out: int


def check_report(report: RunReport, summary: Any, source: Source) -> None:
    """Refuse a report whose head cannot be, that has a case twice, or whose summary tells of other results."""
    convert(report.environment, EnvironmentRecord, _part(source, "environment"))
    convert(report.backend, BackendRecord, _part(source, "backend"))
    check_selection(report.selection, _part(source, "selection"))
    check_labels(report.labels, _part(source, "labels"))
    keep_plain(report.environment, _part(source, "environment"))
    keep_plain(report.backend, _part(source, "backend"))
    _enforce(_head_rules(report), source)
    seen: set[str] = set()
    # Those that are read one by one were held against each other when they were read first.
    for index, result in enumerate(() if isinstance(report.results, TalliedResults) else report.results):
        if result.case in seen:
            raise source.error(f"{repr_short(result.case)} occurs twice", f".results[{index}]")
        seen.add(result.case)
    if summary is not None and summary != report.summary:
        raise source.error(
            f"it says {repr_short(summary)}, but the results are {repr_short(report.summary)}", ".summary"
        )


def _head_rules(report: RunReport) -> Rules:
    device = report.environment.get("device")
    if device is not None:
        peak = device["peak"]
        figures = [device["bandwidth"], *(peak.values() if isinstance(peak, dict) else [peak])]
        yield _are_amounts(figures), "figures must be ≥ 0", ".environment.device"
    yield _are_amounts([report.seconds]), f"{report.seconds} is not a number of seconds", ".seconds"
    yield _are_amounts(report.timing.values()), "seconds must be ≥ 0", ".timing"
    try:
        datetime.fromisoformat(report.started).timestamp()
    except (ValueError, OverflowError, OSError):
        yield False, f"{repr_short(report.started)} is not a time such as 2026-01-31T12:00:00+00:00", ".started"


def check_selection(selection: Any, source: Source) -> None:
    """Refuse a selection that no command line makes."""
    convert(selection, Query, source)
    convert(selection, SelectionRecord, source)
    keep_plain(selection, source)
    shard = selection.get("shard")
    if shard is not None:
        found = _SHARD.fullmatch(shard)
        if found is None or int(found[1]) > int(found[2]):
            raise source.error(f"{repr_short(shard)} is not a shard such as 2/5", ".shard")
    for root in selection.get("roots") or [selection.get("root") or ""]:
        if "\0" in root:
            raise source.error(f"{repr_short(root)} is not a folder", ".roots")


def check_labels(labels: Mapping[str, str], source: Source) -> None:
    """Refuse names of labels that no run gives."""
    for name in labels:
        if not ANY_NAME.fullmatch(name):
            rule = "write a letter, then at most 63 letters, digits, -, _ and dots"
            raise source.error(f"{repr_short(name)} is not a name for a label: {rule}")


def check_result(result: CaseResult, source: Source) -> None:
    """Refuse a result that no run can have."""
    _enforce(_result_rules(result), source)
    for index, explained in enumerate(result.explained):
        check_explanation(explained, source, index)
    _enforce(_picture_rules(result), source)
    info = result.info
    keep_plain(info.params, source, ".info.params", _PARAM_LEVELS)
    if not _are_amounts((info.theory_io_bytes or 0.0, info.theory_ops or 0.0)):
        raise source.error("theory must be ≥ 0", ".info")


def _result_rules(result: CaseResult) -> Rules:
    if not 0 <= result.seconds < math.inf:
        yield False, f"{result.seconds} is not a number of seconds", ".seconds"
    for index, reading in enumerate(result.readings):
        if math.isnan(reading.threshold):
            yield False, "a threshold cannot be NaN", f".readings[{index}].threshold"
        # A threshold below 0 is beyond what even equal integers reach.
        measured = reading.criterion != SIZELESS and reading.threshold >= 0
        if measured and reading.within and not reading.value <= reading.threshold:
            yield False, f"{reading.value} is not within {reading.threshold}", f".readings[{index}].within"
    for index, seen in enumerate(result.elements):
        at = f".elements[{index}]"
        yield seen.beyond + seen.as_half <= seen.compared, "more elements are beyond than there are", f"{at}.beyond"
        yield seen.precision in PRECISIONS, f"{repr_short(seen.precision)} is not a precision", at
        yield seen.ratio >= 0 and seen.allowed >= 0, "ratio and allowed must be ≥ 0", at
        yield (seen.ratio > 1) == (seen.beyond > 0), f"{seen.ratio} with {seen.beyond} beyond", at
    for index, found in enumerate(result.arbitrated):
        at, examined, examples = f".arbitrated[{index}]", found.examined, len(found.examples)
        possible = 0 < examined <= min(found.disputed, MAX_EXAMINED)
        yield possible, f"{examined} of {found.disputed} elements cannot be examined", at
        yield 0 < examples <= min(examined, MAX_EXAMPLES), f"{examples} examples of {examined}", f"{at}.examples"
        yield all(getattr(found, name) >= 0 for name in _ERRORS), "errors must be ≥ 0", at
    if result.stress is not None:
        yield from _stress_rules(result.stress, result.outcome)


def _stress_rules(stress: StressReading, outcome: Outcome) -> Rules:
    rows = stress.by_threads
    yield len({row.threads for row in rows}) == len(rows) > 0, "each number of threads has one row", ".stress"
    for index, row in enumerate(rows):
        possible = row.threads > 0 and row.repetitions > 0 and max(row.failed, row.differing) <= row.repetitions
        yield possible, "more of them than there are", f".stress.by_threads[{index}]"
    failing = {row.threads for row in rows if row.failed}
    known = stress.first_failed in failing if failing else stress.first_failed is None
    yield known, "no repetition failed with that many threads", ".stress.first_failed"
    # Waivers are the gate's: a run says that a case fails where one of its repetitions did.
    agree = outcome.blocks or outcome is Outcome.XFAILED or not failing
    yield agree, f"{outcome.value}, although repetitions failed", ".stress"


def _picture_rules(result: CaseResult) -> Rules:
    worst, profile = result.worst, result.profile
    if worst is not None:
        most = max(worst.unequal, worst.beyond or 0, worst.bits_unequal or 0)
        yield most <= worst.compared, "more elements differ than there are", ".worst"
        for tensor in result.info.outputs:
            if tensor.id == worst.output and not _is_inside(worst.index, tensor.dims):
                yield False, f"{list(worst.index)} is outside of {worst.output}{list(tensor.dims)}", ".worst.index"
    if profile is not None:
        cells = profile.rows * profile.columns
        what = f"{profile.rows} × {profile.columns} cells are {cells}, not {len(profile.cells)}"
        yield cells == len(profile.cells), what, ".profile.cells"


def check_explanation(explained: Explanation, source: Source, index: int) -> None:
    """Refuse an explanation that no run makes; it is the one at that index of its result."""
    _enforce(((holds, what, f".explained[{index}]{at}") for holds, what, at in _explanation_rules(explained)), source)


def _explanation_rules(explained: Explanation) -> Rules:
    dims, first, last, seen = explained.dims, explained.first, explained.last, explained.map
    yield all(0 < length <= MAX_INTEGER for length in dims), "lengths must be at least 1", ".dims"
    size = math.prod(dims)
    yield 0 < explained.wrong <= size, f"{explained.wrong} of {size} elements cannot be wrong", ".wrong"
    yield bool(explained.fitted), "it must have at least one set", ".fitted"
    for number, fitted in enumerate(explained.fitted):
        counts = 0 <= fitted.agreeing <= fitted.inside <= size and 0 <= fitted.lawful <= explained.wrong
        places = counts and all(_is_place(where, dims) for where in (fitted.where, *fitted.also))
        yield places and _is_law(fitted, len(dims)), "it does not fit the output", f".fitted[{number}]"
    hull = not explained.hull or _are_sets(explained.hull, dims)
    yield hull, "it does not fit the dims", ".hull"
    yield len(explained.lines) in (0, len(dims)), "it does not fit the dims", ".lines"
    ends = first == last == () or (_is_inside(first, dims) and _is_inside(last, dims) and first <= last)
    yield ends, f"it and .last must be elements of {list(dims)}, in this order", ".first"
    yield len(explained.samples) <= MAX_STORED_SAMPLES, f"more than {MAX_STORED_SAMPLES} samples", ".samples"
    if seen is not None:
        sides = 0 < seen.rows <= MAX_CELLS and 0 < seen.columns <= MAX_CELLS and seen.width >= 0
        cells = len(seen.cells) == seen.rows * seen.columns and set(seen.cells) <= set(".123456789#")
        yield sides and cells, "it is no map", ".map"
    for number, sample in enumerate(explained.samples):
        if not _is_inside(sample.index, dims):
            yield False, f"{list(sample.index)} is outside of {list(dims)}", f".samples[{number}].index"


def _is_inside(index: tuple[int, ...], dims: tuple[int, ...]) -> bool:
    return len(index) == len(dims) and min(index, default=0) >= 0 and all(map(lt, index, dims))


# Cases that fail for one cause have much the same sets.
@lru_cache(maxsize=4096)
def _is_place(where: Where, dims: tuple[int, ...]) -> bool:
    """Sets along axes of the lengths that these dims have, taken together as the spans say."""
    if not where.axes:
        return not (where.spans or where.least or where.most or where.outside)
    spans = where.spans or (1,) * len(where.axes)
    if min(spans) < 1 or sum(spans) != len(dims) or len(spans) != len(where.axes):
        return False
    ends = [sum(spans[: number + 1]) for number in range(len(spans))]
    lengths = [math.prod(dims[end - span : end]) for end, span in zip(ends, spans, strict=True)]
    return all(not sets or _are_sets(sets, lengths) for sets in (where.axes, where.least, where.most))


def _are_sets(sets: Sequence[AxisSet], lengths: Sequence[int]) -> bool:
    return len(sets) == len(lengths) and all(map(_is_set, sets, lengths))


def _is_set(one: AxisSet, length: int) -> bool:
    inside = one.length == length and 0 <= one.start < one.stop <= length and 1 <= one.width <= one.step
    listed = one.listed
    in_order = all(first < second for first, second in pairwise(listed))
    return inside and (not listed or (in_order and (listed[0], listed[-1] + 1) == (one.start, one.stop)))


def _is_law(fitted: Fitted, axes: int) -> bool:
    """Its numbers are finite, and the axes that it names exist."""
    law: Any = fitted.law
    if law is None:
        return True
    if not all(math.isfinite(value) for value in msgspec.structs.astuple(law) if isinstance(value, float)):
        return False
    match law:
        case laws.PermutedAlong(axis=axis, order=order):
            return 0 <= axis < axes and sorted(order) == list(range(len(order))) and order != tuple(sorted(order))
        case laws.RepeatedAlong(axis=axis, index=index):
            return 0 <= axis < axes and index >= 0
        case laws.ReversedAlong(axis=axis):
            return 0 <= axis < axes
        case laws.LaidOut(order=order):
            return sorted(order) == list(range(axes))
        case laws.ShiftedAlongAxes(offset=offset):
            return len(offset) == axes and any(offset)
        case laws.WithinUlp(ulp=ulp):
            return ulp > 0
    return True


def _part(source: Source, name: str) -> Source:
    return Source(source.file, source.remedy, f"{source.at}.{name}")


def _are_amounts(values: Iterable[float]) -> bool:
    return all(0 <= value < math.inf for value in values)
