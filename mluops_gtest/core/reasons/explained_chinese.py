"""Where and how outputs are wrong, in Chinese."""

from typing import Final

from mluops_gtest.core import explanation as x
from mluops_gtest.core.readings import Condition, Feature, Headline, Rule, WhereReading
from mluops_gtest.core.reasons.notation import Words, subject_words, worded

AND: Final = "、"
SUBJECTS: Final = {
    "nan": "{output} 中应为 NaN的元素",
    "infinite": "{output} 中应为无穷的元素",
    "subnormal": "{output} 中应为次正规数的元素",
    "negative": "{output} 中应为负数的元素",
    "zero": "{output} 中应为 0的元素",
    "outside": "{output} 中除 {named} 以外的全部元素",
    "all": "{output} 的全部元素",
    "behind along": "{output} 沿轴 {axis} 最后一个 {0} 的整倍数之后的元素",
    "merged": "{named}（{merged}视为一轴）",
    "axes": "轴 {0} 至 {1} ",
    "and": AND,
    # In the order in memory.
    "last": "{output} 的最后 {0} 个元素",
    "below": "{output} 的前 {0} 个元素",
    "but last": "{output} 中除最后 {0} 个以外的元素",
    "from": "{output} 中扁平下标从 {0} 起的元素",
    "behind": "{output} 中扁平下标在最后一个 {0} 的整倍数之后的元素",
    "at": "{output} 中扁平下标为 {0} 的元素",
    "every": "{output} 中从 {1} 起每 {0} 个元素中的一个",
    "blocks": "{output} 中从 {1} 起每 {0} 个元素中的 {2} 个",
    "between": "{output} 中扁平下标 {0} 至 {last} 的元素",
}
LINES: Final = {
    "whole": "{0} 沿轴 {1} 的若干整行",
    "tail": "{0} 沿轴 {1} 的若干行的末段",
    "most": "{0} 沿轴 {1} 的若干行中的几乎全部元素",
}
INSTEAD: Final = "{} 为 {}，应为 {}"
BETWEEN: Final = "，从 {} 到 {}"
ELEMENTS: Final = "{} 中的元素"
ONE: Final = "{} 中 1 个元素"
SOME: Final = "{} 中 {} 个元素"
PERCENT: Final = "{} 中的元素（{}–{} %）"


def subject(output: str, reading: WhereReading) -> tuple[str, bool]:
    """The elements that are meant; Chinese has no plural."""
    return subject_words(SUBJECTS, output, reading), False


def scattered(output: str, wrong: int, size: int) -> str:
    """Elements that no words describe."""
    if wrong == size:
        return f"{output} 的全部元素"
    return f"{output} 的 {size} 个元素中有 {wrong} 个" if 2 * wrong > size else f"{output} 中 {wrong} 个零散的元素"


def share(wrong: int, inside: int, where: str) -> str:
    """Part of a set."""
    return f"{where} 的 {inside} 个元素中有 {wrong} 个"


def sentence(subject: str, is_plural: bool, law: x.Law | None, lawful: int, wrong: int) -> str:  # noqa: ARG001
    """Subject and law."""
    # What ends in Latin letters or brackets stands off from what follows.
    stand_off = "" if not subject or subject[-1] > "\u2e80" or subject[-1] == " " else " "
    if law is None:
        return f"{subject}{stand_off}有误"
    words = worded(LAWS, law)
    if lawful < wrong:
        return f"{subject}{stand_off}有误，其中 {wrong} 个元素中有 {lawful} 个{words}"
    return f"{subject}{stand_off}{words}"


def _off(law: x.OffBy) -> str:
    return f"偏{'大' if law.amount > 0 else '小'} {abs(law.amount):.7g}"


def _rounded(law: x.RoundedTo) -> str:
    precision = _precision(law.precision)
    return f"被{_narrowed(law)}为 {precision}" if law.once else f"只有 {precision} 的精度，且不能全由一次舍入解释"


def _narrowed(law: x.RoundedTo | x.RoundedInputs) -> str:
    return "截断" if law.is_truncated else "舍入"


def _precision(name: str) -> str:
    return name.replace(" or ", " 或 ")


def _permuted(law: x.PermutedAlong) -> str:
    moved = [index for index, source in enumerate(law.order) if index != source]
    return f"沿轴 {law.axis} 的下标 {moved[0]} 与 {moved[1]} 互换"


def _laid_out(law: x.LaidOut) -> str:
    moved = [axis for axis, source in enumerate(law.order) if axis != source]
    if len(moved) == 2:
        return f"按轴 {moved[0]} 与轴 {moved[1]} 互换后的布局存放"
    return f"按轴序 {', '.join(map(str, law.order))} 的布局存放"


def _taken(law: x.TakenFrom) -> str:
    steps = [f"沿轴 {axis} {_steps(by)}" for axis, by in enumerate(law.offset) if by]
    return f"为{AND.join(steps)}处应有的值"


def _steps(by: int) -> str:
    return f"往{'后' if by > 0 else '前'} {abs(by)} 个位置"


_SIDES: Final = {
    "smaller": "偏小",
    "larger": "偏大",
    "nearer to zero": "绝对值偏小",
    "further from zero": "绝对值偏大",
}
LAWS: Final[Words] = {
    x.NeverWritten: "从未写入",
    x.KeptPreset: "保持预置值 {0.value}",
    x.TurnedNan: "为 NaN",
    x.TurnedInfinite: "为无穷",
    x.TurnedZero: "为 0",
    x.SaturatedAt: "在 {0.limit} 处饱和",
    x.TurnedConstant: "均为 {0.value}",
    x.Negated: "符号相反",
    x.LostSign: "丢失符号",
    x.ScaledBy: "为正确值的 {0.factor:.7g} 倍",
    x.OffBy: _off,
    x.WrappedTo: lambda law: f"按 {law.bits} 位{'有' if law.signed else '无'}符号数回绕",
    x.RoundedTo: _rounded,
    x.PermutedAlong: _permuted,
    x.RepeatedAlong: "均为轴 {0.axis} 下标 {0.index} 处应有的值",
    x.ReversedAlong: "沿轴 {0.axis} 颠倒",
    x.LaidOut: _laid_out,
    x.TakenFrom: _taken,
    x.TakenFromFlat: lambda law: f"为内存中{_steps(law.offset)}处应有的值",
    x.ReorderedAlong: "沿轴 {0.axis} 的顺序不同",
    x.AsIf: "与以下错误的结果一致：{0.mistake}",
    x.RoundedInputs: lambda law: f"与输入被{_narrowed(law)}为 {_precision(law.precision)} 的结果一致",
    x.BelongElsewhere: "为其他元素的正确值",
    x.MisplacedZeros: "为 0，或在应为 0 处不为 0",
    x.WithinUlp: "与基准相差不超过 {0.ulp} ulp",
    x.OneSided: lambda law: _SIDES[law.side],
}


def headline(found: Headline, said: str) -> str:
    """The whole group in a sentence; `said` is where and how, over all its cases."""
    also = f"，{AND.join(found.also)} 也有误" if found.also else ""
    when = f"；{_when(found)}" if found.rules else ""
    return f"{found.operator}：{said}{also}{when}"


def _when(found: Headline) -> str:
    first = found.rules[0]
    words = "，或".join(rule_words(rule) for rule in found.rules)
    return f"{'仅' if first.passing_inside else ''}当 {words} 时（{_share(found, first)}）"


def _share(found: Headline, rule: Rule) -> str:
    """Of the cases that keep a rule, those that fail: for whatever cause."""
    failing = found.cases + rule.failing_inside
    return f"{failing}/{failing + rule.passing_inside}"


def rule_words(rule: Rule) -> str:
    """The conditions of a rule."""
    return " 且 ".join(map(condition_words, rule.conditions))


def condition_words(condition: Condition) -> str:
    """A feature and what it is held to."""
    feature, value = condition.feature, condition.value
    if feature.kind in ("dtype", "layout"):
        return f"{feature.name} 为 {value}"
    name = _feature(feature)
    match condition.sign:
        case "multiple":
            return f"{name} 为{'偶数' if value == 2 else f' {value} 的倍数'}"
        case "no multiple":
            return f"{name} {'为奇数' if value == 2 else f'不是 {value} 的倍数'}"
    return f"{name} {condition.sign} {value}"


def _feature(feature: Feature) -> str:
    if feature.kind == "elements":
        return f"{feature.name} 的元素个数"
    return feature.name if feature.axis is None else f"{feature.name}.shape[{feature.axis}]"


def support(found: Headline, rule: Rule) -> str:
    """What a rule rests on: of the cases that were run, which fail and which pass."""
    fails = f"当 {rule_words(rule)} 时失败（{_share(found, rule)}）"
    if rule.failing_outside:
        return f"{fails}；其余用例中 {rule.passing_outside} 个通过，{rule.failing_outside} 个以其他方式失败"
    if rule.passing_inside:
        return f"仅{fails}，其余 {rule.passing_outside} 个全部通过"
    if rule.passing is None:
        return f"{fails}，否则通过（{rule.passing_outside}）"
    gap = "；两者之间没有用例" if rule.passing.gap else ""
    return f"{fails}，当 {condition_words(rule.passing)} 时通过（{rule.passing_outside}）{gap}"
