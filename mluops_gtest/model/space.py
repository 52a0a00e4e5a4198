"""The calls that fuzzing draws: what varies from one to the next, and how the values chosen make a call."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import field

from mluops_gtest.model.call import OpCall, Params
from mluops_gtest.value import Value


class Sizes(Value):
    """A length or count that varies from `low` to `high`: the ends, small ones, and around powers of two."""

    low: int
    high: int


class Choice(Value):
    """One of the listed values; each is a class of its own."""

    values: tuple[Any, ...]


class Drawn(Value):
    """A call in the words of a declared case: a recipe with its arguments, parameters, and the element type."""

    recipe: str
    params: Params = field(default_factory=dict)
    args: Mapping[str, Any] = field(default_factory=dict)
    # None: the operator's first.
    dtype: str | None = None


class InStep(Value):
    """What follows from a new size beyond the shapes that name it: dims by tensor, and parameters."""

    dims: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    params: Params = field(default_factory=dict)


class Space(Value):
    """What fuzzing may draw for one operator.

    `draw` makes a call of one value per name in `axes`; None where these values do not go together, or would make a
    call that the document does not define. Faults (wrong dims, types, parameters, null pointers) are not part of it:
    they follow from the operator's tensors, parameters and checks.
    """

    axes: Mapping[str, Sizes | Choice]
    draw: Callable[[Mapping[str, Any]], Drawn | None]
    # About how many elements the tensors of the call have; large ones are drawn rarely.
    elements: Callable[[Mapping[str, Any]], int]
    # Sizes at which the checks of the document draw a line: the first beyond it; the one before it is tried as well.
    limits: tuple[int, ...] = ()
    # Size in the symbols of the shapes → what else a call must change where it becomes another one everywhere.
    in_step: Mapping[str, Callable[[OpCall, int], InStep]] = field(default_factory=dict)
    # False for a faulty call that is no call at all, because a library reads beyond an array, e.g. of counts.
    defined: Callable[[OpCall], bool] | None = None

    def mistake(self) -> str | None:
        """What no value could be drawn from, in words; None if there is nothing."""
        for name, axis in self.axes.items():
            if isinstance(axis, Sizes) and not 0 <= axis.low <= axis.high:
                return f"the axis {name!r} reaches from {axis.low} to {axis.high}; give 0 ≤ low ≤ high"
            if isinstance(axis, Choice) and len(set(axis.values)) < max(1, len(axis.values)):
                return f"the axis {name!r} must list different values, at least one"
        return None
