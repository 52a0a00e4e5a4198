"""Recipes: logits of networks and special ones, targets, weights."""

from typing import Final

from . import FOCAL

RECIPES: Final = {"logits": FOCAL.logits}
SPACE: Final = FOCAL.space()
