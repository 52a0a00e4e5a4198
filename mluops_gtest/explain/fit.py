"""A law that was tried on an output."""

from collections.abc import Callable

from mluops_gtest.model.dtypes import Array
from mluops_gtest.model.explanation import Law
from mluops_gtest.value import Value


class Fit(Value):
    """Of which wrong elements a law holds, in the order of `places`."""

    law: Law
    holds: Array
    # The whole output by the law; None where it speaks of wrong elements alone.
    predicted: Callable[[], Array] | None = None
    # Chance does not explain that it holds.
    sure: bool = True
    # It explains the right elements as well: what it gives is the whole output.
    whole: bool = False
