"""How cases went in earlier runs, as the page draws it."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mluops_gtest.model.result import Outcome
from mluops_gtest.reports.html.compact import ABSENT, NON_FINITE, digit

# Case → (start of the run, outcome, largest reading as a multiple of its threshold, if any was read), in any order.
HistoryTrends = Mapping[str, Sequence[tuple[str, str, float | None]]]

_MOST_RUNS = 40
_ORDER = {outcome.value: place for place, outcome in enumerate(Outcome)}


def trend_record(history: HistoryTrends) -> dict[str, Any]:
    """The latest runs; per case one character for its outcome and one for its reading in each of them."""
    starts = sorted({started for points in history.values() for started, _, _ in points})[-_MOST_RUNS:]
    place = {started: number for number, started in enumerate(starts)}
    cases = {}
    for case, points in history.items():
        outcomes, ratios = [ABSENT] * len(starts), [ABSENT] * len(starts)
        for started, outcome, ratio in points:
            if started in place:
                outcomes[place[started]] = digit(_ORDER[outcome])
                ratios[place[started]] = _ratio_class(ratio)
        cases[case] = ["".join(outcomes), "".join(ratios)]
    return {"starts": starts, "cases": cases}


def _ratio_class(ratio: float | None) -> str:
    """One character per factor of two: 0 is exact, o is at the threshold."""
    if ratio is None:
        return ABSENT
    if not math.isfinite(ratio):
        return NON_FINITE
    if ratio <= 0.0:
        return "0"
    return digit(min(max(math.frexp(ratio)[1] + 23, 1), 35))
