"""What fuzzing draws for an operator that declares axes and no space of its own: any length along each axis.

Recipes make the calls that take names of axes as keyword arguments, and need no others.
"""

from collections.abc import Mapping
from math import prod
from typing import Any, Final

from mluops_gtest.catalog.templates import signature_of
from mluops_gtest.core.call import Choice, Drawn, Sizes, Space
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.shape import parse_shape

# Just behind a power of two; what becomes too large by several axes shrinks.
_LONGEST: Final = 1025
_RECIPE, _DTYPE = "the recipe", "the type"


def default_space(operator: Operator) -> Space | None:
    """Every axis from 1 on, every recipe that fits, every type of the outputs; None where no recipe fits."""
    symbols = {name: one.symbol for name, one in operator.axes.items()}
    keywords = {name: signature_of(recipe)[0] for name, recipe in operator.recipes.items()}
    taken = {recipe: [name for name in symbols if name in own] for recipe, own in keywords.items()}
    fitting = [
        one for one, own in keywords.items() if taken[one] and not any(own[key] for key in own if key not in symbols)
    ]
    if not fitting:
        return None
    dtypes = next((spec.dtypes for spec in operator.outputs if len(spec.dtypes) > 1), ())
    params = {field.name for field in operator.param_fields}

    def draw(point: Mapping[str, Any]) -> Drawn:
        recipe = point[_RECIPE]
        # A length that is a parameter and no argument of the recipe.
        others = {
            symbol: point[name] for name, symbol in symbols.items() if symbol in params and name not in taken[recipe]
        }
        return Drawn(recipe, others, {name: point[name] for name in taken[recipe]}, point.get(_DTYPE))

    def elements(point: Mapping[str, Any]) -> int:
        lengths = {symbol: point[name] for name, symbol in symbols.items()}
        shapes = (parse_shape(spec.shape).forms[0].axes for spec in operator.tensors)
        factors = ([factor for axis in axes for factor in axis.factors] for axes in shapes)
        return sum(prod(int(one) if one.isdecimal() else lengths.get(one, 1) for one in own) for own in factors)

    axes: dict[str, Sizes | Choice] = {name: Sizes(1, _LONGEST) for name in symbols}
    axes[_RECIPE] = Choice(tuple(fitting))
    if dtypes:
        axes[_DTYPE] = Choice(tuple(dtype.value for dtype in dtypes))
    return Space(axes, draw, elements)
