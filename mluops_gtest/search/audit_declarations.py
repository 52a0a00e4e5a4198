"""An operator under audit, its shapes in symbols, and the rules on what is declared: families, checks in order."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from operator import is_
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from mluops_gtest.base.frozen import Value
from mluops_gtest.catalog.make import check_answer
from mluops_gtest.catalog.number_ranges import case_symbols
from mluops_gtest.core.buffers import bind_values, computed_bounds
from mluops_gtest.core.call import OpCall, Status
from mluops_gtest.core.case import Case, CaseDraft
from mluops_gtest.core.declaration import Check, Mutant
from mluops_gtest.core.operator import Operator, source_of
from mluops_gtest.core.result import CaseResult
from mluops_gtest.core.shape import ShapeError
from mluops_gtest.core.tensor import DType, Precision, contiguous
from mluops_gtest.judging.elementwise import expectation_of
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.case_run import CaseRun, Options


class Problem(Value):
    """Where a rule is broken, what is wrong, and what to do."""

    place: str
    message: str
    remedy: str


Problems = Iterator[Problem]
T = TypeVar("T")


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


class _Question(tuple[Case, Operator]):
    """A case and its operator: the same question for the same objects alone."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(tuple(map(id, self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Question) and all(map(is_, self, other))


def _cached(size: int, function: Callable[[Case, Operator], T]) -> Callable[[Case, Operator], T]:
    """The function, which remembers so many answers."""
    cached = lru_cache(size)(lambda question: function(*question))
    return lambda case, operator: cached(_Question((case, operator)))


# Dozens of wrong implementations are held to the same cases.
_cached_expectation = _cached(512, expectation_of)
# Of a case everything that asks for them comes together, and those of a large output are as large.
cached_bounds = _cached(2, computed_bounds)


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


def shapes_hold(subject: Subject) -> Problems:
    """The shapes that people read are those of the cases: one name, one value within a case."""
    for case in subject.computing:
        try:
            case_symbols(case, subject.operator)
        except ShapeError as error:
            remedy = "Correct the shapes of TensorSpec and OutputSpec; equal names are equal lengths."
            yield Problem(str(subject.generator), f"in {case.id} {error}", remedy)
            return


def check_has_case(subject: Subject) -> Problems:
    """Every check that a call can reach first has a negative case; one that none can reach has none."""
    reached = {draft.expect.check for draft in subject.tagged("negative")}
    for check in subject.operator.checks:
        if check.subsumed is None and check.name not in reached:
            remedy = f"Declare one that expects {{status: {check.status.name}, check: {check.name}}}."
            yield _of_check(subject, check, "no negative case reaches it", remedy)
        if check.subsumed is not None and check.name in reached:
            remedy = "Remove `subsumed`: a case reaches this check."
            yield _of_check(subject, check, "it is declared as never reached, but a case does", remedy)


def checks_in_order(subject: Subject) -> Problems:
    """Moving any later check of another status to the front changes some answer, unless the operator lists the pair.

    A case that breaks both shows it. Without one, the pair is told apart by two others: a case that breaks the later
    one together with a check between them, which it would pass as well, and one that breaks the first together with
    another check of the later one's status.
    """
    declared = subject.operator.not_together
    seen = _later_answers(subject)
    for place, first in enumerate(subject.reachable):
        later = subject.reachable[place + 1 :]
        shown = {second.status for second in later if False in seen[first.name, second.name]}
        for nth, second in enumerate(later):
            if first.status == second.status:
                continue
            held = seen[first.name, second.name]
            passed = [check for check in later[:nth] if check.status != second.status]
            between = any(False in seen[check.name, second.name] for check in passed)
            apart = False in held or (between and second.status in shown)
            excused = second.name in declared.get(first.name, ())
            # None alone: what the first check refuses (a null descriptor) leaves nothing for the second to look at.
            if not apart and True in held and not excused:
                remedy = f"Declare a case that breaks both and expects {first.name}, or add it to `not_together`."
                yield _of_check(subject, first, f"no case tells whether it comes before {second.name}", remedy)
            if excused and False in held:
                remedy = f"Remove {second.name} from `not_together`."
                yield _of_check(subject, first, f"a case breaks {second.name} together with it", remedy)


def no_check_forgotten(subject: Subject) -> Problems:
    """Without any one check some case gets another status, unless the operator says why another answers anyway."""
    for name in subject.operator.answered_anyway.keys() - {check.name for check in subject.reachable}:
        message = f"answered_anyway names {name}, which is not a check that a call can reach"
        yield Problem(str(subject.generator), message, "Remove it.")
    calls = [(status, call) for status, _, call in _refused(subject)]
    for check in subject.reachable:
        rest = replace(subject.operator, checks=tuple(c for c in subject.operator.checks if c is not check))
        unnoticed = all(_still_answers(rest, call, status) for status, call in calls)
        if unnoticed and check.name not in subject.operator.answered_anyway:
            remedy = "Declare a case that only this check refuses, or say in `answered_anyway` why there is none."
            yield _of_check(subject, check, "a backend that forgets it passes every case", remedy)
        if not unnoticed and check.name in subject.operator.answered_anyway:
            remedy = "Remove `answered_anyway`: a case tells the check apart."
            yield _of_check(subject, check, "it is declared as answered anyway, and is not", remedy)


def _later_answers(subject: Subject) -> Mapping[tuple[str, str], set[bool | None]]:
    """For a check and a later one: what the later one says of the calls that the first refuses."""
    places = {check.name: place for place, check in enumerate(subject.reachable)}
    seen: dict[tuple[str, str], set[bool | None]] = defaultdict(set)
    for _, name, call in _refused(subject):
        # A check that is declared as never reached has no place.
        for second in subject.reachable[places.get(name, len(places)) + 1 :]:
            seen[name, second.name].add(check_answer(second, call))
    return seen


def _refused(subject: Subject) -> Iterator[tuple[Status, str, OpCall]]:
    for case in subject.cases:
        if case.expect.check:
            yield case.expect.status, case.expect.check, bind_values(case, subject.operator)


def _still_answers(operator: Operator, call: OpCall, status: Status) -> bool:
    """A check of these answers so; a call that computes writes outputs, which a call that returns early must not do."""
    try:
        answer = operator.answer(call)
    except Exception:
        # One of them needs another before it.
        return False
    return answer.check is not None and answer.status == status


def _of_check(subject: Subject, check: Check, message: str, remedy: str) -> Problem:
    return Problem(check.place or str(subject.generator), f"check {check.name}: {message}", remedy)


def families(subject: Subject) -> Problems:
    """The operator has network scales, and precision cases for every float type that it writes."""
    if not any(subject.tagged("network")):
        remedy = "Add a case with `tags: [network]` and the sizes of a real network."
        yield _missing(subject, "no case is tagged network", remedy)
    written = {dtype for spec in subject.operator.outputs for dtype in spec.dtypes if dtype.is_float}
    covered = {draft.dtype for draft in subject.tagged("precision")}
    for dtype in sorted(written, key=lambda one: one.value):
        if dtype.value not in covered:
            remedy = f"Add a case with `tags: [precision]`, `dtypes: [{dtype.value}]` and full mantissas that cancel."
            yield _missing(subject, f"no case of dtype {dtype.value} is tagged precision", remedy)


def twins(subject: Subject) -> Problems:
    """Every network case has a small twin in the smoke set: same recipe, type and choices, other sizes."""
    small = {_structure(draft) for draft in subject.tagged("smoke")}
    for draft in subject.tagged("network"):
        if _structure(draft) not in small:
            remedy = (
                f"Declare a smoke case with recipe {draft.recipe!r}, dtype {draft.dtype} and the same choices, "
                "and sizes small enough to be committed."
            )
            yield Problem(draft.where, f"the network case {draft.id} has no twin in the smoke set", remedy)


def documented(subject: Subject) -> Problems:
    """Every case names the section of the document that it tests, or says `released`."""
    remedy = 'Write `doc: "§…: what the case shows"`, or `"released: …"` for a rule of the released library alone.'
    for draft in subject.drafts:
        if "§" not in draft.doc and "released" not in draft.doc:
            yield Problem(draft.where, f"{draft.id} names no section of the document", remedy)


def noted_large(subject: Subject) -> Problems:
    """A tensor of 2^31 elements and more is there on purpose, and the case says so."""
    notes = {draft.id: draft.note for draft in subject.drafts}
    for case in subject.cases:
        largest = max(tensor.desc.count for tensor in case.tensors)
        if largest >= 2**31 and "2^31" not in notes[case.id]:
            message = f"{case.id} has a tensor of {largest} elements and does not say why"
            yield Problem(subject.place(case.id), message, "Write a note that names 2^31, or make the tensor smaller.")


def recipes_used(subject: Subject) -> Problems:
    """Every recipe is used by some case."""
    used = {draft.recipe for draft in subject.drafts}
    for name, recipe in subject.operator.recipes.items():
        if name not in used:
            message = f"no case uses the recipe {name!r}"
            yield Problem(source_of(recipe), message, "Declare a case with it, or remove it.")


def boundary_per_axis(subject: Subject) -> Problems:
    """Every size of a shape takes more than one value in the boundary cases."""
    values: dict[str, set[int]] = defaultdict(set)
    symbols: set[str] = set()
    for case in subject.computing:
        try:
            found = case_symbols(case, subject.operator)
        except ShapeError:
            continue  # the rule on shapes tells it
        symbols |= found.keys()
        if "boundary" in case.tags:
            for symbol, value in found.items():
                values[symbol].add(value)
    for symbol in sorted(symbols):
        if len(values[symbol]) < 2:
            remedy = f"Declare boundary cases in which {symbol} has its smallest value and others."
            yield _missing(subject, f"the boundary cases never vary the size {symbol}", remedy)


def strides_of_length_1(subject: Subject) -> Problems:
    """For every tensor some case that computes has an odd stride on an axis of length 1, which must not matter."""
    tensors = [tensor for case in subject.computing for tensor in case.tensors]
    odd = {tensor.id for tensor in tensors if tensor.desc.strides not in (None, contiguous(tensor.desc.dims))}
    for spec in subject.operator.tensors:
        if spec.id not in odd:
            message = f"no case that computes has an odd stride on an axis of length 1 of {spec.id}"
            remedy = f"Declare one by `change: {{{spec.id}: {{strides: […]}}}}`; strides of such axes do not matter."
            yield _missing(subject, message, remedy)


def _structure(draft: CaseDraft) -> tuple[Any, ...]:
    return draft.recipe, draft.dtype, _choices(draft.args), _choices(draft.params)


def _choices(values: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """What is no size: words and switches."""
    return tuple(sorted((name, value) for name, value in values.items() if isinstance(value, str | bool)))


def _missing(subject: Subject, message: str, remedy: str) -> Problem:
    return Problem(str(subject.declarations), message, remedy)
