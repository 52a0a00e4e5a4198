"""Recipes: values of any bits and the shifts of all groups."""

from typing import Final

from . import SHIFT

RECIPES: Final = {"shifted": SHIFT.shifted}
SPACE: Final = SHIFT.space
