"""Recipes: logits of networks and special ones, targets, weights; targets are renumbered where columns go."""

from typing import Final

from mluops_gtest.authoring.reductions import along

from . import FOCAL, OPERATOR

RECIPES: Final = {"logits": FOCAL.logits}
SPACE: Final = FOCAL.space()
REDUCTIONS: Final = {"columns": along(OPERATOR, "C", {"target": None})}
