"""What changed: against a baseline, and over the runs of the history."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from mluops_gtest.model.drift import DRIFT_FACTOR
from mluops_gtest.reports.markdown.syntax import code, table
from mluops_gtest.reports.markdown.translations import WORDS, Words
from mluops_gtest.results.history.trends import CaseTrend

_MAX_NAMED = 20
_GOOD_NEWS = {"still_passing", "fixed", "new", "still_skipped"}


def against(transitions: Mapping[str, str], say: Words) -> Iterator[str]:
    """How many cases made each transition, and which they are where it is no good news."""
    keys = {case: word.replace(" ", "_") for case, word in transitions.items()}
    rows = []
    for key, count in sorted(Counter(keys.values()).items(), key=lambda item: (item[0] in _GOOD_NEWS, item)):
        cases = [] if key in _GOOD_NEWS else sorted(case for case, found in keys.items() if found == key)
        names = [code(case) for case in cases[:_MAX_NAMED]]
        if len(cases) > _MAX_NAMED:
            names.append(say("and_more", count=len(cases) - _MAX_NAMED))
        rows.append([_transition(key, say), str(count), say("comma").join(names)])
    yield from table([say("transition"), say("cases"), say("remarks")], rows, right=[1])


def _transition(key: str, say: Words) -> str:
    known = f"transition_{key}"
    return say(known) if known in WORDS else key.replace("_", " ")


def over_time(trends: Sequence[CaseTrend], say: Words) -> Iterator[str]:
    """The cases that flake, flip or drift; a word of comfort where none does."""
    rows = []
    for trend in trends:
        drift = trend.drifts[0] if trend.drifts else None
        drifted = drift is not None and drift.factor >= DRIFT_FACTOR
        if not (trend.flake_rate or trend.flips or drifted):
            continue
        grown = f"{drift.output} {drift.criterion} ×{drift.factor:.3g}" if drift is not None and drifted else ""
        flakes = f"{(trend.flake_rate or 0) * 100:.0f} %"
        rows.append([code(trend.case), str(len(trend.ran)), flakes, str(trend.flips), grown])
    if not rows:
        runs = max((len(trend.points) for trend in trends), default=0)
        yield say("unremarkable", runs=runs)
        yield ""
        return
    yield from table([say(key) for key in ("case", "runs", "flake_rate", "flips", "drift")], rows, right=[1, 2, 3])
