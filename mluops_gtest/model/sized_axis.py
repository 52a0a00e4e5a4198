"""What cases are declared for in size: how many there are in a call, and what a kernel sees that loses one."""

from collections.abc import Callable, Mapping

from mluops_gtest.model.call import OpCall
from mluops_gtest.model.dtypes import Array
from mluops_gtest.value import Value


class SizedAxis(Value):
    """A quantity that cases are declared for under `sizes`: an axis of a tensor, or what `count` says."""

    tensor: str
    axis: int = 0
    # How many there are in a call, where that is not the length of the axis.
    count: Callable[[OpCall], int] | None = None
    # The inputs as a kernel sees them that loses one of them; the plain meaning of `lost` where it is None.
    without: Callable[[OpCall, int], Mapping[str, Array]] | None = None

    def size(self, call: OpCall) -> int:
        """How many there are in that call."""
        if self.count is not None:
            return self.count(call)
        dims = call.tensor(self.tensor).dims
        if not -len(dims) <= self.axis < len(dims):
            raise ValueError(f"{call.operator}: {self.tensor} {list(dims)} has no axis {self.axis}")
        return dims[self.axis]

    def lost(self, call: OpCall, index: int) -> Mapping[str, Array]:
        """The inputs that a kernel sees which loses that index: 0 there in a float tensor, −1 in one of indices."""
        if self.without is not None:
            return self.without(call, index)
        if self.tensor not in call.inputs:
            return {}
        array = call.array(self.tensor).copy()
        self.cut(array, index)[...] = -1 if array.dtype.kind in "iu" else 0
        return {self.tensor: array}

    def cut(self, array: Array, index: int) -> Array:
        """A view of that index along the axis."""
        place = (slice(None),) * (self.axis % array.ndim)
        view: Array = array[(*place, slice(index, index + 1))]
        return view
