"""What is wrong with an output, as types: which elements, and how their values relate to the right ones.

Made during the run, while the values are there; words are made in model/reasons, once per language. What cases have in
common is found later, from all of them (see the package explain).
"""

import math
from typing import Final, Literal

import msgspec

from mluops_gtest.base.frozen import snake_case

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


class _Law(msgspec.Struct, frozen=True, tag_field="law", tag=snake_case):
    """How wrong values come about; equal ones are the same law."""


class NeverWritten(_Law, frozen=True):
    """They hold what was there before the call."""


class KeptPreset(_Law, frozen=True):
    """They hold what the caller preset."""

    value: int


class TurnedNan(_Law, frozen=True):
    """NaN where a number belongs."""


class TurnedInfinite(_Law, frozen=True):
    """Infinite where a number belongs."""


class TurnedZero(_Law, frozen=True):
    """0 where something else belongs."""


class SaturatedAt(_Law, frozen=True):
    """The right values lie beyond a limit, the wrong ones on it."""

    limit: str


class TurnedConstant(_Law, frozen=True):
    """One value everywhere."""

    value: str


class Negated(_Law, frozen=True):
    """The other sign."""


class LostSign(_Law, frozen=True):
    """The magnitude of the right value."""


class ScaledBy(_Law, frozen=True):
    """The right value times a factor."""

    factor: float


class OffBy(_Law, frozen=True):
    """The right value plus an amount."""

    amount: float


class WrappedTo(_Law, frozen=True):
    """The low bits of the right value, with a sign or without."""

    bits: int
    signed: bool


class RoundedTo(_Law, frozen=True):
    """The right value rounded once to a narrower type; else what that type holds, further away than one rounding."""

    precision: str
    once: bool = True
    # Towards zero, not to the nearest.
    is_truncated: bool = False


class PermutedAlong(_Law, frozen=True):
    """At index i of an axis stands what belongs to order[i]."""

    axis: int
    order: tuple[int, ...]


class RepeatedAlong(_Law, frozen=True):
    """What belongs to one index of an axis stands at all of them."""

    axis: int
    index: int


class ReversedAlong(_Law, frozen=True):
    """The right values from the last to the first."""

    axis: int


class LaidOut(_Law, frozen=True):
    """The right values in the order in memory that they have with their axes in this order."""

    order: tuple[int, ...]


class TakenFrom(_Law, frozen=True):
    """The right value of another element: so many indices further along each axis."""

    offset: tuple[int, ...]


class TakenFromFlat(_Law, frozen=True):
    """The right value of another element: so many elements further in memory."""

    offset: int


class ReorderedAlong(_Law, frozen=True):
    """The right values of an axis in another order."""

    axis: int


class BelongElsewhere(_Law, frozen=True):
    """Right values of other elements, no one rule says which."""


class MisplacedZeros(_Law, frozen=True):
    """0 where something else belongs, and something else where 0 belongs."""


class AsIf(_Law, frozen=True):
    """What comes out by a mistake that the operator names, in its words."""

    mistake: str


class RoundedInputs(_Law, frozen=True):
    """What the reference makes of inputs that are rounded to a narrower type."""

    precision: str
    is_truncated: bool = False


class WithinUlp(_Law, frozen=True):
    """No element is further from its right value than so many units in the last place: they differ by rounding."""

    ulp: int


class OneSided(_Law, frozen=True):
    """All wrong values lie on one side of the right ones."""

    side: Literal["smaller", "larger", "nearer to zero", "further from zero"]


Law = (
    NeverWritten
    | KeptPreset
    | TurnedNan
    | TurnedInfinite
    | TurnedZero
    | SaturatedAt
    | TurnedConstant
    | WrappedTo
    | Negated
    | LostSign
    | ScaledBy
    | OffBy
    | RoundedTo
    | PermutedAlong
    | RepeatedAlong
    | ReversedAlong
    | LaidOut
    | TakenFrom
    | TakenFromFlat
    | ReorderedAlong
    | AsIf
    | RoundedInputs
    | BelongElsewhere
    | MisplacedZeros
    | WithinUlp
    | OneSided
)


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
    def told(self) -> Fitted:
        """The law that chance does not explain, with its set; a set alone where there is no such law."""
        return next((one for one in self.fitted if one.sure), self.fitted[-1])

    @property
    def law(self) -> Law | None:
        """What can be said of the wrong values, at least of most; None where nothing simple holds."""
        return self.told.law

    @property
    def is_certain(self) -> bool:
        """A law holds of all wrong elements, and chance does not explain it."""
        return self.told.law is not None and self.told.lawful == self.wrong

    def holding(self, law: Law | None) -> Fitted | None:
        """How the law, or the set without one, fits; None where it does not hold of all wrong elements."""
        return next((one for one in self.fitted if one.law == law and one.lawful == self.wrong), None)

    def is_exact(self, fitted: Fitted) -> bool:
        """Every element of the set is wrong, or right by accident."""
        return not fitted.where.is_scattered and self.wrong + fitted.agreeing == fitted.inside
