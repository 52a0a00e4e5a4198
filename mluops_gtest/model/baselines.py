"""The reference of an operator, asked for a baseline that is what the operator declares."""

import numpy as np

from mluops_gtest.errors import OperatorError, shown, suggestion
from mluops_gtest.model.call import OpCall
from mluops_gtest.model.operator import Baseline, Operator, source_of


def baseline_of(operator: Operator, call: OpCall) -> Baseline:
    """The reference's answer: exactly the declared outputs, in the types that the call wants, and every result."""
    baseline = operator.reference(call)
    mistake = _mistake(operator, call, baseline)
    if mistake is not None:
        raise OperatorError(f"{source_of(operator.reference)}: the reference of {operator.name} {mistake}")
    return baseline


def _mistake(operator: Operator, call: OpCall, baseline: object) -> str | None:
    if not isinstance(baseline, Baseline):
        return f"returns {shown(baseline)}. Let it return Baseline({{output: array}}, {{result: number}})."
    parts = (
        ("output", baseline.outputs, tuple(spec.id for spec in operator.outputs)),
        ("scalar result", baseline.scalars, operator.results),
    )
    for kind, given, wanted in parts:
        for name in given:
            if name not in wanted:
                return f"returns the {kind} {name!r}, which the operator does not declare.{suggestion(name, wanted)}"
        for name in wanted:
            if name not in given:
                return f"does not return the {kind} {name!r}. Add it to the Baseline."
    for name, array in baseline.outputs.items():
        desc = None if (argument := call.outputs.get(name)) is None else argument.desc
        if not isinstance(array, np.ndarray):
            return f"returns {shown(array)} as {name!r}. Return a numpy array."
        if desc is not None and array.dtype != desc.dtype.storage:
            return (
                f"returns {name!r} as {array.dtype}, the call wants {desc.dtype.value}. Round once at the end, by "
                f".astype(call.tensor({name!r}).dtype.storage); `criteria` of the OutputSpec lists its types."
            )
    for name, number in baseline.scalars.items():
        if not isinstance(number, int | np.integer) or isinstance(number, bool):
            return f"returns {shown(number)} as the result {name!r}. Return an int."
    return None
