"""One case as the page's script reads it: what the list shows of it, and what it shows when the case is opened."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from mluops_gtest.model.reasons import reason_of
from mluops_gtest.model.reasons.arbitrated import arbitration_words
from mluops_gtest.model.result import (
    CaseInfo,
    CaseResult,
    ElementReading,
    Outcome,
    Reading,
    StressReading,
    TensorInfo,
    Worst,
    told_ulp,
)
from mluops_gtest.model.status import Status
from mluops_gtest.reports.html.compact import Pool, largest_ratio, number, profile_record, shortened

# The page explains; the whole text of a chatty backend is in report.json.
_MAX_PRINTED: Final = 2000
_MAX_VALUE: Final = 240
_as_json: Final = json.JSONEncoder(ensure_ascii=False, default=str).encode
_NAMES: Final[dict[Status | None, str | None]] = {None: None, **{status: status.name for status in Status}}
_PLACES: Final = {outcome: place for place, outcome in enumerate(Outcome)}


def listed(result: CaseResult, pool: Pool, lang: str) -> dict[str, Any]:
    """What the list, its filters and the overview need of every case."""
    # A leak is told beside a case that passes, too.
    reason = reason_of(result.causes or filter(None, (result.leak,)), lang)
    return {
        "id": result.case,
        "op": pool.number(result.operator or "?"),
        "tags": pool.number(result.tags),
        "outcome": _PLACES[result.outcome],
        "ms": number(result.seconds * 1e3),
        "ratio": largest_ratio(result.readings),
        "outliers": result.outliers,
        "why": pool.number(shortened(reason, _MAX_PRINTED)) if reason else None,
        "mark": pool.number(result.fingerprint) if result.fingerprint else None,
        # The smallest case stands for its group.
        "size": result.info.elements if result.outcome.blocks else 0,
    }


def opened(result: CaseResult, pool: Pool, lang: str) -> dict[str, Any]:
    """What the page shows of a case that is opened."""
    return {
        "status": pool.number((_NAMES[result.status], _NAMES[result.expected_status])),
        "readings": [_reading(reading, pool) for reading in result.readings],
        "worst": None if result.worst is None else _worst(result.worst, pool),
        "elements": [_elements(seen, pool) for seen in result.elements],
        "exact": [arbitration_words(found, lang) for found in result.arbitrated],
        "stress": None if result.stress is None else _stress(result.stress),
        # What stands around the case's own name, so that lines which differ by it alone are one value.
        "repro": pool.number(tuple(result.repro.split(result.case))) if result.repro else None,
        "debug": pool.number(tuple(result.debug.split(result.case))) if result.debug else None,
        "notes": [*_host(result), *(shortened(note, _MAX_PRINTED) for note in result.notes)],
        "printed": shortened(result.output, _MAX_PRINTED),
        "attempts": [[_PLACES[a.outcome], pool.number(reason_of(a.causes, lang))] for a in result.attempts],
        "profile": None if result.profile is None else profile_record(result.profile),
        **_info(result.info, pool),
    }


def facts(mapping: Mapping[str, Any]) -> list[list[str]]:
    """Name and value of what is set, as text."""
    return [[name, _text(value)] for name, value in mapping.items() if value not in (None, "", [], {})]


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else _as_json(value)
    return text if len(text) <= _MAX_VALUE else text[:_MAX_VALUE] + " …"


def _host(result: CaseResult) -> list[str]:
    """Where the case ran, of a run on a cluster."""
    if not result.host:
        return []
    return [f"{result.host}" + ("" if result.device is None else f" #{result.device}")]


def _reading(reading: Reading, pool: Pool) -> list[Any]:
    what = pool.number((reading.output, reading.criterion, _threshold(reading.threshold)))
    return [what, number(reading.value), int(reading.within)]


# Criteria have few.
@lru_cache
def _threshold(value: float) -> float | int | str:
    return number(value, 6)


def _elements(seen: ElementReading, pool: Pool) -> list[Any]:
    what = pool.number((seen.output, seen.precision))
    place = f"[{', '.join(map(str, seen.index))}]"
    allowed = number(seen.allowed, 3)
    return [what, seen.beyond, seen.compared, number(seen.ratio), place, seen.evaluated, seen.baseline, allowed]


def _stress(stress: StressReading) -> list[list[int]]:
    return [[row.threads, row.repetitions, row.failed, row.differing] for row in stress.by_threads]


def _worst(worst: Worst, pool: Pool) -> list[Any]:
    place = f"[{', '.join(map(str, worst.index))}]"
    return [
        pool.number(worst.output),
        place,
        worst.evaluated,
        worst.baseline,
        worst.unequal,
        worst.compared,
        told_ulp(worst),
        worst.beyond,
        worst.bits_unequal,
    ]


def _info(info: CaseInfo, pool: Pool) -> dict[str, Any]:
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
