"""How much of an output differs, in the words that every report uses."""

from typing import Final

from mluops_gtest.model.result import CaseResult, Worst

# Beyond this a distance in ulp says nothing but that the values have nothing to do with each other.
_MOST_ULP: Final = 10_000


def share_words(beyond: int | None, unequal: int, bits_unequal: int | None, compared: int, *, equality: bool) -> str:
    """`12 of 640 elements beyond tolerance (640 unequal in their bits)`, or how many are unequal where that is asked.

    `beyond` is None where nobody counted: in outputs within their criteria, and in results of earlier versions.
    """
    if equality or beyond is None:
        more = bits_unequal is not None and bits_unequal > unequal
        return f"{unequal} of {compared} elements unequal" + (f" ({bits_unequal} in their bits)" if more else "")
    bits = unequal if bits_unequal is None else bits_unequal
    return f"{beyond} of {compared} elements beyond tolerance ({bits} unequal in their bits)"


def told_ulp(worst: Worst) -> int | None:
    """The largest distance in ulp where it says something."""
    return worst.max_ulp if worst.max_ulp is not None and worst.max_ulp <= _MOST_ULP else None


def worst_words(result: CaseResult) -> str:
    """Where an output is furthest from its baseline, and what of its difference the reason does not tell."""
    worst = result.worst
    if worst is None:
        return ""
    asked = [reading.threshold for reading in result.readings if reading.output == worst.output]
    share = share_words(
        worst.beyond, worst.unequal, worst.bits_unequal, worst.compared, equality=bool(asked) and min(asked) <= 0
    )
    ulp = told_ulp(worst)
    beside = ["" if share in result.reason else share, "" if ulp is None else f"at most {ulp} ulp apart"]
    place = f"{worst.output}[{', '.join(map(str, worst.index))}]"
    return "; ".join(filter(None, [f"{place} = {worst.evaluated}, expected {worst.baseline}", *beside]))
