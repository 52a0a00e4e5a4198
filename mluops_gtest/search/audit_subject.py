"""An operator under audit, with everything that the rules look at, and what they may find.

Shapes in symbols, such as `[C·kernel_h·kernel_w, m]`, held against the dims of a case.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from mluops_gtest.base.frozen import Value
from mluops_gtest.core.binding import computed_bounds
from mluops_gtest.core.call import OpCall, Status
from mluops_gtest.core.case import Case, CaseDraft
from mluops_gtest.core.operator import Bound, Check, Mutant, Operator
from mluops_gtest.core.result import CaseResult
from mluops_gtest.core.tensor import DType, Layout, Precision, Tensor
from mluops_gtest.judging.elementwise_check import Expectation, expectation_of
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.case_run import CaseRun, Options


class Problem(Value):
    """Where a rule is broken, what is wrong, and what to do."""

    place: str
    message: str
    remedy: str


Problems = Iterator[Problem]


class Finding(Value):
    """A problem with the rule and the operator that it belongs to."""

    rule: str
    operator: str
    place: str
    message: str
    remedy: str


# Dozens of wrong implementations are held to the same cases.
_ANSWERS_KEPT: Final = 512
# Of a case everything that asks for them comes together, and those of a large output are as large.
_BOUNDS_KEPT: Final = 2


class Reseeding(Protocol):
    """Makes a declared case with the values of another seed."""

    def __call__(self, case_id: str, seed: int) -> Case: ...


class Subject(Value):
    """One operator, its declared cases, and those of them that are stored."""

    operator: Operator
    # The generator's file, or the __init__.py of its folder.
    generator: Path
    declarations: Path
    drafts: tuple[CaseDraft, ...]
    cases: tuple[Case, ...]
    mutants: tuple[Mutant, ...]
    # Right implementations, by the tag whose cases alone tell them apart.
    variants: Mapping[str, tuple[Mutant, ...]]
    # How many other seeds are tried.
    seeds: int
    reseeded: Reseeding
    # Any declared case, complete; a large one is made on first use.
    load: Callable[[str], Case]

    @property
    def name(self) -> str:
        return self.operator.name

    @property
    def computing(self) -> tuple[Case, ...]:
        """The stored cases in which the operator computes something that the document defines."""
        return tuple(
            case
            for case in self.cases
            if self.operator.computes(case.expect.status, case.expect.check) and not case.is_open
        )

    @property
    def reachable(self) -> tuple[Check, ...]:
        """The checks that some call can reach first."""
        return tuple(check for check in self.operator.checks if check.subsumed is None)

    def tagged(self, tag: str) -> Iterator[CaseDraft]:
        return (draft for draft in self.drafts if tag in draft.tags)

    def place(self, case_id: str) -> str:
        """Where a case is declared."""
        return next(draft.where for draft in self.drafts if draft.id == case_id)


class _Question:
    """What is right in a case: the same question for the same objects alone."""

    __slots__ = ("case", "operator")

    def __init__(self, case: Case, operator: Operator) -> None:
        self.case = case
        self.operator = operator

    def __hash__(self) -> int:
        return hash((id(self.case), id(self.operator)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Question) and self.case is other.case and self.operator is other.operator


def _cached_expectation(case: Case, operator: Operator) -> Expectation:
    return _answered(_Question(case, operator))


@lru_cache(_ANSWERS_KEPT)
def _answered(question: _Question) -> Expectation:
    return expectation_of(question.case, question.operator)


def cached_bounds(case: Case, operator: Operator) -> Mapping[str, Bound]:
    """What arithmetic allows the outputs of the case, computed once."""
    return _bounded(_Question(case, operator))


@lru_cache(_BOUNDS_KEPT)
def _bounded(question: _Question) -> Mapping[str, Bound]:
    return computed_bounds(question.case, question.operator)


class Implementation:
    """A function that may be right or wrong, as a backend."""

    def __init__(self, name: str, run: Callable[[OpCall], Status], operator: str = "") -> None:
        """Of half data, too, the operator's sums are kept in float: so they have no more room than float has."""
        self.name = name
        self.run = run
        self.precision = {operator: {DType.HALF.value: Precision.FLOAT.value}}


def judged(
    name: str, run: Callable[[OpCall], Status], case: Case, operator: Operator, *, each_element: bool = False
) -> CaseResult:
    """The verdict on one case with this implementation as the backend; `each_element` is held to its bound, too."""
    elementwise = None if each_element else False
    options = Options(elementwise=elementwise, explain=False, expect=_cached_expectation, bounds=cached_bounds)
    with np.errstate(all="ignore"):  # a wrong implementation may well overflow
        return CaseRun(InlineCaller(Implementation(name, run, operator.name)), options).run_case(case, operator)


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
    value = 1
    for factor in axis.factors:
        number = int(factor) if factor.isdecimal() else known.get(factor)
        if number is None:
            return None
        value *= number
    return value


def shapes_hold(subject: Subject) -> Problems:
    """The shapes that people read are those of the cases: one name, one value within a case."""
    for case in subject.computing:
        try:
            case_symbols(case, subject.operator)
        except ShapeError as error:
            yield Problem(
                str(subject.generator),
                f"in {case.id} {error}",
                "Correct the shapes of TensorSpec and OutputSpec; equal names are equal lengths.",
            )
            return
