"""Who is right, in words."""

import math
from collections.abc import Iterable, Mapping
from typing import Final

from mluops_gtest.base.text import pluralize
from mluops_gtest.core.result import MAX_ULP, Arbitration, DisputedElement, Side

_SIDES: Final[tuple[Side, ...]] = ("baseline", "backend", "both", "neither")
_RIGHT: Final = {
    "baseline": "the baseline is right at {}",
    "backend": "the backend is right at {}",
    "both": "both are within what arithmetic allows at {}",
    "neither": "neither is right at {}",
}
_RIGHT_CHINESE: Final = {
    "baseline": "基准值正确的有 {} 个",
    "backend": "后端正确的有 {} 个",
    "both": "双方均在运算允许范围内的有 {} 个",
    "neither": "双方均错误的有 {} 个",
}


def arbitration_words(found: Arbitration, lang: str = "en") -> str:
    """How many disputed elements each side is right at, how far each is off at most, and an example."""
    return _chinese(found) if lang == "zh" else _english(found)


def arbitration_summary(found: Iterable[Arbitration]) -> str:
    """All disputes of a run in a line."""
    found = list(found)
    counts = {side: sum(getattr(one, side) for one in found) for side in _SIDES}
    examined = pluralize(sum(counts.values()), "disputed element")
    return f"{examined} of {pluralize(len(found), 'output')} recomputed exactly: {_who(counts)}"


def _english(found: Arbitration) -> str:
    which = pluralize(found.disputed, "disputed element")
    if found.disputed > found.examined:
        which = f"the {found.examined} worst of {which}"
    backend, baseline = (_off(found, side) for side in ("backend", "baseline"))
    off = f"the backend is off by up to {backend}, the baseline by {baseline}"
    return f"{found.output}, {which}: {_who(_counts(found))}; {off}; {_example(found.examples[0])}"


def _counts(found: Arbitration) -> dict[Side, int]:
    return {side: getattr(found, side) for side in _SIDES}


def _who(counts: Mapping[Side, int]) -> str:
    right = {side: count for side, count in counts.items() if count}
    if len(right) > 1:
        return ", ".join(_RIGHT[side].format(count) for side, count in right.items())
    ((side, count),) = right.items()
    return _RIGHT[side].format("it" if count == 1 else f"all {count}")


def _example(example: DisputedElement) -> str:
    place = f"[{', '.join(map(str, example.index))}] " if example.index else "it "
    return f"{place}is exactly {example.exact}, backend {example.backend}, baseline {example.baseline}"


def _chinese(found: Arbitration) -> str:
    which = f"{found.disputed} 个有争议的元素"
    if found.disputed > found.examined:
        which += f"中最差的 {found.examined} 个"
    who = "，".join(_RIGHT_CHINESE[side].format(count) for side, count in _counts(found).items() if count)
    backend, baseline = (_off(found, side, "超过 ") for side in ("backend", "baseline"))
    one = found.examples[0]
    place = f"[{', '.join(map(str, one.index))}] 的" if one.index else ""
    example = f"{place}精确值为 {one.exact}，后端为 {one.backend}，基准值为 {one.baseline}"
    return f"{found.output}，{which}：{who}；后端最大误差 {backend}，基准值最大误差 {baseline}；{example}"


def _off(found: Arbitration, side: str, over: str = "over ") -> str:
    """By how much a side is off at most: absolutely and in ulp, or as a whole number."""
    error, ulp = getattr(found, f"{side}_error"), getattr(found, f"{side}_ulp")
    if not math.isfinite(error):
        return "∞"
    if not found.has_ulp:
        return f"{error:.15g}"
    return f"{error:.3g} ({over}{MAX_ULP} ulp)" if ulp > MAX_ULP else f"{error:.3g} ({ulp:.3g} ulp)"
