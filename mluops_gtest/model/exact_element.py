"""The literal definition of one output element, for disputes between a backend and a baseline."""

from collections.abc import Callable
from fractions import Fraction

from mluops_gtest.model.call import OpCall

# element(call, index): the exact value of that element by the document's formula, on the call's own inputs, in
# integers or fractions. A float stands for what no fraction can be: nan, inf, -inf.
ExactElement = Callable[[OpCall, tuple[int, ...]], Fraction | int | float]
