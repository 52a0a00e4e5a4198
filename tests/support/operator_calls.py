"""What the tests of operators have in common: calls, the literal definition beside them, and calls with faults."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from types import MappingProxyType

import numpy as np
from msgspec.structs import replace

from mluops_gtest.authoring import Array, DType, Layout, OpCall, Operator, Status, call_of
from mluops_gtest.catalog.operators import load_operators
from mluops_gtest.catalog.violation_search import Kinds
from mluops_gtest.core.buffers import baseline_of, bind_values, expected_results, owned_rows, row_counts
from mluops_gtest.core.call import ExactElements
from mluops_gtest.core.case import Case
from mluops_gtest.core.operator_parts import EXACT
from mluops_gtest.judging.arbitration import error, rounded, stored_number
from mluops_gtest.search.draws import Draws
from mluops_gtest.search.fault_search import Aim, Aims, reached_aims
from tests.conftest import ROOT

OPERATORS = load_operators(ROOT)
# So often faults are put into the valid calls.
_TRIES = 200

Outputs = dict[str, Array]


def poisoned(dtype: DType, dims: tuple[int, ...]) -> Array:
    """An output buffer as the harness hands it over."""
    array = np.empty(dims, dtype.storage)
    array.view(dtype.bits)[...] = int.from_bytes(dtype.poison, "little")
    return array


def poisoned_call(
    operator: Operator,
    params: Mapping[str, object],
    inputs: Mapping[str, Array],
    dims: Mapping[str, tuple[int, ...]],
    layouts: Mapping[str, Layout] = MappingProxyType({}),
) -> OpCall:
    """A call whose outputs have these dims and hold poison; what may be of several types has that of an input."""
    call = call_of(operator.name, params, inputs, {}, layouts)
    given = [argument.dtype for argument in call.inputs.values() if argument is not None]

    def buffer(name: str) -> Array:
        allowed = operator.output(name).dtypes
        return poisoned(next((dtype for dtype in given if dtype in allowed), allowed[0]), dims[name])

    return call_of(operator.name, params, inputs, {name: buffer(name) for name in dims}, layouts)


def by_definition(operator: Operator, call: OpCall) -> Outputs:
    """Every element of every output by its literal definition, rounded once."""
    elements = OPERATORS.part(operator.name, EXACT)(call)
    results = {}
    for name, argument in call.outputs.items():
        values = np.empty(argument.dims, argument.dtype.storage)
        for index in np.ndindex(values.shape):
            values[index] = float(rounded(elements[name](*index), argument.dtype))
        results[name] = values
    return results


def by_reference(operator: Operator, call: OpCall) -> Outputs:
    return dict(operator.reference(call).outputs)


def by_kernel(operator: Operator, call: OpCall) -> Outputs:
    """What the kernel leaves in the outputs of the call."""
    assert operator.kernel(call) is Status.SUCCESS
    return {name: argument.array for name, argument in call.outputs.items()}


# Whoever computes a ruling.
BOTH = (by_reference, by_kernel)


def bits_of(array: Array) -> Array:
    return np.ascontiguousarray(array).view(f"<u{array.itemsize}")


def counting(*shape: int) -> Array:
    """The whole numbers from 1 on."""
    return np.arange(1, 1 + np.prod(shape), dtype="<f4").reshape(shape)


def disagreements(
    case: Case, operator: Operator, define: Callable[[OpCall], ExactElements], most: int
) -> tuple[int, list[object]]:
    """How many elements were looked at, and those whose baseline is not the exact value, rounded once."""
    results = expected_results(case, operator)
    elements = define(bind_values(case, operator))
    assert elements.keys() == {spec.id for spec in operator.outputs} | set(operator.results)
    found: list[object] = [(name, value) for name, value in results.items() if value != elements[name]()]
    looked = len(results)
    counts = row_counts(operator, case.outputs, results)
    for tensor in case.outputs:
        values = tensor.values[: owned_rows(operator.output(tensor.id), counts)]
        for place in places(values.size, most):
            index = tuple(int(i) for i in np.unravel_index(place, values.shape))
            truth = rounded(elements[tensor.id](*index), tensor.desc.dtype)
            if error(stored_number(values[index], tensor.desc.dtype), truth) != 0:
                found.append((tensor.id, index, values[index], truth))
            looked += 1
    return looked, found


def places(size: int, most: int) -> Sequence[int]:
    """The first, the last, and some between them; all where there are few."""
    if size <= most:
        return range(size)
    between = np.random.default_rng(size).choice(size - 2, most - 2, replace=False) + 1
    return sorted({0, *between.tolist(), size - 1})


class FaultyCalls:
    """Calls with faults that show what a check does, by the ways that were searched for to draw calls."""

    def __init__(self, draws: Draws) -> None:
        self._operator, self._ways, self._random = draws.operator, draws.ways, Random(draws.seed)
        # The checks that answered any of the calls.
        self.answering: set[str] = set()

    def reach(self, aim: Aim) -> Case | None:
        """A call that reaches the aim, complete with what must come back; None where none is found."""
        for _ in range(_TRIES):
            kinds = self._ways.together(aim, self._random)
            if kinds is None:  # There may be some on another base.
                continue
            for case, aims in self._apply(kinds):
                if aim in aims:
                    return self._with_answer(case)
        return None

    def broken_by_one_fault(self) -> set[str]:
        """The checks that do not hold, first or not, in a call with one fault."""
        reached = {aim for kind in self._ways.kinds for _, aims in self._apply((kind,)) for aim in aims}
        return {aim.later or aim.check for aim in reached}

    def _apply(self, kinds: Kinds) -> Iterator[tuple[Case, Aims]]:
        for valid in self._ways.search.bases.values():
            look = self._ways.look(valid, kinds)
            aims = None if look is None else reached_aims(look, self._operator)
            if look is not None and aims is not None:
                self.answering.update(aim.check for aim in aims)
                yield look.case, aims

    def _with_answer(self, case: Case) -> Case:
        call = bind_values(case, self._operator)
        answer = self._operator.answer(call)
        case = replace(case, expect=replace(case.expect, status=answer.status, check=answer.check, degenerate="drawn"))
        if answer.computes:
            baseline = baseline_of(self._operator, call).outputs
            return replace(case, outputs=tuple(tensor.holding(baseline[tensor.id]) for tensor in case.outputs))
        empty = dict.fromkeys(self._operator.results, 0) if answer.status is Status.SUCCESS else {}
        return replace(case, params={**case.params, **empty})
