"""Rules on values: sizes and bounds matter, wrong values are caught, seeds may change, the kernel is independent.

Every rule that an operator is held to.
"""

import dis
import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from mluops_gtest.backends.numpy_backend import ReferenceBackend
from mluops_gtest.base.errors import ContentError, OperatorError
from mluops_gtest.core.buffers import bind_values
from mluops_gtest.core.call import OpCall, SizedAxis, Status
from mluops_gtest.core.case import Case, CaseDraft
from mluops_gtest.core.declaration import Mutant
from mluops_gtest.core.operator import Operator, source_of
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult
from mluops_gtest.core.tensor import Tensor
from mluops_gtest.judging.elementwise import can_be_bounded
from mluops_gtest.search import audit_declarations as declarations
from mluops_gtest.search.audit_declarations import Problem, Problems, Subject, cached_bounds, judged
from mluops_gtest.search.mutants import MutantTrial, likely_first


def sizes_live(subject: Subject) -> Problems:
    """A case declared for a size has it, and an implementation that loses the first or the last index fails."""
    declared = [draft for draft in subject.drafts if draft.sizes]
    used = {name for draft in declared for name in draft.sizes}
    if not subject.operator.sizes:
        message = "no size is declared, so nothing shows that the ends of any axis count"
        remedy = 'Say `axes={"rows": axis("N", of=TENSOR)}` in OPERATOR, and `sizes: {rows: 65}` in cases of that size.'
        yield Problem(str(subject.generator), message, remedy)
    for name in subject.operator.sizes:
        if name not in used:
            remedy = f"Write `sizes: {{{name}: N}}` in the cases that are there for that size, or remove it."
            yield Problem(str(subject.generator), f"no case is declared for a size of {name!r}", remedy)
    for draft in declared:
        yield from _inert_ends(subject, draft, subject.load(draft.id))


def _inert_ends(subject: Subject, draft: CaseDraft, case: Case) -> Problems:
    """Declared sizes that the case does not have, and ends that a kernel may lose unseen."""
    operator = subject.operator
    if case.is_open or not operator.computes(case.expect.status, case.expect.check):
        yield Problem(draft.where, f"{case.id} computes nothing that a size could change", "Remove `sizes`.")
        return
    call = bind_values(case, operator)
    for name, wanted in draft.sizes.items():
        axis = operator.sizes[name]
        size = axis.size(call)
        if size != wanted:
            message = f"{case.id} is declared for {name} {wanted}, but has {size}"
            yield Problem(draft.where, message, "Correct sizes or data.")
            continue
        for index in dict.fromkeys((0, size - 1)):
            result, status = _without(axis, index, case, operator)
            if status is not Status.SUCCESS or result.outcome not in (Outcome.PASSED, Outcome.FAILED):
                place = source_of(axis.without) if axis.without is not None else str(subject.generator)
                message = f"{case.id}: the kernel cannot be run without index {index} of {name}: {result.reason}"
                yield Problem(place, message, "Let `without` of the SizedAxis give inputs that a valid call may have.")
            elif result.outcome is Outcome.PASSED:
                # Norms are blind at large sizes: some element may lie beyond what any order of operations explains.
                closer, _ = _without(axis, index, case, operator, each_element=True)
                if not any(reading.beyond for reading in closer.elements):
                    message = f"{case.id}: an implementation that loses index {index} of {name}, one of {size}, passes"
                    remedy = "Let the recipe draw data in which the first and the last index decide something."
                    yield Problem(draft.where, message, remedy)


def _without(
    axis: SizedAxis, index: int, case: Case, operator: Operator, *, each_element: bool = False
) -> tuple[CaseResult, Status | None]:
    """The verdict on the kernel that loses one index, and the status that it answers, None if it raises."""
    status: Status | None = None

    def run(call: OpCall) -> Status:
        nonlocal status
        lost = axis.lost(call, index)
        for name, array in lost.items():
            given = call.array(name)
            if (array.shape, array.dtype) != (given.shape, given.dtype):
                raise ValueError(f"{name} is {array.dtype} {list(array.shape)}, not {given.dtype} {list(given.shape)}")
        others = {name: replace(call.tensor(name), array=array) for name, array in lost.items()}
        status = operator.kernel(replace(call, inputs={**call.inputs, **others}))
        if axis.without is None and axis.tensor in call.outputs:
            # What is skipped stays as the caller preset it, or as a kernel leaves it that clears its output first.
            axis.cut(call.array(axis.tensor), index)[...] = operator.output(axis.tensor).preset or 0
        return status

    return judged(f"without index {index}", run, case, operator, each_element=each_element), status


_REMEDY: Final = (
    "Say `bound=` in OPERATOR: how far any order of operations may be off; Bound.copied(…) where nothing is computed."
)


def bounds_declared(subject: Subject) -> Problems:
    """Every output of real floats has a bound, and the kernel and the reference keep it in every stored case."""
    operator = subject.operator
    floats = [spec.id for spec in operator.outputs if any(map(can_be_bounded, spec.dtypes))]
    if operator.bound is None:
        if floats:
            yield Problem(str(subject.generator), f"nothing says how far {', '.join(floats)} may be off", _REMEDY)
        return
    runs: dict[str, Callable[[OpCall], Status]] = {
        "kernel": operator.kernel,
        "reference": ReferenceBackend({operator.name: operator}).run,
    }
    for case in subject.computing:
        problem = _unbounded(subject, case)
        if problem is not None:
            yield problem
            return
        # Of each implementation the first case is told.
        beyond = {name: _beyond(subject, name, run, case) for name, run in runs.items()}
        yield from filter(None, beyond.values())
        runs = {name: run for name, run in runs.items() if beyond[name] is None}


def _unbounded(subject: Subject, case: Case) -> Problem | None:
    """What the bounds of that case lack."""
    place = source_of(subject.operator.bound)
    try:
        bounds = cached_bounds(case, subject.operator)
    except OperatorError as error:
        return Problem(place, f"{case.id}: {str(error).partition(': ')[2]}", "Correct it.")
    for tensor in case.outputs:
        if can_be_bounded(tensor.desc.dtype) and tensor.id not in bounds:
            return Problem(place, f"{case.id}: nothing says how far {tensor.id} may be off", _REMEDY)
    return None


def _beyond(subject: Subject, name: str, run: Callable[[OpCall], Status], case: Case) -> Problem | None:
    """Elements of that implementation that are beyond the bound in that case."""
    for reading in judged(name, run, case, subject.operator, each_element=True).elements:
        if reading.beyond:
            where = f"{reading.output}{list(reading.index)}"
            message = f"{case.id}: the {name} is off by {reading.ratio:.3g} times what its bound allows in {where}"
            remedy = "Count every rounding that a right implementation may make, or correct the implementation."
            return Problem(subject.place(case.id), message, remedy)
    return None


# Norms are blind in large outputs: one wrong element of a twin must show.
MAX_OF_A_TWIN = 10_000
# Other seeds on which wrong implementations are tried.
MUTANT_SEEDS = 3


def mutants_caught(subject: Subject) -> Problems:
    """The stored cases catch every wrong implementation, and so do the same cases with other values."""
    if not subject.mutants:
        message = "there is no wrong implementation that the cases must catch"
        remedy = "Say `mutants=(Mutant(NAME, WORDS, run), …)` in OPERATOR: one for each plausible mistake."
        yield Problem(str(subject.generator), message, remedy)
    cases = {case.id: case for case in likely_first(subject)}
    telling = list(cases)
    for mutant in subject.mutants:
        # What told one mistake often tells the next. One that remembers calls may show from small to large alone.
        order = telling if mutant.anew is None else list(cases)
        catches = MutantTrial(mutant, subject.operator, order, cases.__getitem__)
        first = next(iter(catches), None)
        if first is None:
            yield _survivor(mutant, "every stored case", catches.raised)
            continue
        telling.remove(first)
        telling.insert(0, first)
        for seed in range(1, min(subject.seeds, MUTANT_SEEDS) + 1):
            # What caught the mistake before comes first, so that few cases are made.
            others = [first, *(case_id for case_id in order if case_id != first)]
            catches = MutantTrial(mutant, subject.operator, others, functools.partial(subject.reseeded, seed=seed))
            if next(iter(catches), None) is None:
                yield _survivor(mutant, f"every case under --reseed {seed}", catches.raised)


def _survivor(mutant: Mutant, passed: str, raised: str) -> Problem:
    name, place = f"{mutant.name} ({mutant.message})", source_of(mutant.run)
    if raised:
        message = f"{name} is caught by no case, and raises an exception of its own: {raised}"
        return Problem(place, message, "A mutant answers wrongly, it does not fail: correct it.")
    return Problem(place, f"{name} passes {passed}", "Declare a small case whose answer shows the mistake.")


def variants_differ(subject: Subject) -> Problems:
    """A right variant passes every stored case without its tag, and a case with it tells the variant apart."""
    computing = {case.id: case for case in subject.computing}
    for tag, variants in subject.variants.items():
        tagged = {case.id: case for case in subject.cases if tag in case.tags}
        for variant in variants:
            name = f"{variant.name} ({variant.message})"
            plain = MutantTrial(variant, subject.operator, computing, computing.__getitem__)
            told_by = next(iter(plain), None)
            if told_by is not None or plain.raised:
                message = f"{name} is a right variant, but fails {told_by or plain.raised}"
                yield Problem(source_of(variant.run), message, f"Correct the variant, or tag the case `{tag}`.")
            elif not any(MutantTrial(variant, subject.operator, tagged, tagged.__getitem__)):
                message = f"{name} passes every case tagged {tag}, too"
                yield Problem(source_of(variant.run), message, "Declare a case that tells it apart, or remove it.")


def twins_see_one_element(subject: Subject) -> Problems:
    """A single wrong element of any output fails every smoke case that computes."""
    for case in subject.computing:
        if "smoke" not in case.tags:
            continue
        for tensor in case.outputs:
            if tensor.desc.dtype.is_float and tensor.desc.count > MAX_OF_A_TWIN:
                message = f"{case.id} has {tensor.desc.count} elements in {tensor.id}"
                remedy = f"Keep outputs of smoke cases at {MAX_OF_A_TWIN} elements or fewer: norms are blind beyond."
                yield Problem(subject.place(case.id), message, remedy)
            elif not tensor.desc.is_empty and _passes_with_one_wrong(case, tensor, subject.operator):
                message = f"{case.id} passes with one wrong element in {tensor.id}"
                yield Problem(subject.place(case.id), message, "Make the case smaller, or its criteria sharper.")


def _passes_with_one_wrong(case: Case, wrong: Tensor, operator: Operator) -> bool:
    def run(call: OpCall) -> Status:
        for tensor in case.outputs:
            array = call.array(tensor.id)
            array[...] = tensor.values
            if tensor is wrong:
                # By as much as the typical element is large.
                size = max(float(np.abs(tensor.values.astype(np.float64)).mean()), 1e-3)
                array.flat[0] += array.dtype.type(max(size, 1) if array.dtype.kind == "i" else size)
        for result in operator.results:
            call.scalars[result] = int(case.params[result])  # type: ignore[arg-type]
        return Status.SUCCESS

    return judged("one wrong element", run, case, operator).outcome is Outcome.PASSED


def reseeding_keeps_promises(subject: Subject) -> Problems:
    """Under another seed a case expects the same of tensors of the same kind, and some values are drawn."""
    cases = [case for case in subject.cases if "smoke" in case.tags or "negative" in case.tags]
    remedy = (
        "Write what the case is about by hand, and draw the rest so that its conditions hold with nearly every seed."
    )
    depends_on_seed = False
    for case in cases[::3]:
        problems = []
        try:
            other = subject.reseeded(case.id, 1)
        except ContentError as error:
            problems.append(str(error))
        else:
            depends_on_seed = depends_on_seed or (other.reseeded is not None and not other.reseeded.fixed)
            if other.expect != case.expect:
                problems.append(f"it expects {other.expect}, with the declared seed {case.expect}")
            kinds = [[(t.id, t.desc.dtype, t.desc.layout, len(t.desc.dims)) for t in c.inputs] for c in (case, other)]
            if kinds[0] != kinds[1]:
                problems.append("its inputs are of another kind")
            if other.reseeded is not None and other.reseeded.redraws >= 8:
                problems.append(f"its values were drawn {other.reseeded.redraws + 1} times to fit")
        for problem in problems:
            yield Problem(subject.place(case.id), f"{case.id} under --reseed 1: {problem}", remedy)
    if cases and not depends_on_seed:
        message = "no value of any smoke or negative case depends on the seed"
        remedy = "Draw values from draw.stream(NAME), so that --reseed shows what a lucky value hides."
        yield Problem(str(subject.generator), message, remedy)


def kernel_agrees(subject: Subject) -> Problems:
    """The kernel passes every stored case, and with the values of other seeds every one that computes."""
    fixed: set[str] = set()
    every = [case for case in subject.cases if not case.is_open]
    for seed in (None, *range(1, subject.seeds + 1)):
        for case in every if seed is None else subject.computing:
            if case.id in fixed:
                continue
            one = case if seed is None else subject.reseeded(case.id, seed)
            if one.reseeded is not None and one.reseeded.fixed:
                fixed.add(case.id)
                continue
            result = judged("kernel", subject.operator.kernel, one, subject.operator)
            if result.outcome is not Outcome.PASSED:
                under = "" if seed is None else f" under --reseed {seed}"
                message = f"{case.id}{under}: the kernel is {result.outcome.value}: {result.reason}"
                remedy = "Kernel and reference or checks differ: find out which is wrong; all follow the document."
                yield Problem(subject.place(case.id), message, remedy)
                return


def kernel_is_independent(subject: Subject) -> Problems:
    """The kernel calls none of the reference's functions nor the operator's checks: shared code is shared mistakes."""
    # The package of all generators of the root, and the operator's name.
    package = ".".join(subject.operator.reference.__module__.split(".")[:2])
    used, by_reference = (_reached(f, package) for f in (subject.operator.kernel, subject.operator.reference))
    for function in sorted(used & by_reference, key=source_of):
        message = f"the kernel and the reference both use {function.__qualname__}"
        remedy = "Write the kernel from the document, with another algorithm and without the reference's functions."
        yield Problem(source_of(function), message, remedy)
    for function in sorted((one for one in used if _ANSWERS.intersection(_names(one.__code__))), key=source_of):
        remedy = "Let the kernel check its arguments itself: what cases expect follows from the operator's checks."
        yield Problem(source_of(function), f"{function.__qualname__} of the kernel asks the operator's checks", remedy)


# Methods of an operator that ask its checks.
_ANSWERS: Final = frozenset({"answer", "early_answer"})
_IMPORTING: Final = ("IMPORT_NAME", "IMPORT_FROM")


def _reached(function: Any, package: str) -> set[types.FunctionType]:
    """The functions of the operator's own files that a function may call, itself included."""
    found: set[types.FunctionType] = set()
    # What follows from a definition stands for the author's own function.
    waiting = [inspect.unwrap(function)]
    while waiting:
        one = waiting.pop()
        if isinstance(one, type | types.ModuleType):
            waiting += [value for value in vars(one).values() if isinstance(value, types.FunctionType)]
        elif (
            isinstance(one, types.FunctionType) and f"{one.__module__}.".startswith(f"{package}.") and one not in found
        ):
            found.add(one)
            waiting += [one.__globals__[name] for name in _names(one.__code__) if name in one.__globals__]
            # What the function imports when it runs.
            imports = (step.argval for step in dis.get_instructions(one.__code__) if step.opname in _IMPORTING)
            waiting += [sys.modules.get(f"{package}.{name}") for name in imports]
    return found


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


# The first line of a rule's docstring is what it demands.
RULES: Final[Mapping[str, Callable[[Subject], Problems]]] = {
    "families": declarations.families,
    "twins": declarations.twins,
    "documented": declarations.documented,
    "noted_large": declarations.noted_large,
    "recipes_used": declarations.recipes_used,
    "boundary_per_axis": declarations.boundary_per_axis,
    "strides_of_length_1": declarations.strides_of_length_1,
    "sizes_live": sizes_live,
    "shapes_hold": declarations.shapes_hold,
    "checks_asked": declarations.check_has_case,
    "checks_in_order": declarations.checks_in_order,
    "no_check_forgotten": declarations.no_check_forgotten,
    "earlier_forms": declarations.earlier_forms,
    "kernel_is_independent": kernel_is_independent,
    "kernel_agrees": kernel_agrees,
    "bounds_declared": bounds_declared,
    "mutants_caught": mutants_caught,
    "variants_told_apart": variants_differ,
    "twins_see_one_element": twins_see_one_element,
    "reseeding_keeps_promises": reseeding_keeps_promises,
}


def audit_operator(subject: Subject) -> Iterator[tuple[str, Problem]]:
    """Yields everything in which the operator falls short, each with the name of the rule."""
    return ((name, problem) for name, rule in RULES.items() for problem in rule(subject))
