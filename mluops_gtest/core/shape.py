"""Shapes in symbols: how long each axis of a tensor is, in a small language that people read and checks follow from.

| written                                        | means                                                              |
|------------------------------------------------|--------------------------------------------------------------------|
| `[B, C, 3]`                                    | a symbol is the same length wherever it stands; a number is itself |
| `[batch_size, num_points]`                     | a symbol named like a parameter is that parameter                  |
| `[C·kernel_h·kernel_w, m]`                     | a product                                                          |
| `[B, 3 + C]`                                   | a sum, of products, too                                            |
| `[∏filter_space, 2, L]`                        | the product of a parameter that is an array                        |
| `[[Kd,] Kh, Kw]`                               | a leading axis that may be missing; its symbol is 1 then           |
| `[K, C] as ARRAY, [C, K] as NCHW`              | the axes by layout                                                 |
| `[N, 1] if aligned = 1, [N, C] if aligned = 0` | the axes by the value of a parameter                               |
| `[*S]`                                         | any axes, the same wherever `*S` stands                            |
| `[L, 4]: n, d, h, w`                           | words for people stand behind a colon                              |

`[≥ n, 4]` says that a valid tensor has at least so many rows; no check follows from it.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from mluops_gtest.base.frozen import Value

_FORM: Final = re.compile(
    r"\s*,?\s*\[(?P<axes>(?:\[[^\[\]]*\]|[^\[\]])*)\]"
    r"(?:\s+as\s+(?P<layout>[A-Z]+))?(?:\s+if\s+(?P<name>\w+)\s*=\s*(?P<value>-?\d+))?"
)
_OPTIONAL: Final = re.compile(r"\[([^\[\]]*),\]\s*")
_FACTOR: Final = re.compile(r"∏?[A-Za-z_]\w*|\d+")
PRODUCT: Final = "∏"


class ShapeError(Exception):
    """A shape that cannot be read, or that does not hold."""


class Axis(Value):
    """The length of one axis: a sum of products of symbols and numbers."""

    text: str
    terms: tuple[tuple[str, ...], ...]
    # More is allowed.
    at_least: bool = False
    # Any number of axes, of which `text` is the symbol.
    any_number: bool = False

    @property
    def factors(self) -> tuple[str, ...]:
        """The factors of an axis that is one product; none for a sum, and for any number of axes."""
        return self.terms[0] if len(self.terms) == 1 and not self.any_number else ()

    @property
    def symbol(self) -> str | None:
        """The symbol that is the whole length; None for a number, a product, a sum, and for any number of axes."""
        factor = self.factors[0] if len(self.factors) == 1 else ""
        return None if not factor or factor.isdecimal() or factor.startswith(PRODUCT) else factor


class Form(Value):
    """The axes of a tensor, of which the first `optional` may be missing, and when they are these."""

    axes: tuple[Axis, ...]
    optional: int = 0
    layout: str | None = None
    # A parameter and its value.
    condition: tuple[str, int] | None = None

    @property
    def ranks(self) -> tuple[int, ...] | None:
        """The numbers of axes that it allows; None: any."""
        if any(axis.any_number for axis in self.axes):
            return None
        return tuple(range(len(self.axes) - self.optional, len(self.axes) + 1))

    def of_rank(self, rank: int) -> tuple[Axis, ...] | None:
        """The axes of a tensor of that rank; None where it cannot have it, or may have any."""
        missing = len(self.axes) - rank
        return self.axes[missing:] if self.ranks is not None and 0 <= missing <= self.optional else None

    def holds(self, layout: str, params: Mapping[str, Any]) -> bool:
        """The axes are these where a tensor has this layout and the call these parameters."""
        if self.layout not in (None, layout):
            return False
        return self.condition is None or params.get(self.condition[0]) == self.condition[1]


class Shape(Value):
    """The forms that a tensor may have."""

    forms: tuple[Form, ...]

    @property
    def ranks(self) -> tuple[int, ...] | None:
        """The numbers of axes that it allows; None: any."""
        found = [form.ranks for form in self.forms]
        if None in found:
            return None
        return tuple(sorted({rank for ranks in found if ranks is not None for rank in ranks}))

    @property
    def is_plain(self) -> bool:
        """Every axis has one number, whatever the layout, the rank and the parameters."""
        return len(self.forms) == 1 and not self.forms[0].optional

    @property
    def is_single(self) -> bool:
        """It has one element in every call."""
        return self.is_plain and all(axis.text == "1" for axis in self.forms[0].axes)

    @property
    def may_be_thin(self) -> bool:
        """Some axis may have one place."""
        return any(not axis.text.isdecimal() or axis.text == "1" for form in self.forms for axis in form.axes)

    def form(self, layout: str = "ARRAY", params: Mapping[str, Any] | None = None) -> Form | None:
        """The first form that holds for this layout and these parameters; None where none does."""
        return next((form for form in self.forms if form.holds(layout, params or {})), None)

    def axes(self, rank: int, layout: str, params: Mapping[str, Any] | None = None) -> tuple[Axis, ...] | None:
        """The axes of a tensor of that rank and layout; None where it cannot have them, or may have any."""
        form = self.form(layout, params)
        return None if form is None else form.of_rank(rank)

    @property
    def factors(self) -> tuple[str, ...]:
        """What the axes that are one product are made of, each once."""
        axes = (axis for form in self.forms for axis in form.axes)
        return tuple(dict.fromkeys(factor for axis in axes for factor in axis.factors))

    def symbols(self) -> Iterator[str]:
        """Every symbol, as often as it stands; of arrays the name."""
        for form in self.forms:
            for axis in form.axes:
                for term in axis.terms:
                    yield from (factor.removeprefix(PRODUCT) for factor in term if not factor.isdecimal())


@lru_cache(1024)
def parse_shape(text: str) -> Shape:
    """The shape that the text says; ShapeError where it cannot be read."""
    forms, place = list[Form](), 0
    while (match := _FORM.match(text, place)) is not None:
        condition = None if match["name"] is None else (match["name"], int(match["value"]))
        forms.append(_form(match["axes"], match["layout"], condition))
        place = match.end()
    words = text[place:].lstrip()
    if not forms or (words and words[0] not in ":,"):
        raise ShapeError(f"{text!r} is not a shape; write the axes in brackets, e.g. [N, C]")
    return Shape(tuple(forms))


def readable_shape(text: str) -> Shape:
    """The shape that the text says; one without forms where it cannot be read."""
    try:
        return parse_shape(text)
    except ShapeError:
        return Shape(())


def _form(text: str, layout: str | None, condition: tuple[str, int] | None) -> Form:
    optional = []
    while (found := _OPTIONAL.match(text)) is not None:
        optional.append(found[1])
        text = text[found.end() :]
    axes = [*optional, *(text.split(",") if text.strip() else [])]
    return Form(tuple(_axis(axis.strip()) for axis in axes), len(optional), layout, condition)


def _axis(text: str) -> Axis:
    if text.startswith("*"):
        return Axis(text, ((text,),), any_number=True)
    terms = tuple(
        tuple(factor.strip() for factor in term.split("·")) for term in text.removeprefix("≥").strip().split("+")
    )
    if not all(_FACTOR.fullmatch(factor) for term in terms for factor in term):
        raise ShapeError(f"the axis {text!r} is not a sum of products of names and numbers, e.g. C·kernel_h or 3 + C")
    return Axis(text, terms, text.startswith("≥"))
