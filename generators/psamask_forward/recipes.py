"""Recipes: values of any bits, and NaN where nothing may be read."""

from typing import Final

from . import MASK

RECIPES: Final = {"laid": MASK.laid}
SPACE: Final = MASK.space
