"""Mistakes that can be recomputed: those that an operator names, and inputs that were rounded on the way."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from typing import Final

import numpy as np
from msgspec.structs import replace

from mluops_gtest.criteria.elements import widened
from mluops_gtest.errors import OperatorError
from mluops_gtest.explain.fit import Fit
from mluops_gtest.explain.narrowing import EITHER, NARROW, narrowed
from mluops_gtest.explain.wrong_output import WrongOutput
from mluops_gtest.model.binding import bind_values
from mluops_gtest.model.call import OpCall, TensorArg
from mluops_gtest.model.case import Case
from mluops_gtest.model.dtypes import Array, DType
from mluops_gtest.model.explanation import AsIf, Law, RoundedInputs
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.suspected import suspected
from mluops_gtest.model.tensor import Tensor

# Elements of all tensors of a case; larger ones are not computed again.
_MAX_ELEMENTS: Final = 1 << 18
# Fewer wrong elements may be near to a computed mistake by chance.
_CONFIRMED: Final = 3

_Outputs = Mapping[str, Array]


class Suspects:
    """What comes out of one case by each mistake, computed when first asked for and kept for its other outputs."""

    def __init__(self, case: Case, operator: Operator) -> None:
        self._case, self._operator = case, operator
        self._made: dict[Law, _Outputs] = {}
        self.slips: list[str] = []
        """What is wrong with suspects themselves, each told once; such a suspect is not tried."""

    def of(self, tensor: Tensor, out: WrongOutput) -> tuple[Callable[[], Iterator[Fit]], Callable[[], Iterator[Fit]]]:
        """Two lists of mistakes tried on an output: what the operator names, and rounded inputs."""
        small = self._case.elements <= _MAX_ELEMENTS
        if not small or out.held_to == "written":
            return lambda: iter(()), lambda: iter(())
        return lambda: self._named(tensor, out), lambda: self._rounded(tensor, out)

    def _named(self, tensor: Tensor, out: WrongOutput) -> Iterator[Fit]:
        for name in self._operator.suspects:
            yield from self._tried(AsIf(name), partial(self._suspected, name), tensor, out)

    def _suspected(self, name: str) -> _Outputs:
        try:
            return suspected(self._operator, name, self._call)
        except OperatorError as error:
            self.slips.append(str(error))
            return {}

    def _rounded(self, tensor: Tensor, out: WrongOutput) -> Iterator[Fit]:
        if out.held_to == "equality":
            return
        # half and TF32 have the same bits; where no exponent tells them apart, both are named.
        calls = {precision: _with_rounded_inputs(self._call, precision) for precision in NARROW}
        if _are_same(calls["half"], calls["tf32"]):
            calls = {EITHER: calls["half"], "bfloat16": calls["bfloat16"]}
        for precision, call in calls.items():
            if call is not None:
                yield from self._tried(RoundedInputs(precision), partial(self._recomputed, call), tensor, out)

    def _recomputed(self, call: OpCall) -> _Outputs:
        # Rounding may move data out of what the document defines; of these the reference promises nothing.
        return {} if self._operator.broken(call) else self._operator.reference(call).outputs

    @cached_property
    def _call(self) -> OpCall:
        return bind_values(self._case, self._operator)

    def _tried(self, law: Law, make: Callable[[], _Outputs], tensor: Tensor, out: WrongOutput) -> Iterator[Fit]:
        if law not in self._made:
            self._made[law] = make()
        made = self._made[law].get(tensor.id)
        if made is None:
            return
        predicted = widened(np.asarray(made[: len(out.wrong)]), tensor.desc.dtype)
        holds = out.near(predicted.reshape(-1)[out.places].astype(out.b.dtype))
        whole = bool(holds.all()) and bool((out.wrong | out.agreeing(predicted)).all())
        # Of a mistake that is computed all follows: right elements that would be wrong by it speak against it.
        yield Fit(law, holds if whole else np.zeros_like(holds), lambda: predicted, len(holds) >= _CONFIRMED, whole)


def _are_same(first: OpCall | None, second: OpCall | None) -> bool:
    if first is None or second is None:
        return False
    return all(
        one is None or one.array is None or np.array_equal(one.array, second.array(name), equal_nan=one.dtype.is_float)
        for name, one in first.inputs.items()
    )


def _with_rounded_inputs(call: OpCall, precision: str) -> OpCall | None:
    """The call with its float inputs rounded; None where that changes nothing."""
    inputs: dict[str, TensorArg | None] = {}
    changed = False
    for name, argument in call.inputs.items():
        if argument is not None and argument.array is not None and argument.dtype is DType.FLOAT:
            rounded = narrowed(argument.array, precision).astype(argument.array.dtype)
            changed = changed or not np.array_equal(rounded, argument.array, equal_nan=True)
            inputs[name] = replace(argument, array=rounded)
        else:
            inputs[name] = argument
    return replace(call, inputs=inputs) if changed else None
