"""How cases went in earlier runs, as the page draws it."""

import math
from collections.abc import Mapping, Sequence

from mluops_gtest.model.result import Outcome
from mluops_gtest.reports.html.compact import ABSENT, NON_FINITE, digit

# Case → (start of the run, outcome, largest reading as a multiple of its threshold, if any was read, and the run's
# commit), in any order.
HistoryTrends = Mapping[str, Sequence[tuple[str, str, float | None, str]]]

_MAX_RUNS = 40
_ORDER = {outcome.value: place for place, outcome in enumerate(Outcome)}


def latest_runs(history: HistoryTrends) -> list[str]:
    """The starts of the runs that the page shows, from old to new."""
    return sorted({started for points in history.values() for started, *_ in points})[-_MAX_RUNS:]


def commits_of(history: HistoryTrends, starts: Sequence[str]) -> list[str]:
    """The commit of each of these runs; empty where none is known."""
    known = {started: commit for points in history.values() for started, _, _, commit in points}
    return [known[started] for started in starts]


def trend_text(points: Sequence[tuple[str, str, float | None, str]], starts: Sequence[str]) -> list[str]:
    """One character per run for the outcome of a case, and one for its reading."""
    outcomes, ratios = dict.fromkeys(starts, ABSENT), dict.fromkeys(starts, ABSENT)
    for started, outcome, ratio, _ in points:
        if started in outcomes:
            outcomes[started] = digit(_ORDER[outcome])
            ratios[started] = _ratio_class(ratio)
    return ["".join(outcomes.values()), "".join(ratios.values())]


def _ratio_class(ratio: float | None) -> str:
    """One character per factor of two: 0 is exact, o is at the threshold."""
    if ratio is None:
        return ABSENT
    if not math.isfinite(ratio):
        return NON_FINITE
    if ratio <= 0.0:
        return "0"
    return digit(min(max(math.frexp(ratio)[1] + 23, 1), 35))
