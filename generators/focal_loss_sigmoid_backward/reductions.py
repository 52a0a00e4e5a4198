"""Smaller calls that fail alike: targets are renumbered where columns go."""

from typing import Final

from mluops_gtest.authoring.reductions import along, axis_reductions

from . import OPERATOR

REDUCTIONS: Final = {**axis_reductions(OPERATOR), "columns": along(OPERATOR, "C", {"target": None})}
