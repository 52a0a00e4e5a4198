"""Where and how outputs are wrong, in English."""

from typing import Final

from mluops_gtest.core import explanation as x
from mluops_gtest.core.readings import Condition, Feature, Headline, Rule, WhereReading
from mluops_gtest.core.reasons.notation import Words, subject_words, worded

AND: Final = " and "
SUBJECTS: Final = {
    "nan": "{output} where NaN belongs",
    "infinite": "{output} where infinity belongs",
    "subnormal": "{output} where subnormal numbers belong",
    "negative": "{output} where negative values belong",
    "zero": "{output} where 0 belongs",
    "outside": "all of {output} but {named}",
    "all": "all of {output}",
    "behind along": "{output} behind the last multiple of {0} along axis {axis}",
    "merged": "{named}, with {merged} as one axis",
    "axes": "axes {0} to {1}",
    "and": AND,
    # In the order in memory.
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
LINES: Final = {
    "whole": "whole lines of {0} along axis {1}",
    "tail": "the ends of lines of {0} along axis {1}",
    "most": "almost whole lines of {0} along axis {1}",
}
COMMA: Final = ", "
INSTEAD: Final = "{} is {} instead of {}"
BETWEEN: Final = ", from {} to {}"
ELEMENTS: Final = "elements of {}"
ONE: Final = "one element of {}"
SOME: Final = "{1} elements of {0}"
PERCENT: Final = "elements of {} ({} to {} %)"


def subject(output: str, reading: WhereReading) -> tuple[str, bool]:
    """The elements that are meant, and whether that is a plural."""
    is_flat = len(reading.spans) == 1 and not (reading.value or reading.outside or reading.is_all)
    return subject_words(SUBJECTS, output, reading), is_flat and reading.axes[0].kind != "at"


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
    if isinstance(law, x.WithinUlp):
        subject = subject.removeprefix("all of ")
    if lawful < wrong:
        return f"{subject} {verb} wrong, {lawful} of {wrong} elements {words}"
    return f"{subject} {verb} {words}"


def _off(law: x.OffBy) -> str:
    return f"{abs(law.amount):.7g} too {'large' if law.amount > 0 else 'small'}"


def _rounded(law: x.RoundedTo) -> str:
    if not law.once:
        return f"no more precise than {law.precision}, and one rounding does not explain all of it"
    return f"{_narrowed(law)} to {law.precision}"


def _narrowed(law: x.RoundedTo | x.RoundedInputs) -> str:
    return "truncated" if law.is_truncated else "rounded"


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
    x.RoundedInputs: lambda law: f"as if the inputs were {_narrowed(law)} to {law.precision}",
    x.BelongElsewhere: "right values of other elements",
    x.MisplacedZeros: "zero, or not zero where 0 belongs",
    x.WithinUlp: "within {0.ulp} ulp of the baseline everywhere",
    x.OneSided: lambda law: _SIDES[law.side],
}


def headline(found: Headline, said: str) -> str:
    """The whole group in a sentence; `said` is where and how, over all its cases."""
    also = f"; {AND.join(found.also)} {'is' if len(found.also) == 1 else 'are'} wrong, too" if found.also else ""
    when = f", {_when(found)}" if found.rules else ""
    return f"{found.operator}: {said}{also}{when}"


def _when(found: Headline) -> str:
    first = found.rules[0]
    words = " or when ".join(rule_words(rule) for rule in found.rules)
    return f"{'only ' if first.passing_inside else ''}when {words} ({_share(found, first)})"


def _share(found: Headline, rule: Rule) -> str:
    """Of the cases that keep a rule, those that fail: for whatever cause."""
    failing = found.cases + rule.failing_inside
    return f"{failing} of {failing + rule.passing_inside}"


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
    fails = f"when {rule_words(rule)} ({_share(found, rule)})"
    if rule.failing_outside:
        others = f"{rule.passing_outside} pass and {rule.failing_outside} fail in other ways"
        return f"fails {fails}; of the others {others}"
    if rule.passing_inside:
        return f"fails only {fails}; all {rule.passing_outside} others pass"
    if rule.passing is None:
        return f"fails {fails}, passes otherwise ({rule.passing_outside})"
    gap = "; nothing between was run" if rule.passing.gap else ""
    return f"fails {fails}, passes when {condition_words(rule.passing)} ({rule.passing_outside}){gap}"
