"""A smaller call made into a complete case, if the document defines it and the checks answer it as before."""

from collections.abc import Callable, Mapping
from typing import Final, Self, TypeVar

import numpy as np
from msgspec import field
from msgspec.structs import replace

from mluops_gtest.model.baselines import baseline_of
from mluops_gtest.model.binding import asked, bind_values, proves_little, row_counts
from mluops_gtest.model.call import OpCall
from mluops_gtest.model.case import Case
from mluops_gtest.model.digest import digest_tensors
from mluops_gtest.model.dtypes import Array
from mluops_gtest.model.operator import Baseline, CheckVerdict, Operator, RecipeOutput, plain_params
from mluops_gtest.model.tensor import Tensor
from mluops_gtest.value import Value

T = TypeVar("T")
# What tells two candidates apart.
Identity = tuple[object, ...]
# The few elements of a small case are often equal; a right backend shall pass it all the same.
SMALL: Final = "minimised: nothing is left of the case but what shows the failure"


class Candidates(Value):
    """Makes smaller cases that ask the same of a backend: to compute, or to refuse by the same check."""

    operator: Operator
    answer: CheckVerdict
    # Those that were made before are not made again.
    tried: set[Identity] = field(default_factory=set)

    @classmethod
    def like(cls, case: Case, operator: Operator) -> Self:
        """Those that the ordered checks answer as they answer this case."""
        return cls(operator, operator.answer(bind_values(case, operator)))

    def with_call(self, case: Case, made: RecipeOutput) -> Case | None:
        """The case with these inputs, parameters and output dims and a baseline by the reference.

        None where the checks answer otherwise, where the document does not define the call, or where it was tried.
        """
        operator = self.operator
        smaller = replace(
            case,
            inputs=tuple(_input(tensor, made) for tensor in case.inputs),
            outputs=tuple(_resized(tensor, made.outputs) for tensor in case.outputs if tensor.id in made.outputs),
            params={name: value for name, value in plain_params(made.params).items() if name not in operator.results},
            expect=replace(case.expect, degenerate=None),
            baseline_stored=True,
            path=None,
            notes=(),
            theory={},
        )
        baseline = None
        if len(smaller.outputs) < len(case.outputs):
            try:
                baseline = baseline_of(operator, bind_values(smaller, operator))
            except Exception:
                # The dims that the checks need are the reference's to tell: nobody knows yet whether it must answer.
                return None
            shapes = {name: array.shape for name, array in baseline.outputs.items()}
            smaller = replace(smaller, outputs=tuple(_resized(tensor, shapes) for tensor in case.outputs))
        if self._was_tried(smaller):
            return None
        call = bind_values(smaller, operator)
        if self._answer(call) != self.answer or self._told(operator.precondition, operator.broken, call) is not None:
            return None
        known = baseline or self._told(operator.reference, self._baseline, call)
        return None if known is None else _with_baseline(smaller, operator, known)

    def _baseline(self, call: OpCall) -> Baseline | None:
        """None where the reference refuses, as a recipe does, what only it can tell: fewer rows than answers, say."""
        try:
            return baseline_of(self.operator, call)
        except ValueError:
            return None

    def rebased(self, case: Case) -> Case | None:
        """The same call with a baseline by the reference."""
        return self.with_call(case, as_made(case))

    def refused(self, candidate: Case) -> Case | None:
        """The candidate; None where the checks answer it otherwise, or where it was tried."""
        if self._was_tried(candidate):
            return None
        answer = self._answer(bind_values(candidate, self.operator))
        return candidate if answer == self.answer else None

    def _answer(self, call: OpCall) -> CheckVerdict:
        return self._told(self.operator.reference, self.operator.answer, call)

    def _told(self, function: object, ask: Callable[[OpCall], T], call: OpCall) -> T:
        return asked(self.operator, function, ask, call, "a smaller call")

    def _was_tried(self, candidate: Case) -> bool:
        identity = _identity(candidate, self.operator)
        if identity in self.tried:
            return True
        self.tried.add(identity)
        return False


def as_made(case: Case) -> RecipeOutput:
    """The case in the words of a recipe."""
    return RecipeOutput(
        {tensor.id: tensor.values for tensor in case.inputs},
        case.params,
        outputs={tensor.id: tensor.desc.dims for tensor in case.outputs},
    )


def _identity(case: Case, operator: Operator) -> Identity:
    descs = tuple(tensor.desc for tensor in case.tensors)
    params = tuple((name, value) for name, value in case.params.items() if name not in operator.results)
    return digest_tensors(case.inputs), descs, params, replace(case.expect, degenerate=None)


def _input(tensor: Tensor, made: RecipeOutput) -> Tensor:
    array = np.ascontiguousarray(made.inputs[tensor.id], tensor.desc.dtype.storage)
    desc = replace(tensor.desc.resized(array.shape), layout=made.layouts.get(tensor.id, tensor.desc.layout))
    return Tensor(tensor.id, desc, array.reshape(-1))


def _resized(tensor: Tensor, dims: Mapping[str, tuple[int, ...]]) -> Tensor:
    return Tensor(tensor.id, tensor.desc.resized(tuple(map(int, dims[tensor.id]))))


def _with_baseline(case: Case, operator: Operator, baseline: Baseline) -> Case | None:
    outputs = []
    for tensor in case.outputs:
        array = baseline.outputs[tensor.id]
        if array.shape != tensor.desc.dims or _has_poison(tensor, array):
            return None
        outputs.append(replace(tensor, data=np.ascontiguousarray(array, tensor.desc.dtype.storage).reshape(-1)))
    filled = replace(case, outputs=tuple(outputs), params={**case.params, **baseline.scalars})
    counts = row_counts(operator, filled.outputs, baseline.scalars)
    if any(proves_little(tensor, operator, counts) for tensor in filled.outputs):
        filled = replace(filled, expect=replace(filled.expect, degenerate=SMALL))
    return filled


def _has_poison(tensor: Tensor, array: Array) -> bool:
    """An element of the baseline could not be told from one that was not written."""
    dtype = tensor.desc.dtype
    bits = np.ascontiguousarray(array, dtype.storage).reshape(-1).view(dtype.bits)
    return bool((bits == np.frombuffer(dtype.poison, dtype.bits)[0]).any())
