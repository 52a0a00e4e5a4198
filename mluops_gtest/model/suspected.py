"""What comes out by a mistake that an operator names, asked for outputs that are the operator's."""

from collections.abc import Mapping

import numpy as np

from mluops_gtest.errors import OperatorError, shown, suggestion
from mluops_gtest.model.call import OpCall
from mluops_gtest.model.dtypes import Array
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.source_place import raised_by, source_of


def suspected(operator: Operator, name: str, call: OpCall) -> Mapping[str, Array]:
    """The outputs of a call that computes by the suspect of that name: some of the operator's, in their shapes."""
    made = operator.suspects[name]
    try:
        outputs = made(call)
    except Exception as error:
        mistake = f"fails: {raised_by(error, made)}. It must give outputs wherever the reference gives a baseline."
    else:
        found = _mistake(operator, call, outputs)
        if found is None:
            return outputs
        mistake = found
    raise OperatorError(f"{source_of(made)}: the suspect {name!r} of {operator.name} {mistake}")


def _mistake(operator: Operator, call: OpCall, outputs: object) -> str | None:
    if not isinstance(outputs, Mapping):
        return f"returns {type(outputs).__name__}. Let it return {{output: array}}."
    known = tuple(spec.id for spec in operator.outputs)
    for name, array in outputs.items():
        if name not in known:
            return f"names the output {name!r}, which the operator does not declare.{suggestion(name, known)}"
        if not isinstance(array, np.ndarray):
            return f"returns {shown(array)} as {name!r}. Return a numpy array."
        dims = call.tensor(name).dims
        if array.shape != dims:
            return f"returns {name!r} with the shape {list(array.shape)}, the call has {list(dims)}."
    return None
