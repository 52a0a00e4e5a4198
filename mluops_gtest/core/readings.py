"""Sets of elements and laws in the form in which several cases can share them: "the last 2 rows" fits any length.

At the end explanations and headlines become sentences, in both languages by the same functions; only patterns differ.
"""

from collections.abc import Iterable, Iterator
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from mluops_gtest.core.explanation import AxisSet, Explanation, Law, LineKind, OneSided, Where, WithinUlp
from mluops_gtest.core.outcome import Wording

# Of tiles, vectors and blocks: what is behind the last whole one is worth a name.
MULTIPLES: Final = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


class AxisReading(msgspec.Struct, frozen=True):
    """Indices along an axis of any length.

    `from` a on, the `last` n, `below` b, all `but last` n, `at` i, `between` a and b (exclusive), `behind` the last
    multiple of p, `every` step from start on, `blocks` of width in every step from start on (both up to a stop where a
    fourth number says so), those `listed`.
    """

    kind: Literal["all", "from", "last", "below", "but last", "at", "between", "behind", "every", "blocks", "listed"]
    numbers: tuple[int, ...] = ()

    def of(self, length: int) -> AxisSet | None:
        """The indices on an axis of that length; None where there are none."""
        first = self.numbers[0] if self.numbers else 0
        start, stop = 0, length
        match self.kind:
            case "from":
                start = first
            case "last":
                start = max(0, length - first)
            case "below":
                stop = min(first, length)
            case "but last":
                stop = length - first
            case "at":
                start, stop = first, first + 1
            case "between":
                start, stop = first, min(self.numbers[1], length)
            case "behind":
                start = length // first * first
            case "every" | "blocks":
                return self._repeated(length)
            case "listed":
                inside = max(self.numbers) < length
                return AxisSet(length, first, self.numbers[-1] + 1, listed=self.numbers) if inside else None
        return AxisSet(length, start, stop) if 0 <= start < stop <= length else None

    def _repeated(self, length: int) -> AxisSet | None:
        step, start, width = (*self.numbers, 1)[:3]
        end = self.numbers[3] if len(self.numbers) > 3 else length
        if start >= end or end > length:
            return None
        last = start + (end - 1 - start) // step * step
        return AxisSet(length, start, min(last + width, end), step, width)


class WhereReading(msgspec.Struct, frozen=True):
    """A set of elements of an output of any size; see Where."""

    axes: tuple[AxisReading, ...] = ()
    spans: tuple[int, ...] = ()
    outside: bool = False
    value: str = ""

    @property
    def is_all(self) -> bool:
        return bool(self.axes) and not self.outside and all(axis.kind == "all" for axis in self.axes)


ALL: Final = AxisReading("all")
# Of an output of any rank.
EVERYTHING: Final = WhereReading((ALL,))


def axis_readings(chosen: AxisSet) -> tuple[AxisReading, ...]:
    """What an exact set along one axis may be called, first with its own numbers."""
    if chosen.is_all:
        return (ALL,)
    if chosen.listed:
        return (AxisReading("listed", chosen.listed),)
    if chosen.step > 1:
        kind: Literal["every", "blocks"] = "every" if chosen.width == 1 else "blocks"
        numbers = (chosen.step, chosen.start) if chosen.width == 1 else (chosen.step, chosen.start, chosen.width)
        reading = AxisReading(kind, numbers)
        # One that ends before the axis does is not what these words say.
        is_whole = reading.of(chosen.length) == chosen
        return (reading if is_whole else AxisReading(kind, (*(*numbers, 1)[:3], chosen.stop)),)
    names = []
    if chosen.stop == chosen.length:
        names.append(AxisReading("from", (chosen.start,)))
        names.append(AxisReading("last", (chosen.length - chosen.start,)))
        names += [AxisReading("behind", (p,)) for p in MULTIPLES if chosen.length // p * p == chosen.start]
    elif chosen.start == 0:
        names.append(AxisReading("below", (chosen.stop,)))
        names.append(AxisReading("but last", (chosen.length - chosen.stop,)))
    else:
        names.append(AxisReading("between", (chosen.start, chosen.stop)))
    return (AxisReading("at", (chosen.start,)), *names) if chosen.count == 1 else tuple(names)


def where_reading(where: Where) -> WhereReading:
    """The set with its own numbers."""
    if where.is_all:
        return EVERYTHING
    return WhereReading(tuple(axis_readings(one)[0] for one in where.axes), where.spans, where.outside, where.value)


class Feature(msgspec.Struct, frozen=True):
    """What can be said of a case by its declaration alone: a parameter, or something of a tensor."""

    kind: Literal["param", "dim", "dtype", "layout", "elements"]
    # Of a parameter its own name, with an index where it is a list; of a dim its symbol, else the tensor.
    name: str
    # Of a dim without a symbol of its own.
    axis: int | None = None


class Condition(msgspec.Struct, frozen=True):
    """A feature held to a value."""

    feature: Feature
    sign: Literal["=", "≥", "≤", "multiple", "no multiple"]
    value: int | float | str | bool
    # Of ≥ and ≤: the nearest value of a case that passes, and whether nothing between was run; None where the rule has
    # more than this condition.
    nearest: int | float | None = None
    gap: bool = False


class Rule(msgspec.Struct, frozen=True):
    """Conditions that hold together of the cases that fail."""

    conditions: tuple[Condition, ...]
    # Cases that pass although all conditions hold; 0 where the rule separates.
    passing_inside: int
    passing_outside: int
    # Cases of the operator that fail for other causes, by whether all conditions hold.
    failing_inside: int = 0
    failing_outside: int = 0

    @property
    def passing(self) -> Condition | None:
        """What holds of the cases that pass and of none that fails, where a limit alone tells them apart."""
        first, *more = self.conditions
        if more or self.failing_outside or first.nearest is None or first.sign not in ("≥", "≤"):
            return None
        return replace(first, sign="≤" if first.sign == "≥" else "≥", value=first.nearest)


class LinePattern(msgspec.Struct, frozen=True):
    """How wrong elements lie along an axis, in all cases."""

    kind: LineKind
    axis: int


class Headline(msgspec.Struct, frozen=True):
    """One group of failures in a sentence."""

    operator: str
    output: str
    cases: int
    law: Law | None = None
    where: WhereReading | None = None
    # All of the place is wrong or right by accident, not just some of it.
    fills: bool = True
    # Other outputs that are wrong in most of the cases.
    also: tuple[str, ...] = ()
    # Equally simple rules that separate equally well.
    rules: tuple[Rule, ...] = ()
    # Wrong elements and all elements of a case, where these are the same numbers in all of them; else 0.
    wrong: int = 0
    size: int = 0
    # The least and the largest share of wrong elements in a case; None: not known.
    percent: tuple[int, int] | None = None
    # Without a place: the lines that wrong elements fill.
    lines: LinePattern | None = None


# Elements in an index or a slice per axis: as programmers write them, in any language.


_SLICES: Final = {
    "all": ":",
    "from": "{0}:",
    "below": ":{0}",
    "but last": ":-{0}",
    "at": "{0}",
    "between": "{0}:{1}",
    "behind": "n // {0} * {0}:",
}


def _format_axis(axis: AxisReading) -> str:
    numbers = axis.numbers
    stop = str(numbers[3]) if len(numbers) > 3 else ""
    match axis.kind:
        case "last":
            return "-1" if numbers[0] == 1 else f"-{numbers[0]}:"
        case "every":
            return f"{numbers[1] or ''}:{stop}:{numbers[0]}"
        case "blocks":
            return f"{numbers[1]}:{numbers[1] + numbers[2]} + k * {numbers[0]}{stop and f' < {stop}'}"
        case "listed":
            return f"[{', '.join(map(str, numbers))}]"
    return _SLICES[axis.kind].format(*numbers)


def _format_slices(output: str, axes: Iterable[AxisReading]) -> str:
    """`data_col[:, 64:]`; trailing axes that are whole are left out."""
    slices = [_format_axis(axis) for axis in axes]
    while slices and slices[-1] == ":":
        slices.pop()
    return f"{output}[{', '.join(slices)}]" if slices else output


def _format_element(output: str, index: Iterable[int]) -> str:
    return f"{output}[{', '.join(map(str, index))}]"


_AND: Final = Wording(" and ", "、")
_BOTH: Final = Wording(" and ", " 且 ")
_SETS: Final = {
    "nan": Wording("{output} where NaN belongs", "{output} 中应为 NaN的元素"),
    "infinite": Wording("{output} where infinity belongs", "{output} 中应为无穷的元素"),
    "subnormal": Wording("{output} where subnormal numbers belong", "{output} 中应为次正规数的元素"),
    "negative": Wording("{output} where negative values belong", "{output} 中应为负数的元素"),
    "zero": Wording("{output} where 0 belongs", "{output} 中应为 0的元素"),
    "outside": Wording("all of {output} but {slices}", "{output} 中除 {slices} 以外的全部元素"),
    "all": Wording("all of {output}", "{output} 的全部元素"),
}
_BEHIND_ALONG: Final = Wording(
    "{output} behind the last multiple of {0} along axis {axis}", "{output} 沿轴 {axis} 最后一个 {0} 的整倍数之后的元素"
)
_MERGED: Final = Wording("{slices}, with {merged} as one axis", "{slices}（{merged}视为一轴）")
_MERGED_AXES: Final = Wording("axes {0} to {1}", "轴 {0} 至 {1} ")
# In the order in memory.
_FLAT_SETS: Final = {
    "last": Wording("the last {0} elements of {output}", "{output} 的最后 {0} 个元素"),
    "below": Wording("the first {0} elements of {output}", "{output} 的前 {0} 个元素"),
    "but last": Wording("all but the last {0} elements of {output}", "{output} 中除最后 {0} 个以外的元素"),
    "from": Wording("the elements of {output} from {0} on (flat)", "{output} 中扁平下标从 {0} 起的元素"),
    "behind": Wording(
        "the elements of {output} behind the last multiple of {0} (flat)",
        "{output} 中扁平下标在最后一个 {0} 的整倍数之后的元素",
    ),
    "at": Wording("element {0} of {output} (flat)", "{output} 中扁平下标为 {0} 的元素"),
    "every": Wording("one in {0} elements of {output}, from {1} on,", "{output} 中从 {1} 起每 {0} 个元素中的一个"),
    "blocks": Wording(
        "{2} in every {0} elements of {output}, from {1} on,", "{output} 中从 {1} 起每 {0} 个元素中的 {2} 个"
    ),
    "between": Wording("the elements {0} to {last} of {output} (flat)", "{output} 中扁平下标 {0} 至 {last} 的元素"),
}
_LINES: Final = {
    "whole": Wording("whole lines of {0} along axis {1}", "{0} 沿轴 {1} 的若干整行"),
    "tail": Wording("the ends of lines of {0} along axis {1}", "{0} 沿轴 {1} 的若干行的末段"),
    "most": Wording("almost whole lines of {0} along axis {1}", "{0} 沿轴 {1} 的若干行中的几乎全部元素"),
}
_ELEMENTS: Final = Wording("elements of {}", "{} 中的元素")
_ONE_ELEMENT: Final = Wording("one element of {}", "{} 中 1 个元素")
_SOME_ELEMENTS: Final = Wording("{1} elements of {0}", "{} 中 {} 个元素")
_PERCENT: Final = Wording("elements of {} ({} to {} %)", "{} 中的元素（{}–{} %）")
_SHARE: Final = Wording("{0} of the {1} elements of {2}", "{2} 的 {1} 个元素中有 {0} 个")
_SCATTERED: Final = Wording("{0} scattered elements of {1}", "{1} 中 {0} 个零散的元素")
_INSTEAD: Final = Wording("{} is {} instead of {}", "{} 为 {}，应为 {}")
_ENDS: Final = Wording(", from {} to {}", "，从 {} 到 {}")
_WRONG: Final = Wording("wrong", "有误")
_PARTLY: Final = Wording("wrong, {0} of {1} elements {2}", "有误，其中 {1} 个元素中有 {0} 个{2}")
# As many elements as this are named one by one where they are scattered.
_MAX_LISTED_ELEMENTS: Final = 3


def format_set(output: str, reading: WhereReading, lang: str = "en") -> tuple[str, bool]:
    """The elements that are meant, and whether that is a plural in English."""
    slices = _format_slices(output, reading.axes)
    kind = reading.value or ("outside" if reading.outside else "all" if reading.is_all else "")
    if kind:
        return _SETS[kind].format(lang, output=output, slices=slices), False
    if len(reading.spans) == 1:
        (axis,) = reading.axes
        pattern = _FLAT_SETS.get(axis.kind, _FLAT_SETS["between"])
        words = pattern.format(lang, *axis.numbers, output=output, last=axis.numbers[-1] - 1)
        return words, axis.kind != "at"
    if reading.spans:
        merged = [_MERGED_AXES.format(lang, *ends) for ends in _merged_axes(reading.spans)]
        return _MERGED.format(lang, slices=slices, merged=_AND.format(lang).join(merged)), False
    narrow = [(axis, one) for axis, one in enumerate(reading.axes) if one.kind != "all"]
    if len(narrow) == 1 and narrow[0][1].kind == "behind":
        return _BEHIND_ALONG.format(lang, *narrow[0][1].numbers, output=output, axis=narrow[0][0]), False
    return slices, False


def _merged_axes(spans: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The first and the last of the axes that are taken as one."""
    axis = 0
    for span in spans:
        if span > 1:
            yield axis, axis + span - 1
        axis += span


def _format_scattered(output: str, wrong: int, size: int, lang: str) -> str:
    """Elements that no words describe."""
    if wrong == size:
        return _SETS["all"].format(lang, output=output)
    return _SHARE.format(lang, wrong, size, output) if 2 * wrong > size else _SCATTERED.format(lang, wrong, output)


def _format_sentence(subject: str, is_plural: bool, law: Law | None, lawful: int, wrong: int, lang: str) -> str:
    """Subject, verb and law."""
    if lang == "zh":
        # What ends in Latin letters or brackets stands off from what follows.
        verb = "" if not subject or subject[-1] > "\u2e80" or subject[-1] == " " else " "
    else:
        verb = " are " if is_plural else " is "
    if law is None:
        return f"{subject}{verb}{_WRONG.format(lang)}"
    if isinstance(law, WithinUlp):
        subject = subject.removeprefix("all of ")
    words = law.format(lang)
    return f"{subject}{verb}{_PARTLY.format(lang, lawful, wrong, words) if lawful < wrong else words}"


def format_explanation(explanation: Explanation, lang: str = "en") -> str:
    """Where and how an output of one case is wrong, in one sentence."""
    fit = explanation.best_fit
    if explanation.size == 1 and fit.law is None and explanation.samples:
        sample = explanation.samples[0]
        return _INSTEAD.format(lang, explanation.output, sample.evaluated, sample.baseline)
    subject, is_plural = _explanation_subject(explanation, lang)
    words = _format_sentence(subject, is_plural, fit.law, fit.lawful, explanation.wrong, lang)
    is_vague = fit.law is None or isinstance(fit.law, OneSided)
    if is_vague and explanation.wrong > _MAX_LISTED_ELEMENTS and explanation.first and not explanation.is_exact(fit):
        ends = (_format_element(explanation.output, index) for index in (explanation.first, explanation.last))
        words += _ENDS.format(lang, *ends)
    return words


def _explanation_subject(explanation: Explanation, lang: str) -> tuple[str, bool]:
    output, fit, wrong = explanation.output, explanation.best_fit, explanation.wrong
    if explanation.size == 1:
        return output, False
    if fit.where.is_scattered:
        if wrong <= min(_MAX_LISTED_ELEMENTS, len(explanation.samples)):
            elements = (_format_element(output, one.index) for one in explanation.samples)
            return _AND.format(lang).join(elements), wrong > 1
        return _format_scattered(output, wrong, explanation.size, lang), True
    reading = where_reading(fit.where)
    subject, is_plural = format_set(output, reading, lang)
    if explanation.is_exact(fit):
        return subject, is_plural
    if len(reading.spans) == 1:
        subject = _format_slices(f"{output}.flat", reading.axes)
    return _SHARE.format(lang, wrong, fit.inside, subject), True


_HEADLINE: Final = Wording("{}: {}{}{}", "{}：{}{}{}")
_ALSO_WRONG: Final = Wording("; {0} {1} wrong, too", "，{0} 也有误")
_WHEN: Final = Wording(", when {} ({})", "；当 {} 时（{}）")
_ONLY_WHEN: Final = Wording(", only when {} ({})", "；仅当 {} 时（{}）")
_OR_WHEN: Final = Wording(" or when ", "，或")
_FAILING: Final = Wording("{} of {}", "{}/{}")


def format_headline(headline: Headline, lang: str = "en") -> str:
    """A group of failures in one sentence."""
    sentence = _format_sentence(*_headline_subject(headline, lang), headline.law, 1, 1, lang)
    also = when = ""
    if headline.also:
        verb = "is" if len(headline.also) == 1 else "are"
        also = _ALSO_WRONG.format(lang, _AND.format(lang).join(headline.also), verb)
    if headline.rules:
        first = headline.rules[0]
        rules = _OR_WHEN.format(lang).join(_format_rule(rule, lang) for rule in headline.rules)
        pattern = _ONLY_WHEN if first.passing_inside else _WHEN
        when = pattern.format(lang, rules, _format_failing(headline, first, lang))
    return _HEADLINE.format(lang, headline.operator, sentence, also, when)


def format_headline_parts(headline: Headline) -> tuple[str, str, str]:
    """Place, law and condition of a headline in English, each empty where it has none."""
    place = "" if headline.where is None else format_set(headline.output, headline.where)[0]
    law = "" if headline.law is None else headline.law.format()
    return place, law, " or ".join(_format_rule(rule, "en") for rule in headline.rules)


def _headline_subject(headline: Headline, lang: str) -> tuple[str, bool]:
    output, wrong, size = headline.output, headline.wrong, headline.size
    if size == 1:
        return output, False
    if headline.where is not None:
        subject, is_plural = format_set(output, headline.where, lang)
        return (subject, is_plural) if headline.fills else (_ELEMENTS.format(lang, subject), True)
    if headline.lines is not None:
        return _LINES[headline.lines.kind].format(lang, output, headline.lines.axis), True
    if size and wrong > 1:
        return _format_scattered(output, wrong, size, lang), wrong < size
    if wrong:
        return (_ONE_ELEMENT if wrong == 1 else _SOME_ELEMENTS).format(lang, output, wrong), wrong > 1
    if headline.percent is not None and headline.law is None:
        return _PERCENT.format(lang, output, *headline.percent), True
    return _ELEMENTS.format(lang, output), True


def _format_failing(headline: Headline, rule: Rule, lang: str) -> str:
    """Of the cases that keep a rule, those that fail: for whatever cause."""
    failing = headline.cases + rule.failing_inside
    return _FAILING.format(lang, failing, failing + rule.passing_inside)


def _format_rule(rule: Rule, lang: str) -> str:
    return _BOTH.format(lang).join(_format_condition(condition, lang) for condition in rule.conditions)


_IS: Final = Wording("{} is {}", "{} 为 {}")
_COUNTS: Final = {"=": "{} has {} elements", "≥": "{} has at least {} elements", "≤": "{} has at most {} elements"}
_ELEMENT_COUNT: Final = Wording("the number of elements of {}", "{} 的元素个数")
_MULTIPLES: Final = {
    "multiple": Wording("{} is a multiple of {}", "{} 为 {} 的倍数"),
    "no multiple": Wording("{} is no multiple of {}", "{} 不是 {} 的倍数"),
}
_PARITIES: Final = {
    "multiple": Wording("{} is even", "{} 为偶数"),
    "no multiple": Wording("{} is odd", "{} 为奇数"),
}


def _format_condition(condition: Condition, lang: str) -> str:
    """A feature and what it is held to."""
    feature, sign, value = condition.feature, condition.sign, condition.value
    name = feature.name if feature.axis is None else f"{feature.name}.shape[{feature.axis}]"
    if feature.kind in ("dtype", "layout"):
        return _IS.format(lang, feature.name, value)
    if feature.kind == "elements":
        if lang == "en" and sign in _COUNTS:
            return _COUNTS[sign].format(feature.name, value)
        name = _ELEMENT_COUNT.format(lang, feature.name)
    if sign in _MULTIPLES:
        return (_PARITIES if value == 2 else _MULTIPLES)[sign].format(lang, name, value)
    return f"{name} {sign} {value}"


_FAILS: Final = Wording("fails when {} ({})", "当 {} 时失败（{}）")
_FAILS_ONLY: Final = Wording("fails only when {} ({})", "仅当 {} 时失败（{}）")
_OTHERS_FAIL: Final = Wording(
    "{}; of the others {} pass and {} fail in other ways", "{}；其余用例中 {} 个通过，{} 个以其他方式失败"
)
_OTHERS_PASS: Final = Wording("{}; all {} others pass", "{}，其余 {} 个全部通过")
_PASSES_OTHERWISE: Final = Wording("{}, passes otherwise ({})", "{}，否则通过（{}）")
_PASSES_WHEN: Final = Wording("{}, passes when {} ({}){}", "{}，当 {} 时通过（{}）{}")
_GAP: Final = Wording("; nothing between was run", "；两者之间没有用例")


def format_support(headline: Headline, lang: str = "en") -> tuple[str, ...]:
    """What each rule of a headline rests on: of the cases that were run, which fail and which pass."""
    return tuple(_format_support(headline, rule, lang) for rule in headline.rules)


def _format_support(headline: Headline, rule: Rule, lang: str) -> str:
    is_only = rule.passing_inside and not rule.failing_outside
    pattern = _FAILS_ONLY if is_only else _FAILS
    fails = pattern.format(lang, _format_rule(rule, lang), _format_failing(headline, rule, lang))
    if rule.failing_outside:
        return _OTHERS_FAIL.format(lang, fails, rule.passing_outside, rule.failing_outside)
    if is_only:
        return _OTHERS_PASS.format(lang, fails, rule.passing_outside)
    if rule.passing is None:
        return _PASSES_OTHERWISE.format(lang, fails, rule.passing_outside)
    gap = _GAP.format(lang) if rule.passing.gap else ""
    return _PASSES_WHEN.format(lang, fails, _format_condition(rule.passing, lang), rule.passing_outside, gap)
