"""Where and how outputs are wrong, in English."""

from typing import Final

from mluops_gtest.model import explanation as x
from mluops_gtest.model.headline import Condition, Feature, Headline, Rule
from mluops_gtest.model.readings import WhereReading
from mluops_gtest.model.reasons.notation import flat_words, merged_axes, sliced
from mluops_gtest.model.reasons.worded import Words, worded

VALUES: Final = {
    "nan": "where NaN belongs",
    "infinite": "where infinity belongs",
    "subnormal": "where subnormal numbers belong",
    "negative": "where negative values belong",
    "zero": "where 0 belongs",
}
FLAT: Final = {
    "last": "the last {0} elements of {output}",
    "below": "the first {0} elements of {output}",
    "but last": "all but the last {0} elements of {output}",
    "from": "the elements of {output} from {0} on (flat)",
    "behind": "the elements of {output} behind the last multiple of {0} (flat)",
    "at": "element {0} of {output} (flat)",
    "every": "one in {0} elements of {output}, from {1} on,",
    "blocks": "{2} in every {0} elements of {output}, from {1} on,",
    "between": "the elements {0} to {last} of {output} (flat)",
}
AND: Final = " and "
COMMA: Final = ", "


def subject(output: str, reading: WhereReading) -> tuple[str, bool]:
    """The elements that are meant, and whether that is a plural."""
    if reading.value:
        return f"{output} {VALUES[reading.value]}", False
    named = sliced(output, reading.axes)
    if reading.outside:
        return f"all of {output} but {named}", False
    if reading.is_all:
        return f"all of {output}", False
    if len(reading.spans) == 1:
        return flat_words(FLAT, output, reading), reading.axes[0].kind != "at"
    narrow = [(axis, one) for axis, one in enumerate(reading.axes) if one.kind != "all"]
    if not reading.spans and len(narrow) == 1 and narrow[0][1].kind == "behind":
        axis, behind = narrow[0]
        return f"{output} behind the last multiple of {behind.numbers[0]} along axis {axis}", False
    if not reading.spans:
        return named, False
    merged = AND.join(f"axes {first} to {last}" for first, last in merged_axes(reading.spans))
    return f"{named}, with {merged} as one axis", False


def scattered(output: str, wrong: int, size: int) -> str:
    """Elements that no words describe."""
    if wrong == size:
        return f"all of {output}"
    return (
        f"{wrong} of the {size} elements of {output}" if 2 * wrong > size else f"{wrong} scattered elements of {output}"
    )


def share(wrong: int, inside: int, where: str) -> str:
    """Part of a set."""
    return f"{wrong} of the {inside} elements of {where}"


def sentence(subject: str, is_plural: bool, law: x.Law | None, lawful: int, wrong: int) -> str:
    """Subject, verb and law."""
    verb = "are" if is_plural else "is"
    if law is None:
        return f"{subject} {verb} wrong"
    words = worded(LAWS, law)
    if lawful < wrong:
        return f"{subject} {verb} wrong, {lawful} of {wrong} elements {words}"
    return f"{subject} {verb} {words}"


def _off(law: x.OffBy) -> str:
    return f"{abs(law.amount):.7g} too {'large' if law.amount > 0 else 'small'}"


def _rounded(law: x.RoundedTo) -> str:
    return (
        f"rounded to {law.precision}"
        if law.once
        else f"no more precise than {law.precision} and further off than one rounding"
    )


def _permuted(law: x.PermutedAlong) -> str:
    moved = [index for index, source in enumerate(law.order) if index != source]
    return f"wrong: indices {moved[0]} and {moved[1]} of axis {law.axis} are swapped"


def _laid_out(law: x.LaidOut) -> str:
    moved = [axis for axis, source in enumerate(law.order) if axis != source]
    if len(moved) == 2:
        return f"laid out with the axes {moved[0]} and {moved[1]} swapped"
    return f"laid out with the axes in the order {COMMA.join(map(str, law.order))}"


def _taken(law: x.TakenFrom) -> str:
    steps = [f"{_steps(by)} along axis {axis}" for axis, by in enumerate(law.offset) if by]
    return f"the value that belongs {AND.join(steps)}"


def _steps(by: int) -> str:
    return f"{abs(by)} {'further' if by > 0 else 'before'}"


_SIDES: Final = {
    "smaller": "too small",
    "larger": "too large",
    "nearer to zero": "too near to zero",
    "further from zero": "too far from zero",
}
LAWS: Final[Words] = {
    x.NeverWritten: "never written",
    x.KeptPreset: "left at the preset {0.value}",
    x.TurnedNan: "NaN",
    x.TurnedInfinite: "infinite",
    x.TurnedZero: "zero",
    x.SaturatedAt: "saturated at {0.limit}",
    x.TurnedConstant: "{0.value} throughout",
    x.Negated: "of the wrong sign",
    x.LostSign: "without its sign",
    x.ScaledBy: "scaled by {0.factor:.7g}",
    x.OffBy: _off,
    x.WrappedTo: lambda law: f"wrapped to {law.bits} bits{'' if law.signed else ' without a sign'}",
    x.RoundedTo: _rounded,
    x.PermutedAlong: _permuted,
    x.RepeatedAlong: "what belongs at index {0.index} of axis {0.axis}",
    x.ReversedAlong: "reversed along axis {0.axis}",
    x.LaidOut: _laid_out,
    x.TakenFrom: _taken,
    x.TakenFromFlat: lambda law: f"the value that belongs {_steps(law.offset)} in memory",
    x.ReorderedAlong: "in another order along axis {0.axis}",
    x.AsIf: "as if {0.mistake}",
    x.RoundedInputs: "as if the inputs were rounded to {0.precision}",
    x.OneSided: lambda law: _SIDES[law.side],
}


def headline(found: Headline) -> str:
    """The whole group in a sentence."""
    when = f", {_when(found)}" if found.rules else ""
    return f"{found.operator}: {cause(found)}{when}"


def cause(found: Headline) -> str:
    """Where and how, over all cases of the group."""
    if found.where is not None and found.size != 1:
        who, is_plural = subject(found.output, found.where)
        if not found.fills:
            who, is_plural = f"elements of {who}", True
    elif found.size == 1:
        who, is_plural = found.output, False
    elif found.size and found.wrong > 1:
        who, is_plural = scattered(found.output, found.wrong, found.size), True
    elif found.wrong:
        number = "one element" if found.wrong == 1 else f"{found.wrong} elements"
        who, is_plural = f"{number} of {found.output}", found.wrong > 1
    else:
        who, is_plural = f"elements of {found.output}", True
    said = sentence(who, is_plural, found.law, 1, 1)
    part = f" in {found.fitting} of {found.cases} cases" if found.fitting < found.cases else ""
    also = f"; {AND.join(found.also)} {'is' if len(found.also) == 1 else 'are'} wrong, too" if found.also else ""
    return f"{said}{part}{also}"


def _when(found: Headline) -> str:
    first = found.rules[0]
    words = " or when ".join(rule_words(rule) for rule in found.rules)
    number = f"{found.cases} of {found.cases + first.passing_inside}"
    return f"{'only ' if first.passing_inside else ''}when {words} ({number})"


def rule_words(rule: Rule) -> str:
    """The conditions of a rule."""
    return AND.join(map(condition_words, rule.conditions))


def condition_words(condition: Condition) -> str:
    """A feature and what it is held to."""
    feature, value = condition.feature, condition.value
    if feature.kind in ("dtype", "layout"):
        return f"{feature.name} is {value}"
    if feature.kind == "elements":
        number = {"≥": "at least ", "≤": "at most "}.get(condition.sign, "")
        if condition.sign in ("=", "≥", "≤"):
            return f"{feature.name} has {number}{value} elements"
    name = _feature(feature)
    match condition.sign:
        case "multiple":
            return f"{name} is {'even' if value == 2 else f'a multiple of {value}'}"
        case "no multiple":
            return f"{name} is {'odd' if value == 2 else f'no multiple of {value}'}"
    return f"{name} {condition.sign} {value}"


def _feature(feature: Feature) -> str:
    if feature.kind == "elements":
        return f"the number of elements of {feature.name}"
    return feature.name if feature.axis is None else f"{feature.name}.shape[{feature.axis}]"


def support(found: Headline, rule: Rule) -> str:
    """What a rule rests on: of the cases that were run, which fail and which pass."""
    words = rule_words(rule)
    if rule.passing_inside:
        return (
            f"fails only when {words} ({found.cases} of {found.cases + rule.passing_inside}); "
            f"all {rule.passing_outside} others pass"
        )
    fails = f"fails when {words} ({found.cases} of {found.cases})"
    if rule.passing is None:
        return f"{fails}, passes otherwise ({rule.passing_outside})"
    gap = "; nothing between was run" if rule.passing.gap else ""
    return f"{fails}, passes when {condition_words(rule.passing)} ({rule.passing_outside}){gap}"
