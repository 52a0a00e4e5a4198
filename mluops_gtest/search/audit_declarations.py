"""An operator under audit, its shapes in symbols, and the rules on what is declared: families, checks in order."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from operator import is_
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from mluops_gtest.base.frozen import Value
from mluops_gtest.catalog.derived_lock import CHECKS, ORDER, Derivation
from mluops_gtest.catalog.number_ranges import case_symbols
from mluops_gtest.core.buffers import computed_bounds
from mluops_gtest.core.call import OpCall, Status
from mluops_gtest.core.case import Case, CaseDraft
from mluops_gtest.core.declaration import Check, Mutant
from mluops_gtest.core.operator import Operator, source_of
from mluops_gtest.core.operator_parts import C_API, EXACT, REDUCTIONS, SPACE, TORCH_KERNEL, VARIANTS
from mluops_gtest.core.result import CaseResult
from mluops_gtest.core.shape import ShapeError, readable_shape
from mluops_gtest.core.tensor import DType, Precision, contiguous
from mluops_gtest.judging.elementwise import expectation_of
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.case_run import CaseRun, Options
from mluops_gtest.search.status_mutants import RefusedCall, status_mutants


class Problem(Value):
    """Where a rule is broken, what is wrong, and what to do."""

    place: str
    message: str
    remedy: str
    # No rule is broken; somebody should look all the same.
    is_note: bool = False


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
    # What `generate` derived from the checks.
    derived: Derivation = Derivation("")

    def refused(self) -> tuple[RefusedCall, ...]:
        """The stored calls that a check answers, as the document says."""
        cases = (case for case in self.cases if case.expect.check and not case.is_open)
        return tuple(RefusedCall.of(case, self.operator) for case in cases)

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
    lost = [check.name for check in subject.reachable if check.name not in reached]
    if lost:
        by_hand = (
            "Declare a case of each that expects {status: STATUS, check: NAME}, or say in `subsumed` why none can."
        )
        remedy = by_hand if subject.derived.has(CHECKS) else _line_of(subject, CHECKS)
        yield Problem(str(subject.generator), f"no negative case reaches {', '.join(lost)}", remedy)
    calls = {one.first: one.what for one in subject.derived.unseen if one.is_reached}
    for check in subject.operator.checks:
        call = "a case" if check.name in reached else calls.get(check.name)
        if check.subsumed is not None and call is not None:
            message = f"it is declared as never reached, but {call} does"
            yield _of_check(subject, check, message, f"Remove {check.name} from `subsumed`.")


def checks_in_order(subject: Subject) -> Problems:
    """Asking a later check of another status first changes some answer, unless the derivation found no such call."""
    places = {check.name: place for place, check in enumerate(subject.operator.checks)}
    shown = {(call.answer, place) for call in subject.refused() for place in call.broken_later}
    unseen = {(one.first, one.later): one for one in subject.derived.unseen if one.what == "order"}
    for nth, first in enumerate(subject.reachable):
        later = [check.name for check in subject.reachable[nth + 1 :] if check.status != first.status]
        untold = [name for name in later if (places[first.name], places[name]) not in shown]
        missing = [name for name in untold if (first.name, name) not in unseen]
        if missing:
            remedy = _line_of(subject, ORDER)
            yield _of_check(subject, first, f"no case tells whether it comes before {', '.join(missing)}", remedy)
        tried = [unseen[first.name, name] for name in untold if (first.name, name) in unseen]
        counted = [f"{one.later} ({one.reason})" for one in tried if one.is_unexplained]
        if counted:
            message = f"no call that was tried tells whether it comes before {', '.join(counted)}"
            remedy = "Declare a case that breaks both, if you know of one."
            yield _of_check(subject, first, message, remedy, is_note=True)


def no_check_forgotten(subject: Subject) -> Problems:
    """Without any one check some case gets another status, unless the derivation found no such call."""
    mutants = {one.name: one for one in status_mutants(subject.operator, subject.derived)}
    calls = subject.refused()
    forgetful = {check.name: mutants[f"forgets_{check.name}"] for check in subject.reachable}
    untold = [name for name, one in forgetful.items() if not any(map(one.is_told_by, calls))]
    if untold and not subject.derived.has(CHECKS):
        message = f"a backend passes every case that forgets one of {', '.join(untold)}"
        yield Problem(str(subject.generator), message, _line_of(subject, CHECKS))
    elif untold:
        message = f"no call that was tried tells a backend that forgets one of {', '.join(untold)}"
        remedy = "Declare a case that only this check refuses, if you know of one."
        yield Problem(str(subject.generator), message, remedy, is_note=True)


def earlier_forms(subject: Subject) -> Problems:
    """What an operator was written with for an earlier release still loads, and is named."""
    operator, generator = subject.operator, subject.generator
    ignored = [f"{name}=" for name in ("not_together", "answered_anyway") if getattr(operator, name)]
    parts = (C_API, EXACT, REDUCTIONS, SPACE, TORCH_KERNEL, VARIANTS) if generator.stem == "__init__" else ()
    files = [f"{part.file}.py" for part in parts if generator.with_name(f"{part.file}.py").is_file()]
    words = {
        "Remove what derived.lock says instead": ignored,
        'write axes={"rows": axis("N", of="x")}': ["sizes= without axes="]
        if operator.sizes and not operator.axes
        else [],
        "say the parts of these files in OPERATOR": files,
    }
    if any(words.values()):
        named = ", ".join(name for names in words.values() for name in names)
        remedy = "; ".join(remedy for remedy, names in words.items() if names)
        remedy = f"{remedy[:1].upper()}{remedy[1:]}."
        yield Problem(str(generator), f"it is written for an earlier release: {named}", remedy, is_note=True)


def _line_of(subject: Subject, standard: str) -> str:
    """The line that asks for derived cases, with a base that will do if the operator has one."""
    plain = {draft.id for draft in subject.drafts if not draft.changes and draft.expect.is_plain}
    bases = (
        case.id.partition("/")[2] for case in subject.computing if case.id in plain and _has_many_sizes(case, subject)
    )
    base = next(bases, "NAME")
    return (
        f"Add `- {{standard: {standard}, base: {base}}}` to {subject.declarations.name} and run `mluops-test generate`."
    )


def _has_many_sizes(case: Case, subject: Subject) -> bool:
    """Its sizes are different and at least 2, so that no check takes one for the other."""
    try:
        sizes = list(case_symbols(case, subject.operator).values())
    except ShapeError:
        return False
    return min(sizes, default=0) > 1 and len(set(sizes)) == len(sizes)


def _of_check(subject: Subject, check: Check, message: str, remedy: str, *, is_note: bool = False) -> Problem:
    return Problem(check.place or str(subject.generator), f"check {check.name}: {message}", remedy, is_note)


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
    constant = [symbol for symbol in sorted(symbols) if len(values[symbol]) < 2]
    if constant:
        message = f"the boundary cases never vary the sizes {', '.join(constant)}"
        yield _missing(subject, message, "Declare boundary cases in which each has its smallest value and others.")


def strides_of_length_1(subject: Subject) -> Problems:
    """Every tensor has an odd stride on an axis of length 1, where it has one, in some case that computes."""
    tensors = [tensor for case in subject.computing for tensor in case.tensors]
    odd = {tensor.id for tensor in tensors if tensor.desc.strides not in (None, contiguous(tensor.desc.dims))}
    thin = [spec.id for spec in subject.operator.tensors if readable_shape(spec.shape).may_be_thin]
    plain = [name for name in thin if name not in odd]
    if plain:
        message = f"no case that computes has an odd stride on an axis of length 1 of {', '.join(plain)}"
        remedy = f"Declare one by `change: {{{plain[0]}: {{strides: […]}}}}`; strides of such axes do not matter."
        yield _missing(subject, message, remedy)


def _structure(draft: CaseDraft) -> tuple[Any, ...]:
    return draft.recipe, draft.dtype, _choices(draft.args), _choices(draft.params)


def _choices(values: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """What is no size: words and switches."""
    return tuple(sorted((name, value) for name, value in values.items() if isinstance(value, str | bool)))


def _missing(subject: Subject, message: str, remedy: str) -> Problem:
    return Problem(str(subject.declarations), message, remedy)
