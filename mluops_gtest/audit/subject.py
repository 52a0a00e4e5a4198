"""An operator under audit, with everything that the rules look at, and what they may find."""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from mluops_gtest.engine.caller import InlineCaller
from mluops_gtest.engine.execute import Executor, Options
from mluops_gtest.engine.expectation import Expectation, expectation_of
from mluops_gtest.model.bound import Bound
from mluops_gtest.model.bounds import computed_bounds
from mluops_gtest.model.call import OpCall
from mluops_gtest.model.case import Case, CaseDraft
from mluops_gtest.model.dtypes import DType
from mluops_gtest.model.operator import Check, Mutant, Operator
from mluops_gtest.model.precision import Precision
from mluops_gtest.model.result import CaseResult
from mluops_gtest.model.status import Status
from mluops_gtest.value import Value


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


def _kept_expectation(case: Case, operator: Operator) -> Expectation:
    return _answered(_Question(case, operator))


@lru_cache(_ANSWERS_KEPT)
def _answered(question: _Question) -> Expectation:
    return expectation_of(question.case, question.operator)


def kept_bounds(case: Case, operator: Operator) -> Mapping[str, Bound]:
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
    options = Options(elementwise=elementwise, explain=False, expect=_kept_expectation, bounds=kept_bounds)
    with np.errstate(all="ignore"):  # a wrong implementation may well overflow
        return Executor(InlineCaller(Implementation(name, run, operator.name)), options).execute(case, operator)
