"""A report as the data that the page's script reads: each distinct value once, what is empty left out.

JSON that shows as itself and cannot end its element, packed where there is much of it: the page of 2000 results must
stay small enough to attach to a change. Of a case there is what the list shows, and apart what it shows when opened.
"""

import base64
import json
import math
import statistics
import zlib
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mluops_gtest.base.errors import ExitCode
from mluops_gtest.base.text import is_plain, strip_values
from mluops_gtest.core.call import Status
from mluops_gtest.core.cause import format_reason
from mluops_gtest.core.explanation import Explanation
from mluops_gtest.core.outcome import GRAVEST_FIRST, Outcome
from mluops_gtest.core.readings import format_explanation, format_headline, format_support
from mluops_gtest.core.report import RunReport
from mluops_gtest.core.result import (
    CaseInfo,
    CaseResult,
    ElementReading,
    Profile,
    Reading,
    TensorInfo,
    Worst,
    format_arbitration,
    reportable_ulp,
)
from mluops_gtest.results.records import share_of_threshold
from mluops_gtest.results.times import efficiency, timing_stats

if TYPE_CHECKING:
    from mluops_gtest.judging.groups import CauseGroup

# What is larger is packed, so that the page stays small enough to keep, to send and to open.
PACK_FROM_BYTES: Final = 3_000_000
_LEVEL: Final = 4
# How JSON writes what is unfit to be shown and yet ASCII.
_UNFIT: Final = (rb"\u00", rb"\r", b"\x7f")


def json_line(record: Any) -> bytes:
    """The record as a line of JSON in which no text can steer what shows it; no `<` is left, so no `</script>`."""
    try:
        line = msgspec.json.encode(record)
        fit = not any(sign in line for sign in _UNFIT) and (line.isascii() or is_plain(line.decode()))
    except UnicodeEncodeError:
        fit = False
    if not fit:
        line = msgspec.json.encode(strip_values(record))
    return line.replace(b"<", b"\\u003c")


def elements_of(parts: Mapping[str, Sequence[bytes]]) -> str:
    """A script element for each part, with its lines as they are; all of them packed where they are long."""
    is_much = sum(len(line) for lines in parts.values() for line in lines) > PACK_FROM_BYTES
    mark, text = (" data-packed", _pack) if is_much else ("", lambda lines: b"\n".join(lines).decode())
    return "\n".join(
        f'<script type="application/json" id="{name}"{mark}>{text(lines)}</script>' for name, lines in parts.items()
    )


def _pack(lines: Sequence[bytes]) -> str:
    squeezed = zlib.compressobj(_LEVEL)
    pieces = [squeezed.compress(line + b"\n") for line in lines]
    return base64.b64encode(b"".join([*pieces, squeezed.flush()])).decode("ascii")


_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
ABSENT = "."
NON_FINITE = "!"


class Pool(dict[Hashable, int]):
    """Distinct values in the order of their numbers, each kept once; rows name them by number."""

    def number(self, value: Hashable) -> int:
        """The number under which the page finds this value, a text or a tuple."""
        return self.setdefault(value, len(self))


def number(value: float, digits: int = 4) -> float | int | str:
    """The value as a reader needs it: few digits, and words where JSON has no number."""
    if not math.isfinite(value):
        return str(value)
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 2**53 else rounded


def largest_ratio(readings: Iterable[Reading]) -> float | int | str | None:
    """The largest reading as a multiple of its threshold; None where nothing was read."""
    ratios = [share_of_threshold(reading.value, reading.threshold) for reading in readings]
    return number(max(ratios)) if ratios else None


def cut_start(text: str, most: int) -> str:
    """The end of a long text: what a program says last tells why it stopped."""
    return text if len(text) <= most else "… " + text[-most:]


def drop_empty(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record without what is absent or empty."""
    return {key: value for key, value in record.items() if value not in (None, "", [])}


def _exponent_sign(value: float, zero: str, first: int, least: int, most: int) -> str:
    """One character per factor of two, for 2^first and more the digit 1; at least and at most these digits."""
    if not math.isfinite(value):
        return NON_FINITE
    if value <= 0.0:
        return zero
    # frexp: value = m · 2^e with 0.5 ≤ m < 1, so the binary exponent is e − 1.
    return _DIGITS[min(max(math.frexp(value)[1] - first, least), most)]


def profile_record(profile: Profile) -> dict[str, Any]:
    """A profile with its map as one character per cell, in the classes of its histogram."""
    # Most cells have one of a few values. Bin i of the histogram starts at 2^(i−30).
    last = len(profile.histogram) - 1
    signs = {cell: _exponent_sign(cell, ABSENT, -29, 0, last) for cell in set(profile.cells)}
    record = {
        "output": profile.output,
        "bins": list(profile.histogram),
        "rows": profile.rows,
        "columns": profile.columns,
        "cells": "".join(map(signs.__getitem__, profile.cells)),
    }
    return {**record, "width": profile.width} if profile.width else record


# The page explains; the whole text of a chatty backend is in report.json.
_MAX_PRINTED: Final = 2000
_MAX_VALUE: Final = 240
_as_json: Final = json.JSONEncoder(ensure_ascii=False, default=str).encode
_NAMES: Final[dict[Status | None, str | None]] = {None: None, **{status: status.name for status in Status}}
_PLACES: Final = {outcome: place for place, outcome in enumerate(Outcome)}


def list_record(result: CaseResult, pool: Pool, lang: str) -> dict[str, Any]:
    """What the list, its filters and the overview need of every case."""
    # A leak is told beside a case that passes, too.
    reason = format_reason(result.causes or filter(None, (result.leak,)), lang)
    return {
        "id": result.case,
        "op": pool.number(result.operator or "?"),
        "tags": pool.number(result.tags),
        "outcome": _PLACES[result.outcome],
        "ms": number(result.seconds * 1e3),
        "ratio": largest_ratio(result.readings),
        "outliers": result.outliers,
        "why": pool.number(cut_start(reason, _MAX_PRINTED)) if reason else None,
        "mark": pool.number(result.fingerprint) if result.fingerprint else None,
        # The smallest case stands for its group.
        "size": result.info.elements if result.outcome.blocks else 0,
    }


def case_record(result: CaseResult, pool: Pool, lang: str) -> dict[str, Any]:
    """What the page shows of a case that is opened."""
    stressed = () if result.stress is None else result.stress.by_threads
    return {
        "status": pool.number((_NAMES[result.status], _NAMES[result.expected_status])),
        "readings": [_reading_record(reading, pool) for reading in result.readings],
        "worst": None if result.worst is None else _worst_record(result.worst, pool),
        "wrong": [[one.output, format_explanation(one, lang), sample_cells(one)] for one in result.explained],
        "elements": [_element_record(seen, pool) for seen in result.elements],
        "exact": [format_arbitration(found, lang) for found in result.arbitrated],
        "stress": [[row.threads, row.repetitions, row.failed, row.differing] for row in stressed],
        # What stands around the case's own name, so that lines which differ by it alone are one value.
        "repro": pool.number(tuple(result.repro.split(result.case))) if result.repro else None,
        "debug": pool.number(tuple(result.debug.split(result.case))) if result.debug else None,
        # The first says where the case ran, of a run on a cluster.
        "notes": [
            *([result.host + ("" if result.device is None else f" #{result.device}")] if result.host else []),
            *(cut_start(note, _MAX_PRINTED) for note in result.notes),
        ],
        "printed": cut_start(result.output, _MAX_PRINTED),
        "attempts": [[_PLACES[a.outcome], pool.number(format_reason(a.causes, lang))] for a in result.attempts],
        "profile": None if result.profile is None else profile_record(result.profile),
        **_info_record(result.info, pool),
    }


def facts(mapping: Mapping[str, Any]) -> list[list[str]]:
    """Name and value of what is set, as text."""
    return [[name, _text(value)] for name, value in mapping.items() if value not in (None, "", [], {})]


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else _as_json(value)
    return text if len(text) <= _MAX_VALUE else text[:_MAX_VALUE] + " …"


def _reading_record(reading: Reading, pool: Pool) -> list[Any]:
    what = pool.number((reading.output, reading.criterion, number(reading.threshold, 6)))
    return [what, number(reading.value), int(reading.within)]


def _element_record(seen: ElementReading, pool: Pool) -> list[Any]:
    what = pool.number((seen.output, seen.precision))
    place = f"[{', '.join(map(str, seen.index))}]"
    allowed = number(seen.allowed, 3)
    return [what, seen.beyond, seen.compared, number(seen.ratio), place, seen.evaluated, seen.baseline, allowed]


# Wrong elements that stand beside an explanation.
_MAX_SAMPLES: Final = 3


def sample_cells(explained: Explanation) -> list[tuple[str, str, str]]:
    """The first wrong elements: which it is, what came and what was expected."""
    found = explained.samples[:_MAX_SAMPLES]
    return [(f"{explained.output}{list(one.index) or ''}", one.evaluated, one.baseline) for one in found]


def _worst_record(worst: Worst, pool: Pool) -> list[Any]:
    element = [f"[{', '.join(map(str, worst.index))}]", worst.evaluated, worst.baseline]
    counts = [worst.unequal, worst.compared, reportable_ulp(worst), worst.beyond, worst.bits_unequal]
    return [pool.number(worst.output), *element, *counts]


def _info_record(info: CaseInfo, pool: Pool) -> dict[str, Any]:
    params = [pool.number(tuple(info.params)), *map(_text, info.params.values())]
    return {
        "inputs": [_tensor(tensor, pool) for tensor in info.inputs],
        "outputs": [_tensor(tensor, pool) for tensor in info.outputs],
        "params": params if info.params else None,
        "doc": info.doc,
        "io": None if info.theory_io_bytes is None else number(info.theory_io_bytes),
        "ops": None if info.theory_ops is None else number(info.theory_ops),
    }


def _tensor(tensor: TensorInfo, pool: Pool) -> list[int]:
    """What an operator's tensors have in common is pooled; the dimensions follow."""
    return [pool.number((tensor.id, tensor.dtype, tensor.layout)), *tensor.dims]


_BINS = 24
# Quartile distances above the third quartile beyond which a sample is the far tail.
_TAIL = 3


def timing_record(result: CaseResult, device: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The distributions of interface and device time with the efficiencies that follow; None without samples."""
    perf = result.perf
    if perf is None or not perf.samples_ns:
        return None
    return drop_empty(
        {
            "interface": distribution(perf.samples_ns),
            "device": distribution(perf.device_samples_ns) if perf.device_samples_ns else None,
            "workspace": perf.workspace_bytes,
            "roof": _roof(result, perf.device_samples_ns or perf.samples_ns, device),
        }
    )


def distribution(samples_ns: Sequence[int]) -> list[Any]:
    """Number, smallest, edge, largest, median, its interval, median deviation, variation, bins from smallest to edge.

    The last bin also holds what lies beyond the edge: a far tail would flatten all the rest.
    """
    ordered = sorted(samples_ns)
    low, high = ordered[0], ordered[-1]
    first, third = ordered[len(ordered) // 4], ordered[3 * len(ordered) // 4]
    edge = min(high, third + _TAIL * (third - first))
    bins = [0] * (_BINS if edge > low else 1)
    for sample in ordered:
        bins[min((sample - low) * _BINS // max(edge - low, 1), len(bins) - 1)] += 1
    figures = timing_stats(ordered)
    interval = [number(figures.low, 5), number(figures.high, 5)]
    spread = [number(figures.mad), number(figures.cv, 3)]
    return [len(ordered), low, edge, high, number(figures.median, 5), *interval, *spread, bins]


def _roof(result: CaseResult, samples_ns: Sequence[int], device: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What the case attained, and its shares of the device where that is described."""
    io_bytes, operations = result.info.theory_io_bytes, result.info.theory_ops or 0.0
    seconds = statistics.median(samples_ns) * 1e-9
    if not io_bytes or seconds <= 0:
        return None
    attained: dict[str, Any] = {"io_rate": number(io_bytes / seconds), "op_rate": number(operations / seconds)}
    share = efficiency(result, device)
    if share is not None:
        attained["io"] = number(share.io)
        attained |= {} if share.compute is None else {"compute": number(share.compute)}
        attained |= drop_empty({name: getattr(share, name) for name in ("side", "wanted", "accepted")})
    # Operations per byte, for the roofline of all cases.
    return attained | {"intensity": number(operations / io_bytes)}


# Start of the run, outcome, largest reading as a multiple of its threshold, if any was read, commit of the run, and
# the seconds of the case, if it was called.
PastPoint = tuple[str, str, float | None, str, float | None]
# Case → its points in any order.
HistoryTrends = Mapping[str, Sequence[PastPoint]]

_MAX_RUNS = 40


def latest_runs(history: HistoryTrends) -> list[str]:
    """The starts of the runs that the page shows, from old to new."""
    return sorted({started for points in history.values() for started, *_ in points})[-_MAX_RUNS:]


def commits_of(history: HistoryTrends, starts: Sequence[str]) -> list[str]:
    """The commit of each of these runs; empty where none is known."""
    known = {started: commit for points in history.values() for started, _, _, commit, _ in points}
    return [known[started] for started in starts]


def trend_text(points: Sequence[PastPoint], starts: Sequence[str]) -> list[str]:
    """One character per run for the outcome of a case, and one for its reading."""
    outcomes, ratios = dict.fromkeys(starts, ABSENT), dict.fromkeys(starts, ABSENT)
    for started, outcome, ratio, *_ in points:
        if started in outcomes:
            outcomes[started] = _DIGITS[_PLACES[Outcome.named(outcome)]]
            # 0 is exact, o is at the threshold.
            ratios[started] = ABSENT if ratio is None else _exponent_sign(ratio, "0", -23, 1, 35)
    return ["".join(outcomes.values()), "".join(ratios.values())]


# A map of fewer elements shows little.
_TELLING: Final = 64


def find_causes(report: RunReport) -> "tuple[CauseGroup, ...]":
    """Why cases fail, the cause of most cases first."""
    failing = report.failing
    if not failing:
        return ()
    # Late: the page of runs that passed needs none of it.
    from mluops_gtest.judging.groups import cause_groups

    return cause_groups(failing, report.results, report.shapes)


def cause_records(report: RunReport, lang: str) -> list[dict[str, Any]]:
    """The causes that have a headline, those of most cases first, with the names of their cases as rows."""
    records = []
    for group in find_causes(report):
        if group.headline is None:
            continue
        case, example = _example(group.examples, group.headline.output)
        seen = example.map
        records.append(
            {
                "mark": group.mark,
                "head": format_headline(group.headline, lang),
                "support": list(format_support(group.headline, lang)),
                "rows": [result.case for result in group.members],
                "case": case,
                "output": example.output,
                "example": format_explanation(example, lang),
                "dims": list(example.dims),
                "map": None if seen is None else [seen.rows, seen.columns, seen.cells, seen.width],
            }
        )
    return records


def _example(examples: Sequence[CaseResult], output: str) -> tuple[str, Explanation]:
    """The smallest case whose map tells something, else the largest, with how that output is wrong there."""
    known = [(result.case, one) for result in examples for one in result.explained if one.output == output]
    return next(((case, one) for case, one in known if one.size >= _TELLING and one.map is not None), known[-1])


_VERDICTS: Final = {ExitCode.OK: "clear", ExitCode.EMPTY: "empty", ExitCode.INTERRUPTED: "interrupted"}


def verdict(report: RunReport) -> str:
    """clear, blocked, empty or interrupted."""
    return _VERDICTS.get(report.exit_code, "blocked")


def payload(
    report: RunReport,
    transitions: Mapping[str, str] | None,
    history: HistoryTrends | None,
    lang: str = "en",
) -> tuple[dict[str, Any], list[bytes]]:
    """Everything the page shows but its own words, reasons in that language; and beside it a line of JSON per case.

    The columns have what the list, its filters and the overview need of all cases; the line of a case has what is shown
    of it when it is opened, and is read no earlier.
    """
    pool, past, device = Pool(), history or {}, report.environment.get("device")
    moved = {case: word.replace("_", " ") for case, word in (transitions or {}).items()}
    runs = latest_runs(past)
    if len(runs) < 2:
        # One run is no trend.
        past, runs = {}, []
    # First, so that what it takes is gone before the lines come.
    causes = cause_records(report, lang)
    columns: dict[str, list[Any]] = defaultdict(list)
    lines, timed = [], {}
    for place, result in enumerate(report.results):
        row = list_record(result, pool, lang)
        row["moved"] = pool.number(moved[result.case]) if result.case in moved else None
        row["trend"] = [pool.number(text) for text in trend_text(past.get(result.case, ()), runs)] if runs else None
        for name, value in row.items():
            columns[name].append(value)
        perf = timing_record(result, device)
        if perf is not None:
            timed[place] = perf.pop("roof", None)
        points = past.get(result.case, ())
        times = {started: number(seconds * 1e3, 3) for started, *_, seconds in points if seconds is not None}
        lines.append(
            json_line(
                drop_empty(
                    case_record(result, pool, lang)
                    | {"perf": perf, "past": [times.get(run) for run in runs] if times else []}
                )
            )
        )
    present = {case: place for place, case in enumerate(columns["id"])}
    for cause in causes:
        cause["rows"] = [present[case] for case in cause["rows"]]
        cause["case"] = present[cause["case"]]
    return {
        "verdict": verdict(report),
        "run": _run_record(report),
        "outcomes": [[outcome.value, outcome.blocks, outcome.sign] for outcome in Outcome],
        "gravest": [outcome.value for outcome in GRAVEST_FIRST],
        "against": transitions is not None,
        "missing": [[case, word] for case, word in sorted(moved.items()) if case not in present],
        "runs": runs,
        "commits": commits_of(past, runs),
        "causes": causes,
        "cases": len(lines),
        "columns": {name: column for name, column in columns.items() if any(value is not None for value in column)},
        "timed": timed,
        "pool": list(pool),
    }, lines


def _run_record(report: RunReport) -> dict[str, Any]:
    return {
        "version": report.tool_version,
        "started": report.started,
        "seconds": number(report.seconds),
        "timing": {phase: number(seconds) for phase, seconds in report.timing.items()},
        "labels": facts(report.labels),
        "backend": facts(report.backend),
        "environment": facts({name: value for name, value in report.environment.items() if name != "device"}),
        "selection": facts({**report.selection, **({} if report.reseed is None else {"fixed": report.fixed})}),
        "device": report.environment.get("device"),
    }
