"""What is wrong with an output, as types: which elements, and how their values relate to the right ones.

Made during the run, while the values are there; a law carries its words in both languages. What cases have in common
is found later, from all of them (see core/readings.py and judging/groups.py).
"""

import math
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from mluops_gtest.base.frozen import snake_case
from mluops_gtest.core.outcome import Worded, Wording, union_of_kinds

# Of one output by this version: enough to see what is meant, small enough for two thousand cases that fail.
MAX_SAMPLES: Final = 24
# What a file may have.
MAX_STORED_SAMPLES: Final = 256
# Rows and columns of a map.
MAX_CELLS: Final = 32
# Indices of one axis that are told one by one.
MAX_LISTED: Final = 4


# Along an axis: all of a line is wrong or nothing, or what is behind a wrong element is wrong as well, or lines with a
# wrong element are almost all wrong.
LineKind = Literal["whole", "tail", "most"]


class AxisSet(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Indices along an axis of `length`: of every `step` from `start` on the first `width`, as far as `stop`.

    Where `listed` has some, it is those; where `loose`, it is some of the others, nobody says which, and none besides.
    """

    length: int
    start: int
    # Behind the last.
    stop: int
    step: int = 1
    width: int = 1
    listed: tuple[int, ...] = ()
    loose: bool = False

    @property
    def is_all(self) -> bool:
        return self.is_interval and self.start == 0 and self.stop == self.length

    @property
    def is_interval(self) -> bool:
        """All from the first to the last."""
        return self.step == 1 and not self.listed and not self.loose

    @property
    def count(self) -> int:
        """How many indices they are; of a loose set how many they may be."""
        if self.listed:
            return len(self.listed)
        whole, rest = divmod(self.stop - self.start, self.step)
        return whole * self.width + min(rest, self.width)


class Where(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A set of elements: a product of sets along the axes or all but that, or by the right value; none: scattered."""

    axes: tuple[AxisSet, ...] = ()
    # How many axes of the output each of them spans, the first one first; empty: one each.
    spans: tuple[int, ...] = ()
    # Any product of sets between these two is as true: the indices that wrong elements have, and all that could be
    # told beside them without a wrong word. Empty: the hull of the explanation, and the axes themselves.
    least: tuple[AxisSet, ...] = ()
    most: tuple[AxisSet, ...] = ()
    # All elements but these.
    outside: bool = False
    # What the right values are; the set is all elements of which that holds.
    value: Literal["", "nan", "infinite", "subnormal", "negative", "zero"] = ""

    @property
    def is_scattered(self) -> bool:
        """No words are shorter than a list."""
        return not self.axes and not self.value

    @property
    def is_all(self) -> bool:
        return bool(self.axes) and not self.outside and all(axis.is_all for axis in self.axes)


class _Law(Worded, tag_field="law", tag=snake_case):
    """How wrong values come about; equal ones are the same law. Of two that hold, the first one here says more."""


def _narrowing(is_truncated: bool) -> Wording:
    """How a value becomes narrower."""
    return Wording("truncated", "截断") if is_truncated else Wording("rounded", "舍入")


def _precision_zh(name: str) -> str:
    return name.replace(" or ", " 或 ")


def _moved(order: tuple[int, ...]) -> list[int]:
    """The places that hold what belongs elsewhere."""
    return [place for place, source in enumerate(order) if place != source]


def _format_steps(by: int) -> Wording:
    """A distance with its direction."""
    return Wording(f"{abs(by)} {'further' if by > 0 else 'before'}", f"往{'后' if by > 0 else '前'} {abs(by)} 个位置")


_SIDES: Final = {
    "smaller": Wording("too small", "偏小"),
    "larger": Wording("too large", "偏大"),
    "nearer to zero": Wording("too near to zero", "绝对值偏小"),
    "further from zero": Wording("too far from zero", "绝对值偏大"),
}


class NeverWritten(_Law):
    """They hold what was there before the call."""

    en = "never written"
    zh = "从未写入"


class PresetUnchanged(_Law, tag="kept_preset"):
    """They hold what the caller preset."""

    value: int

    en = "left at the preset {value}"
    zh = "保持预置值 {value}"


class TurnedNan(_Law):
    """NaN where a number belongs."""

    en = "NaN"
    zh = "为 NaN"


class TurnedInfinite(_Law):
    """Infinite where a number belongs."""

    en = "infinite"
    zh = "为无穷"


class TurnedZero(_Law):
    """0 where something else belongs."""

    en = "zero"
    zh = "为 0"


class SaturatedAt(_Law):
    """The right values lie beyond a limit, the wrong ones on it."""

    limit: str

    en = "saturated at {limit}"
    zh = "在 {limit} 处饱和"


class TurnedConstant(_Law):
    """One value everywhere."""

    value: str

    en = "{value} throughout"
    zh = "均为 {value}"


class WrappedTo(_Law):
    """The low bits of the right value, with a sign or without."""

    bits: int
    signed: bool

    def en(self) -> str:
        """A sign is not worth a word."""
        return f"wrapped to {self.bits} bits{'' if self.signed else ' without a sign'}"

    def zh(self) -> str:
        """With a sign or without."""
        return f"按 {self.bits} 位{'有' if self.signed else '无'}符号数回绕"


class Negated(_Law):
    """The other sign."""

    en = "of the wrong sign"
    zh = "符号相反"


class LostSign(_Law):
    """The magnitude of the right value."""

    en = "without its sign"
    zh = "丢失符号"


class ScaledBy(_Law):
    """The right value times a factor."""

    factor: float

    en = "scaled by {factor:.7g}"
    zh = "为正确值的 {factor:.7g} 倍"


class OffBy(_Law):
    """The right value plus an amount."""

    amount: float

    def en(self) -> str:
        """The amount, and on which side."""
        return f"{abs(self.amount):.7g} too {'large' if self.amount > 0 else 'small'}"

    def zh(self) -> str:
        """The amount, and on which side."""
        return f"偏{'大' if self.amount > 0 else '小'} {abs(self.amount):.7g}"


class RoundedTo(_Law):
    """The right value rounded once to a narrower type; else what that type holds, further away than one rounding."""

    precision: str
    once: bool = True
    # Towards zero, not to the nearest.
    is_truncated: bool = False

    def en(self) -> str:
        """The type, and how the values came to it."""
        if self.once:
            return f"{_narrowing(self.is_truncated).en} to {self.precision}"
        return f"no more precise than {self.precision}, and one rounding does not explain all of it"

    def zh(self) -> str:
        """The type, and how the values came to it."""
        precision = _precision_zh(self.precision)
        if self.once:
            return f"被{_narrowing(self.is_truncated).zh}为 {precision}"
        return f"只有 {precision} 的精度，且不能全由一次舍入解释"


class PermutedAlong(_Law):
    """At index i of an axis stands what belongs to order[i]."""

    axis: int
    order: tuple[int, ...]

    en = "wrong: indices {swapped[0]} and {swapped[1]} of axis {axis} are swapped"
    zh = "沿轴 {axis} 的下标 {swapped[0]} 与 {swapped[1]} 互换"

    @property
    def swapped(self) -> list[int]:
        """The indices that hold what belongs elsewhere."""
        return _moved(self.order)


class RepeatedAlong(_Law):
    """What belongs to one index of an axis stands at all of them."""

    axis: int
    index: int

    en = "what belongs at index {index} of axis {axis}"
    zh = "均为轴 {axis} 下标 {index} 处应有的值"


class ReversedAlong(_Law):
    """The right values from the last to the first."""

    axis: int

    en = "reversed along axis {axis}"
    zh = "沿轴 {axis} 颠倒"


class LaidOut(_Law):
    """The right values in the order in memory that they have with their axes in this order."""

    order: tuple[int, ...]

    def en(self) -> str:
        """Two axes that are swapped, else all axes."""
        if len(moved := _moved(self.order)) == 2:
            return f"laid out with the axes {moved[0]} and {moved[1]} swapped"
        return f"laid out with the axes in the order {', '.join(map(str, self.order))}"

    def zh(self) -> str:
        """Two axes that are swapped, else all axes."""
        if len(moved := _moved(self.order)) == 2:
            return f"按轴 {moved[0]} 与轴 {moved[1]} 互换后的布局存放"
        return f"按轴序 {', '.join(map(str, self.order))} 的布局存放"


class ShiftedAlongAxes(_Law, tag="taken_from"):
    """The right value of another element: so many indices further along each axis."""

    offset: tuple[int, ...]

    def en(self) -> str:
        """The steps along each axis."""
        steps = [f"{_format_steps(by).en} along axis {axis}" for axis, by in enumerate(self.offset) if by]
        return f"the value that belongs {' and '.join(steps)}"

    def zh(self) -> str:
        """The steps along each axis."""
        steps = [f"沿轴 {axis} {_format_steps(by).zh}" for axis, by in enumerate(self.offset) if by]
        return f"为{'、'.join(steps)}处应有的值"


class ShiftedInMemory(_Law, tag="taken_from_flat"):
    """The right value of another element: so many elements further in memory."""

    offset: int

    en = "the value that belongs {steps.en} in memory"
    zh = "为内存中{steps.zh}处应有的值"

    @property
    def steps(self) -> Wording:
        """The offset in words."""
        return _format_steps(self.offset)


class ReorderedAlong(_Law):
    """The right values of an axis in another order."""

    axis: int

    en = "in another order along axis {axis}"
    zh = "沿轴 {axis} 的顺序不同"


class AsIf(_Law):
    """What comes out by a mistake that the operator names, in its words."""

    mistake: str

    en = "as if {mistake}"
    zh = "与以下错误的结果一致：{mistake}"


class RoundedInputs(_Law):
    """What the reference makes of inputs that are rounded to a narrower type."""

    precision: str
    is_truncated: bool = False

    def en(self) -> str:
        """The type of the inputs."""
        return f"as if the inputs were {_narrowing(self.is_truncated).en} to {self.precision}"

    def zh(self) -> str:
        """The type of the inputs."""
        return f"与输入被{_narrowing(self.is_truncated).zh}为 {_precision_zh(self.precision)} 的结果一致"


class BelongElsewhere(_Law):
    """Right values of other elements, no one rule says which."""

    en = "right values of other elements"
    zh = "为其他元素的正确值"


class MisplacedZeros(_Law):
    """0 where something else belongs, and something else where 0 belongs."""

    en = "zero, or not zero where 0 belongs"
    zh = "为 0，或在应为 0 处不为 0"


class WithinUlp(_Law):
    """No element is further from its right value than so many units in the last place: they differ by rounding."""

    ulp: int

    en = "within {ulp} ulp of the baseline everywhere"
    zh = "与基准相差不超过 {ulp} ulp"


class OneSided(_Law):
    """All wrong values lie on one side of the right ones."""

    side: Literal["smaller", "larger", "nearer to zero", "further from zero"]

    en = "{excess.en}"
    zh = "{excess.zh}"

    @property
    def excess(self) -> Wording:
        """The side in words."""
        return _SIDES[self.side]


if TYPE_CHECKING:
    Law = _Law
else:
    Law = union_of_kinds(_Law, globals().copy())


class WrongSample(msgspec.Struct, frozen=True, gc=False):
    """One wrong element; values as text, so that NaN survives JSON."""

    index: tuple[int, ...]
    evaluated: str
    baseline: str


class WrongMap(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Where wrong elements lie: a sign per cell of a map, row by row, `.` for none, 1 … 9 for some, # for all.

    The last axis runs across, all others down; or `width` elements across where a long and thin output is folded.
    """

    rows: int
    columns: int
    cells: str
    # 0: the map is not folded.
    width: int = 0


class Fitted(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A law that holds of wrong elements, and the set of elements that it fills; or a set alone."""

    law: Law | None
    where: Where
    # Elements of `where`, and how many of these are right and would be so by the law as well.
    inside: int = 0
    agreeing: int = 0
    # Other exact sets in other words, for what cases have in common.
    also: tuple[Where, ...] = ()
    # Wrong elements that the law holds of.
    lawful: int = 0
    # Chance does not explain that it holds.
    sure: bool = False


class Explanation(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Where an output is wrong, and how."""

    output: str
    # Of the rows that the operator owns.
    dims: tuple[int, ...]
    # Elements beyond what they are held to: beyond what arithmetic allows, beyond tolerance, unequal, or not written.
    wrong: int
    held_to: Literal["bound", "tolerance", "equality", "written"]
    # What is told first, then other laws that hold, at last the set without a law.
    fitted: tuple[Fitted, ...]
    # Along each axis the indices that wrong elements have.
    hull: tuple[AxisSet, ...] = ()
    # Along each axis how wrong elements lie on its lines; None: in no such way.
    lines: tuple[LineKind | None, ...] = ()
    # The first and the last wrong element in memory; empty in old files.
    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    map: WrongMap | None = None
    samples: tuple[WrongSample, ...] = ()

    @property
    def size(self) -> int:
        return math.prod(self.dims)

    @property
    def best_fit(self) -> Fitted:
        """The law that chance does not explain, with its set; a set alone where there is no such law."""
        return next((one for one in self.fitted if one.sure), self.fitted[-1])

    @property
    def law(self) -> Law | None:
        """What can be said of the wrong values, at least of most; None where nothing simple holds."""
        return self.best_fit.law

    @property
    def is_certain(self) -> bool:
        """A law holds of all wrong elements, and chance does not explain it."""
        return self.best_fit.law is not None and self.best_fit.lawful == self.wrong

    def holding(self, law: Law | None) -> Fitted | None:
        """How the law, or the set without one, fits; None where it does not hold of all wrong elements."""
        return next((one for one in self.fitted if one.law == law and one.lawful == self.wrong), None)

    def is_exact(self, fitted: Fitted) -> bool:
        """Every element of the set is wrong, or right by accident."""
        return not fitted.where.is_scattered and self.wrong + fitted.agreeing == fitted.inside
