"""Recipes: where the samples go and what dispatch holds; the parameters say how many there are of everything."""

from typing import Final, get_args

from .._shared.moe_dispatch import MoeOperands, Special, moe_space

OPERANDS: Final = MoeOperands("gates", "input", "dispatch")
RECIPES: Final = OPERANDS.recipes
SPACE: Final = moe_space(*get_args(Special), fits=True)
