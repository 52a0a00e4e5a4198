"""Rules on values: wrong ones are caught, other seeds keep the promises, the kernel is a second opinion."""

import dis
import functools
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from mluops_gtest.audit.finding import Problem, Problems
from mluops_gtest.audit.mutants import Catches, likely_first
from mluops_gtest.audit.subject import Subject, judged
from mluops_gtest.errors import ContentError
from mluops_gtest.model.call import OpCall
from mluops_gtest.model.case import Case
from mluops_gtest.model.operator import Mutant, Operator
from mluops_gtest.model.result import Outcome
from mluops_gtest.model.source_place import source_of
from mluops_gtest.model.status import Status
from mluops_gtest.model.tensor import Tensor

# Norms are blind in large outputs: one wrong element of a twin must show.
MAX_OF_A_TWIN = 10_000
# Other seeds on which wrong implementations are tried.
MUTANT_SEEDS = 3


def mutants_caught(subject: Subject) -> Problems:
    """The stored cases catch every wrong implementation, and so do the same cases with other values."""
    if not subject.mutants:
        yield Problem(
            str(subject.generator.parent / "mutants.py"),
            "there is no wrong implementation that the cases must catch",
            "Write mutants.py with MUTANTS: one implementation for each plausible mistake.",
        )
    cases = {case.id: case for case in likely_first(subject)}
    telling = list(cases)
    for mutant in subject.mutants:
        # What told one mistake often tells the next. One that remembers calls may show from small to large alone.
        order = telling if mutant.anew is None else list(cases)
        catches = Catches(mutant, subject.operator, order, cases.__getitem__)
        first = next(iter(catches), None)
        if first is None:
            yield _survivor(mutant, "every stored case", catches.raised)
            continue
        telling.remove(first)
        telling.insert(0, first)
        for seed in range(1, min(subject.seeds, MUTANT_SEEDS) + 1):
            # What caught the mistake before comes first, so that few cases are made.
            others = [first, *(case_id for case_id in order if case_id != first)]
            catches = Catches(mutant, subject.operator, others, functools.partial(subject.reseeded, seed=seed))
            if next(iter(catches), None) is None:
                yield _survivor(mutant, f"every case under --reseed {seed}", catches.raised)


def _survivor(mutant: Mutant, passed: str, raised: str) -> Problem:
    if raised:
        message = f"{mutant.name} ({mutant.message}) is caught by no case, and raises an exception of its own: {raised}"
        return Problem(source_of(mutant.run), message, "A mutant answers wrongly, it does not fail: correct it.")
    return Problem(
        source_of(mutant.run),
        f"{mutant.name} ({mutant.message}) passes {passed}",
        "Declare a small case whose answer shows the mistake.",
    )


def twins_see_one_element(subject: Subject) -> Problems:
    """A single wrong element of any output fails every smoke case that computes."""
    for case in subject.computing:
        if "smoke" not in case.tags:
            continue
        for tensor in case.outputs:
            if tensor.desc.dtype.is_float and tensor.desc.count > MAX_OF_A_TWIN:
                yield Problem(
                    subject.place(case.id),
                    f"{case.id} has {tensor.desc.count} elements in {tensor.id}",
                    f"Keep outputs of smoke cases at {MAX_OF_A_TWIN} elements or fewer: norms are blind beyond.",
                )
            elif not tensor.desc.is_empty and _passes_with_one_wrong(case, tensor, subject.operator):
                yield Problem(
                    subject.place(case.id),
                    f"{case.id} passes with one wrong element in {tensor.id}",
                    "Make the case smaller, or its criteria sharper.",
                )


def _passes_with_one_wrong(case: Case, wrong: Tensor, operator: Operator) -> bool:
    def run(call: OpCall) -> Status:
        for tensor in case.outputs:
            array = call.array(tensor.id)
            array[...] = tensor.values
            if tensor is wrong:
                # By as much as the typical element is large.
                size = max(float(np.abs(tensor.values.astype(np.float64)).mean()), 1e-3)
                array.reshape(-1)[0] += array.dtype.type(max(size, 1) if array.dtype.kind == "i" else size)
        for result in operator.results:
            call.scalars[result] = int(case.params[result])  # type: ignore[arg-type]
        return Status.SUCCESS

    return judged("one wrong element", run, case, operator).outcome is Outcome.PASSED


def reseeding_keeps_promises(subject: Subject) -> Problems:
    """Under another seed a case expects the same of tensors of the same kind, and some values are drawn."""
    cases = [case for case in subject.cases if "smoke" in case.tags or "negative" in case.tags]
    drawn = False
    for case in cases[::3]:
        try:
            other = subject.reseeded(case.id, 1)
        except ContentError as error:
            yield _not_kept(subject, case, str(error))
            continue
        drawn = drawn or (other.reseeded is not None and not other.reseeded.fixed)
        if other.expect != case.expect:
            yield _not_kept(subject, case, f"it expects {other.expect}, with the declared seed {case.expect}")
        kinds = [[(t.id, t.desc.dtype, t.desc.layout, len(t.desc.dims)) for t in c.inputs] for c in (case, other)]
        if kinds[0] != kinds[1]:
            yield _not_kept(subject, case, "its inputs are of another kind")
        if other.reseeded is not None and other.reseeded.redraws >= 8:
            yield _not_kept(subject, case, f"its values were drawn {other.reseeded.redraws + 1} times to fit")
    if cases and not drawn:
        yield Problem(
            str(subject.generator),
            "no value of any smoke or negative case depends on the seed",
            "Draw values from draw.stream(NAME), so that --reseed shows what a lucky value hides.",
        )


def _not_kept(subject: Subject, case: Case, problem: str) -> Problem:
    return Problem(
        subject.place(case.id),
        f"{case.id} under --reseed 1: {problem}",
        "Write what the case is about by hand, and draw the rest so that its conditions hold with nearly every seed.",
    )


def kernel_agrees(subject: Subject) -> Problems:
    """The kernel passes every stored case that computes, with the stored values and with those of other seeds."""
    fixed: set[str] = set()
    for seed in (None, *range(1, subject.seeds + 1)):
        for case in subject.computing:
            if case.id in fixed:
                continue
            one = case if seed is None else subject.reseeded(case.id, seed)
            if one.reseeded is not None and one.reseeded.fixed:
                fixed.add(case.id)
                continue
            result = judged("kernel", subject.operator.kernel, one, subject.operator)
            if result.outcome is not Outcome.PASSED:
                under = "" if seed is None else f" under --reseed {seed}"
                yield Problem(
                    subject.place(case.id),
                    f"{case.id}{under}: the kernel is {result.outcome.value}: {result.reason}",
                    "Reference and kernel differ: find out which is wrong; both are written from the document.",
                )
                return


def kernel_is_independent(subject: Subject) -> Problems:
    """The kernel calls none of the reference's functions: shared code means shared mistakes."""
    package = subject.operator.reference.__module__.partition(".")[0]
    used, by_reference = (_reached(f, package) for f in (subject.operator.kernel, subject.operator.reference))
    for function in sorted(used & by_reference, key=source_of):
        yield Problem(
            source_of(function),
            f"the kernel and the reference both use {function.__qualname__}",
            "Write the kernel from the document, with another algorithm and without the reference's functions.",
        )


def _reached(function: Any, package: str) -> set[types.FunctionType]:
    """The functions of the operator's own files that a function may call, itself included."""
    found: set[types.FunctionType] = set()
    waiting = [function]
    while waiting:
        one = waiting.pop()
        if isinstance(one, type | types.ModuleType):
            waiting += [value for value in vars(one).values() if isinstance(value, types.FunctionType)]
        elif isinstance(one, types.FunctionType) and one.__module__.partition(".")[0] == package and one not in found:
            found.add(one)
            waiting += [one.__globals__[name] for name in _names(one.__code__) if name in one.__globals__]
            waiting += [sys.modules.get(f"{package}.{name}") for name in _imported(one.__code__)]
    return found


def _imported(code: types.CodeType) -> Iterator[str]:
    """What the function imports when it runs."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("IMPORT_NAME", "IMPORT_FROM"):
            yield instruction.argval


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
