"""What is wrong with an operator, in the form of one headline: where, how and when, over all cases that share it."""

from typing import Literal

import msgspec
from msgspec.structs import replace

from mluops_gtest.model.explanation import Law
from mluops_gtest.model.readings import WhereReading


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

    @property
    def passing(self) -> Condition | None:
        """What holds of the cases that pass, where a limit alone tells them apart."""
        first, *more = self.conditions
        if more or first.nearest is None or first.sign not in ("≥", "≤"):
            return None
        return replace(first, sign="≤" if first.sign == "≥" else "≥", value=first.nearest)


class Headline(msgspec.Struct, frozen=True):
    """One group of failures in a sentence."""

    operator: str
    output: str
    cases: int
    law: Law | None = None
    # Cases of the group that the law holds of, and those that the place fits.
    law_cases: int = 0
    where: WhereReading | None = None
    where_cases: int = 0
    # All of the place is wrong or right by accident, not just some of it.
    fills: bool = True
    # Other outputs that are wrong in most of the cases.
    also: tuple[str, ...] = ()
    # Equally simple rules that separate equally well.
    rules: tuple[Rule, ...] = ()
    # Wrong elements and all elements of a case, where these are the same numbers in all of them; else 0.
    wrong: int = 0
    size: int = 0

    @property
    def fitting(self) -> int:
        """Cases of the group that both law and place fit, as far as there are any."""
        return min(self.where_cases if self.where else self.cases, self.law_cases if self.law else self.cases)
