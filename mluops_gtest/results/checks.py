"""Results that have the right types and still cannot be: no verdict may rest on them."""

import math
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from operator import lt
from typing import Any, Final, NotRequired, TypedDict

import msgspec

from mluops_gtest.base.errors import ContentError, repr_short
from mluops_gtest.base.text import ANY_NAME
from mluops_gtest.base.typed_files import MAX_INTEGER, Source, convert, keep_plain
from mluops_gtest.core.case import Percentage, Query
from mluops_gtest.core.explanation import (
    MAX_CELLS,
    MAX_STORED_SAMPLES,
    AxisSet,
    Explanation,
    Fitted,
    LaidOut,
    PermutedAlong,
    RepeatedAlong,
    ReversedAlong,
    TakenFrom,
    Where,
    WithinUlp,
    WrongMap,
)
from mluops_gtest.core.outcome import SIZELESS, Outcome
from mluops_gtest.core.report import RunReport, TalliedResults
from mluops_gtest.core.result import (
    MAX_EXAMINED,
    MAX_EXAMPLES,
    Arbitration,
    CaseResult,
    ElementReading,
    Profile,
    Reading,
    StressReading,
    Worst,
)
from mluops_gtest.core.tensor import PRECISIONS

_SIGNS: Final = frozenset(".123456789#")


def check_explanation(explained: Explanation, source: Source, index: int) -> None:
    """Refuse an explanation that no run makes; it is the one at that index of its result."""

    def refused(what: str, part: str) -> ContentError:
        return source.error(what, f".explained[{index}]{part}")

    dims = explained.dims
    if not all(0 < length <= MAX_INTEGER for length in dims):
        raise refused("lengths must be at least 1", ".dims")
    size = math.prod(dims)
    if not 0 < explained.wrong <= size:
        raise refused(f"{explained.wrong} of {size} elements cannot be wrong", ".wrong")
    if not explained.fitted:
        raise refused("it must have at least one set", ".fitted")
    for number, fitted in enumerate(explained.fitted):
        if not _can_be(fitted, explained):
            raise refused("it does not fit the output", f".fitted[{number}]")
    ends = _are_ends(explained.first, explained.last, dims)
    for is_right, what, part in (
        (_is_hull(explained.hull, dims), "it does not fit the dims", ".hull"),
        (len(explained.lines) in (0, len(dims)), "it does not fit the dims", ".lines"),
        (ends, f"it and .last must be elements of {list(dims)}, in this order", ".first"),
        (len(explained.samples) <= MAX_STORED_SAMPLES, f"more than {MAX_STORED_SAMPLES} samples", ".samples"),
        (explained.map is None or _is_map(explained.map), "it is no map", ".map"),
    ):
        if not is_right:
            raise refused(what, part)
    for number, sample in enumerate(explained.samples):
        if not _is_inside(sample.index, dims):
            raise refused(f"{list(sample.index)} is outside of {list(dims)}", f".samples[{number}].index")


def _is_inside(index: tuple[int, ...], dims: tuple[int, ...]) -> bool:
    return len(index) == len(dims) and min(index, default=0) >= 0 and all(map(lt, index, dims))


def _are_ends(first: tuple[int, ...], last: tuple[int, ...], dims: tuple[int, ...]) -> bool:
    return first == last == () or (_is_inside(first, dims) and _is_inside(last, dims) and first <= last)


def _can_be(fitted: Fitted, explained: Explanation) -> bool:
    size = explained.size
    counts = 0 <= fitted.agreeing <= fitted.inside <= size and 0 <= fitted.lawful <= explained.wrong
    places = (fitted.where, *fitted.also)
    return counts and all(_is_place(where, explained.dims) for where in places) and _is_law(fitted, len(explained.dims))


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
    return all(
        not sets or (len(sets) == len(lengths) and all(map(_is_set, sets, lengths)))
        for sets in (where.axes, where.least, where.most)
    )


def _is_hull(hull: tuple[AxisSet, ...], dims: tuple[int, ...]) -> bool:
    return not hull or (len(hull) == len(dims) and all(map(_is_set, hull, dims)))


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
    numbers = [value for value in msgspec.structs.astuple(law) if isinstance(value, float)]
    if not all(map(math.isfinite, numbers)):
        return False
    match law:
        case PermutedAlong(axis=axis, order=order):
            return 0 <= axis < axes and sorted(order) == list(range(len(order))) and order != tuple(sorted(order))
        case RepeatedAlong(axis=axis, index=index):
            return 0 <= axis < axes and index >= 0
        case ReversedAlong(axis=axis):
            return 0 <= axis < axes
        case LaidOut(order=order):
            return sorted(order) == list(range(axes))
        case TakenFrom(offset=offset):
            return len(offset) == axes and any(offset)
        case WithinUlp(ulp=ulp):
            return ulp > 0
    return True


def _is_map(seen: WrongMap) -> bool:
    sides = 0 < seen.rows <= MAX_CELLS and 0 < seen.columns <= MAX_CELLS and seen.width >= 0
    return sides and len(seen.cells) == seen.rows * seen.columns and _SIGNS.issuperset(seen.cells)


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
    for name, mapping in (("environment", report.environment), ("backend", report.backend)):
        keep_plain(mapping, _part(source, name))
    device = report.environment.get("device")
    if device is not None:
        peak = device["peak"]
        figures = [device["bandwidth"], *(peak.values() if isinstance(peak, dict) else [peak])]
        _refuse_unless(_are_amounts(figures), "figures must be ≥ 0", source, ".environment.device")
    _refuse_unless(_are_amounts([report.seconds]), f"{report.seconds} is not a number of seconds", source, ".seconds")
    _refuse_unless(_are_amounts(report.timing.values()), "seconds must be ≥ 0", source, ".timing")
    try:
        datetime.fromisoformat(report.started).timestamp()
    except (ValueError, OverflowError, OSError):
        raise source.error(
            f"{repr_short(report.started)} is not a time such as 2026-01-31T12:00:00+00:00", ".started"
        ) from None
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


def check_selection(selection: Any, source: Source) -> None:
    """Refuse a selection that no command line makes."""
    convert(selection, Query, source)
    convert(selection, SelectionRecord, source)
    keep_plain(selection, source)
    shard = selection.get("shard")
    if shard is not None:
        found = _SHARD.fullmatch(shard)
        is_shard = found is not None and int(found[1]) <= int(found[2])
        _refuse_unless(is_shard, f"{repr_short(shard)} is not a shard such as 2/5", source, ".shard")
    for root in selection.get("roots") or [selection.get("root") or ""]:
        _refuse_unless("\0" not in root, f"{repr_short(root)} is not a folder", source, ".roots")


def check_labels(labels: Mapping[str, str], source: Source) -> None:
    """Refuse names of labels that no run gives."""
    for name in labels:
        allowed = "write a letter, then at most 63 letters, digits, -, _ and dots"
        what = f"{repr_short(name)} is not a name for a label: {allowed}"
        _refuse_unless(ANY_NAME.fullmatch(name) is not None, what, source, "")


def check_result(result: CaseResult, source: Source) -> None:
    """Refuse a result that no run can have."""
    if not _is_amount(result.seconds):
        raise source.error(f"{result.seconds} is not a number of seconds", ".seconds")
    for index, reading in enumerate(result.readings):
        _check_reading(reading, source, index)
    for index, seen in enumerate(result.elements):
        _check_elements(seen, source, f".elements[{index}]")
    for index, found in enumerate(result.arbitrated):
        _check_arbitration(found, source, f".arbitrated[{index}]")
    if result.stress is not None:
        _check_stress(result.stress, result, source)
    for index, explained in enumerate(result.explained):
        check_explanation(explained, source, index)
    if result.worst is not None:
        _check_worst(result.worst, result, source)
    if result.profile is not None:
        _check_profile(result.profile, source)
    info = result.info
    keep_plain(info.params, source, ".info.params", _PARAM_LEVELS)
    if not (_is_amount(info.theory_io_bytes or 0.0) and _is_amount(info.theory_ops or 0.0)):
        raise source.error("theory must be ≥ 0", ".info")


def _check_reading(reading: Reading, source: Source, index: int) -> None:
    if math.isnan(reading.threshold):
        raise source.error("a threshold cannot be NaN", f".readings[{index}].threshold")
    # A threshold below 0 is beyond what even equal integers reach.
    measured = reading.criterion != SIZELESS and reading.threshold >= 0
    if measured and reading.within and not reading.value <= reading.threshold:
        raise source.error(f"{reading.value} is not within {reading.threshold}", f".readings[{index}].within")


def _check_elements(seen: ElementReading, source: Source, at: str) -> None:
    outliers = seen.beyond + seen.as_half
    _refuse_unless(outliers <= seen.compared, "more elements are beyond than there are", source, f"{at}.beyond")
    if seen.precision not in PRECISIONS:
        raise source.error(f"{repr_short(seen.precision)} is not a precision", at)
    _refuse_unless(seen.ratio >= 0 and seen.allowed >= 0, "ratio and allowed must be ≥ 0", source, at)
    if (seen.ratio > 1) != (seen.beyond > 0):
        raise source.error(f"{seen.ratio} with {seen.beyond} beyond", at)


def _check_arbitration(found: Arbitration, source: Source, at: str) -> None:
    possible = 0 < found.examined <= min(found.disputed, MAX_EXAMINED)
    _refuse_unless(possible, f"{found.examined} of {found.disputed} elements cannot be examined", source, at)
    some = 0 < len(found.examples) <= min(found.examined, MAX_EXAMPLES)
    _refuse_unless(some, f"{len(found.examples)} examples of {found.examined}", source, f"{at}.examples")
    errors = (found.backend_error, found.backend_ulp, found.baseline_error, found.baseline_ulp)
    _refuse_unless(all(error >= 0 for error in errors), "errors must be ≥ 0", source, at)


def _check_stress(stress: StressReading, result: CaseResult, source: Source) -> None:
    rows = stress.by_threads
    threads = [row.threads for row in rows]
    _refuse_unless(len(set(threads)) == len(threads) > 0, "each number of threads has one row", source, ".stress")
    for index, row in enumerate(rows):
        possible = row.threads > 0 and row.repetitions > 0 and max(row.failed, row.differing) <= row.repetitions
        _refuse_unless(possible, "more of them than there are", source, f".stress.by_threads[{index}]")
    failing = {row.threads for row in rows if row.failed}
    known = stress.first_failed in failing if failing else stress.first_failed is None
    _refuse_unless(known, "no repetition failed with that many threads", source, ".stress.first_failed")
    # Waivers are the gate's: a run says that a case fails where one of its repetitions did.
    agree = result.outcome.blocks or result.outcome is Outcome.XFAILED or not failing
    _refuse_unless(agree, f"{result.outcome.value}, although repetitions failed", source, ".stress")


def _check_worst(worst: Worst, result: CaseResult, source: Source) -> None:
    most = max(worst.unequal, worst.beyond or 0, worst.bits_unequal or 0)
    _refuse_unless(most <= worst.compared, "more elements differ than there are", source, ".worst")
    for tensor in result.info.outputs:
        if tensor.id == worst.output:
            pairs = zip(worst.index, tensor.dims, strict=False)
            inside = len(worst.index) == len(tensor.dims) and all(place < length for place, length in pairs)
            if not inside:
                what = f"{list(worst.index)} is outside of {worst.output}{list(tensor.dims)}"
                raise source.error(what, ".worst.index")


def _check_profile(profile: Profile, source: Source) -> None:
    cells = profile.rows * profile.columns
    if cells != len(profile.cells):
        what = f"{profile.rows} × {profile.columns} cells are {cells}, not {len(profile.cells)}"
        raise source.error(what, ".profile.cells")


def _part(source: Source, name: str) -> Source:
    return Source(source.file, source.remedy, f"{source.at}.{name}")


def _refuse_unless(holds: bool, what: str, source: Source, at: str) -> None:
    if not holds:
        raise source.error(what, at)


def _are_amounts(values: Iterable[float]) -> bool:
    return all(map(_is_amount, values))


def _is_amount(value: float) -> bool:
    return 0 <= value < math.inf
