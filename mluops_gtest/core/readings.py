"""Sets of elements and laws in the form in which several cases can share them: "the last 2 rows" fits any length."""

from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from mluops_gtest.core.explanation import AxisSet, Law, LineKind, Where

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


def _up_to(reading: AxisReading, stop: int) -> AxisReading:
    return AxisReading(reading.kind, (*(*reading.numbers, 1)[:3], stop))


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
        return (reading,) if reading.of(chosen.length) == chosen else (_up_to(reading, chosen.stop),)
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
