"""What an operator says arithmetic allows, asked for bounds that fit its outputs."""

from collections.abc import Callable, Mapping

import numpy as np

from mluops_gtest.errors import OperatorError, shown, suggestion
from mluops_gtest.model.binding import bind_values
from mluops_gtest.model.bound import Bound
from mluops_gtest.model.call import OpCall
from mluops_gtest.model.case import Case
from mluops_gtest.model.operator import Operator, raised_by, source_of

# The bounds of a case: computed, or kept from an earlier run.
BoundSource = Callable[[Case, Operator], Mapping[str, Bound]]


def bounds_of(operator: Operator, call: OpCall) -> Mapping[str, Bound]:
    """The bound of every output that has one in a call that computes; none for an operator that declares nothing."""
    if operator.bound is None:
        return {}
    try:
        bounds = operator.bound(call)
    except MemoryError:
        raise
    except Exception as error:
        mistake = (
            f"fails: {raised_by(error, operator.bound)}. It must give a bound wherever the reference gives a baseline."
        )
    else:
        found = mistake_in(operator, call, bounds)
        if found is None:
            return bounds
        mistake = found
    raise OperatorError(f"{source_of(operator.bound)}: the bound of {operator.name} {mistake}")


def computed_bounds(case: Case, operator: Operator) -> Mapping[str, Bound]:
    """The bounds of a case, from its inputs."""
    return bounds_of(operator, bind_values(case, operator))


def mistake_in(operator: Operator, call: OpCall, bounds: object) -> str | None:
    """What bounds lack to fit the outputs of the call, in words; None where they fit."""
    if not isinstance(bounds, Mapping):
        return f"returns {shown(bounds)}. Let it return {{output: Bound(magnitude, roundings)}}."
    outputs = tuple(spec.id for spec in operator.outputs)
    for name, bound in bounds.items():
        if name not in outputs:
            return f"names the output {name!r}, which the operator does not declare.{suggestion(name, outputs)}"
        if not isinstance(bound, Bound):
            return f"gives {shown(bound)} for {name!r}. Give a Bound."
        dims = call.tensor(name).dims
        for part in ("magnitude", "roundings", "unit"):
            shape = np.shape(getattr(bound, part))
            if not _broadcasts(shape, dims):
                return (
                    f"has a {part} of the shape {list(shape)} for {name!r}, whose shape is {list(dims)}. "
                    "Give a number, or an array with that shape or with 1 on axes that do not matter."
                )
    return None


def _broadcasts(shape: tuple[int, ...], dims: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, dims) == dims
    except ValueError:
        return False
