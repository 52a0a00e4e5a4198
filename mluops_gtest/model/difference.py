"""How much of an output differs, in the words that every report uses."""

from typing import Final

from mluops_gtest.model.cause import Exceeded, Told
from mluops_gtest.model.reasons.english import share_words
from mluops_gtest.model.result import CaseResult, Worst

# Beyond this a distance in ulp says nothing but that the values have nothing to do with each other.
MAX_ULP: Final = 10_000


def told_ulp(worst: Worst) -> int | None:
    """The largest distance in ulp where it says something: it is taken over finite pairs, and NaN or inf is worse."""
    finite = "n" not in f"{worst.evaluated}{worst.baseline}".lower()
    return worst.max_ulp if worst.max_ulp and worst.max_ulp <= MAX_ULP and finite else None


def worst_words(result: CaseResult) -> str:
    """Where an output is furthest from its baseline, and what of its difference its causes do not tell."""
    worst = result.worst
    if worst is None:
        return ""
    asked = [reading.threshold for reading in result.readings if reading.output == worst.output]
    share = share_words(
        worst.beyond, worst.unequal, worst.bits_unequal, worst.compared, equality=bool(asked) and min(asked) <= 0
    )
    ulp = told_ulp(worst)
    # Of the words of an earlier version nobody knows what they say; mostly it is this.
    told = any(
        isinstance(cause, Told) or (isinstance(cause, Exceeded) and cause.output == worst.output)
        for cause in result.causes
    )
    beside = ["" if told else share, "" if ulp is None else f"at most {ulp} ulp apart"]
    place = f"{worst.output}[{', '.join(map(str, worst.index))}]"
    return "; ".join(filter(None, [f"{place} = {worst.evaluated}, expected {worst.baseline}", *beside]))


def worst_outlier(result: CaseResult) -> str:
    """The element that is furthest beyond what arithmetic allows, and how many there are; empty where none is."""
    if not result.outliers:
        return ""
    worst = max(result.elements, key=lambda reading: reading.ratio)
    place = f"{worst.output}[{', '.join(map(str, worst.index))}]"
    others = f"; {result.outliers} such elements" if result.outliers > 1 else ""
    return f"{place} = {worst.evaluated}, expected {worst.baseline} ± {worst.allowed:.3g}{others}"
