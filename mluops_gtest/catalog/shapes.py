"""Shapes as operators write them, `[B, C·kernel_h, 3]`, and the sizes that a case gives to their symbols."""

import math
import re
from collections.abc import Iterator, Mapping

from mluops_gtest.base.frozen import Value
from mluops_gtest.core.case import Case
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.tensor import Layout, Tensor

_SHAPE = re.compile(r"\[((?:\[[^\[\]]*\]|[^\[\]])*)\](.*)", re.DOTALL)
_OPTIONAL = re.compile(r"\[([^\[\]]*),\]\s*")
_FACTOR = re.compile(r"[A-Za-z_]\w*|\d+")


class ShapeError(Exception):
    """A shape that cannot be read, or that does not hold."""


class Axis(Value):
    """The length of one axis: a product of sizes and numbers; `at_least` where more is allowed."""

    text: str
    factors: tuple[str, ...]
    at_least: bool = False


class Shape(Value):
    """The axes of a tensor; the first `optional` of them may be missing."""

    axes: tuple[Axis, ...]
    optional: int = 0

    def of_rank(self, rank: int) -> tuple[Axis, ...] | None:
        """The axes of a tensor of that rank; None where it cannot have it."""
        missing = len(self.axes) - rank
        return self.axes[missing:] if 0 <= missing <= self.optional else None


def parse_shape(text: str) -> Shape:
    """Axes in brackets, optional ones first in brackets of their own, then words for people: `[≥ n, 4]: n, d, h, w`."""
    match = _SHAPE.match(text)
    if match is None:
        raise ShapeError(f"{text!r} is not a shape; write the axes in brackets, e.g. [N, C]")
    inside = match[1]
    optional = []
    while (found := _OPTIONAL.match(inside)) is not None:
        optional.append(found[1])
        inside = inside[found.end() :]
    axes = [*optional, *(inside.split(",") if inside.strip() else [])]
    return Shape(tuple(_axis(axis.strip()) for axis in axes), len(optional))


def readable_shape(text: str) -> Shape | None:
    """The shape; None where it cannot be read."""
    try:
        return parse_shape(text)
    except ShapeError:
        return None


def _axis(text: str) -> Axis:
    length = text.removeprefix("≥").strip()
    factors = tuple(factor.strip() for factor in length.split("·"))
    if not all(_FACTOR.fullmatch(factor) for factor in factors):
        raise ShapeError(f"the axis {text!r} is not a product of names and numbers, e.g. C·kernel_h")
    return Axis(text, factors, text.startswith("≥"))


def case_symbols(case: Case, operator: Operator) -> dict[str, int]:
    """The value of every size in a case; refused where one name stands for two values or a product is wrong."""
    known = {name: value for name, value in case.params.items() if isinstance(value, int)}
    axes = [pair for tensor in case.tensors for pair in _axes(tensor, operator)]
    found: dict[str, int] = {}
    for where, axis, length in axes:
        (name,) = axis.factors if len(axis.factors) == 1 else ("",)
        if name and not name.isdecimal() and not axis.at_least:
            first = found.setdefault(name, known.get(name, length))
            if first != length:
                raise ShapeError(f"{where} is {length}; {axis.text} is {first} elsewhere")
    for where, axis, length in axes:
        wanted = _value(axis, {**known, **found})
        if wanted is not None and not (length >= wanted if axis.at_least else length == wanted):
            raise ShapeError(f"{where} is {length}; the shape says {axis.text}, which is {wanted}")
    return found


def _axes(tensor: Tensor, operator: Operator) -> Iterator[tuple[str, Axis, int]]:
    spec = next(spec for spec in operator.tensors if spec.id == tensor.id)
    if len(spec.layouts) > 1 and tensor.desc.layout is not Layout.ARRAY:
        return  # the axes are told as ARRAY has them
    axes = parse_shape(spec.shape).of_rank(len(tensor.desc.dims))
    if axes is None:
        raise ShapeError(f"{tensor.id} has {len(tensor.desc.dims)} axes; its shape is {spec.shape}")
    for number, (axis, length) in enumerate(zip(axes, tensor.desc.dims, strict=True)):
        yield f"axis {number} of {tensor.id}", axis, length


def _value(axis: Axis, known: Mapping[str, int]) -> int | None:
    """The length that the axis should have; None where a name in it has no value."""
    numbers = [int(factor) if factor.isdecimal() else known.get(factor) for factor in axis.factors]
    sizes = [number for number in numbers if number is not None]
    return math.prod(sizes) if len(sizes) == len(numbers) else None
