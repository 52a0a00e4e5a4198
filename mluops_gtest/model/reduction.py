"""What can be taken away from a call to make it smaller: points, sites, rows, channels, batches."""

from collections.abc import Callable

from mluops_gtest.model.call import OpCall
from mluops_gtest.model.operator import RecipeOutput
from mluops_gtest.value import Value


class Reduction(Value):
    """A quantity of a call that can be made smaller."""

    # How many there are in a call.
    size: Callable[[OpCall], int]
    # The call without those from `start` up to `stop`; None where it would not be one that the document defines.
    without: Callable[[OpCall, int, int], RecipeOutput | None]
