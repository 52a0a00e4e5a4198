"""Rules on what is declared: families, documents, recipes, twins."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from mluops_gtest.audit.finding import Problem, Problems
from mluops_gtest.audit.shapes import ShapeError, case_symbols
from mluops_gtest.audit.subject import Subject
from mluops_gtest.model.case import CaseDraft
from mluops_gtest.model.source_place import source_of
from mluops_gtest.model.tensor import contiguous


def families(subject: Subject) -> Problems:
    """The operator has network scales, and precision cases for every float type that it writes."""
    if not any(subject.tagged("network")):
        yield _missing(subject, "no case is tagged network", "Declare the sizes that real networks use.")
    written = {dtype for spec in subject.operator.outputs for dtype in spec.dtypes if dtype.is_float}
    covered = {draft.dtype for draft in subject.tagged("precision")}
    for dtype in sorted(written, key=lambda one: one.value):
        if dtype.value not in covered:
            yield _missing(
                subject,
                f"no case of dtype {dtype.value} is tagged precision",
                "Declare one with full-precision values: cancellation, wide exponents.",
            )


def twins(subject: Subject) -> Problems:
    """Every network case has a small twin in the smoke set: same recipe, type and choices, other sizes."""
    small = {_structure(draft) for draft in subject.tagged("smoke")}
    for draft in subject.tagged("network"):
        if _structure(draft) not in small:
            yield Problem(
                draft.where,
                f"the network case {draft.id} has no twin in the smoke set",
                f"Declare a smoke case with recipe {draft.recipe!r}, dtype {draft.dtype} and the same choices, "
                "and sizes small enough to be committed.",
            )


def documented(subject: Subject) -> Problems:
    """Every case names the section of the document that it tests."""
    for draft in subject.drafts:
        if "§" not in draft.doc:
            yield Problem(
                draft.where,
                f"{draft.id} names no section of the document",
                'Write `doc: "§…: what the case shows"`.',
            )


def noted_large(subject: Subject) -> Problems:
    """A tensor of 2^31 elements and more is there on purpose, and the case says so."""
    notes = {draft.id: draft.note for draft in subject.drafts}
    for case in subject.cases:
        largest = max(tensor.desc.count for tensor in case.tensors)
        if largest >= 2**31 and "2^31" not in notes[case.id]:
            yield Problem(
                subject.place(case.id),
                f"{case.id} has a tensor of {largest} elements and does not say why",
                "Write a note that names 2^31, or make the tensor smaller.",
            )


def recipes_used(subject: Subject) -> Problems:
    """Every recipe is used by some case."""
    used = {draft.recipe for draft in subject.drafts}
    for name, recipe in subject.operator.recipes.items():
        if name not in used:
            yield Problem(
                source_of(recipe),
                f"no case uses the recipe {name!r}",
                "Declare a case with it, or remove it.",
            )


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
            yield _missing(
                subject,
                f"the boundary cases never vary the size {symbol}",
                f"Declare boundary cases in which {symbol} has its smallest value and others.",
            )


def strides_of_length_1(subject: Subject) -> Problems:
    """For every tensor some case that computes has an odd stride on an axis of length 1, which must not matter."""
    tensors = [tensor for case in subject.computing for tensor in case.tensors]
    odd = {tensor.id for tensor in tensors if tensor.desc.strides not in (None, contiguous(tensor.desc.dims))}
    for spec in subject.operator.tensors:
        if spec.id not in odd:
            yield _missing(
                subject,
                f"no case that computes has an odd stride on an axis of length 1 of {spec.id}",
                f"Declare one by `change: {{{spec.id}: {{strides: […]}}}}`; strides of such axes do not matter.",
            )


def _structure(draft: CaseDraft) -> tuple[Any, ...]:
    return draft.recipe, draft.dtype, _choices(draft.args), _choices(draft.params)


def _choices(values: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """What is no size: words and switches."""
    return tuple(sorted((name, value) for name, value in values.items() if isinstance(value, str | bool)))


def _missing(subject: Subject, message: str, remedy: str) -> Problem:
    return Problem(str(subject.declarations), message, remedy)
