"""Recipes: where the samples go and what dispatch holds; the parameters say how many there are of everything."""

from typing import Final

from .._shared.moe_dispatch import MoeOperands, moe_space

OPERANDS: Final = MoeOperands("gates", "input", "dispatch")
RECIPES: Final = OPERANDS.recipes
SPACE: Final = moe_space(fits=True)
