"""Recipes: logits of networks and special ones, targets, weights; targets are renumbered where columns go."""

from typing import Final

from mluops_gtest.authoring.reductions import along, axis_reductions

from . import FOCAL, OPERATOR

RECIPES: Final = {"logits": FOCAL.logits}
SPACE: Final = FOCAL.space()
REDUCTIONS: Final = {**axis_reductions(OPERATOR), "columns": along(OPERATOR, "C", {"target": None})}
