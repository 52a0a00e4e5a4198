"""The literal definition of one output element, for disputes between a backend and a baseline."""

from collections.abc import Callable, Mapping
from fractions import Fraction

from mluops_gtest.model.call import OpCall

# A float stands for what no fraction can be: nan, inf, -inf.
ExactValue = Fraction | int | float
# element(*index): the exact value of that element by the document's formula, on the call's own inputs, in integers or
# fractions.
ExactElement = Callable[..., ExactValue]
# elements(call): such a function for every output, and one without arguments for every result that is no tensor.
ExactElements = Callable[[OpCall], Mapping[str, ExactElement]]
# Operator → its function; None where it does not say what its elements are.
ElementsSource = Callable[[str], ExactElements | None]
