"""Recipes: road scenes away from all faces and borders, and lattices on which points stand on them."""

from collections.abc import Callable
from typing import Final

from mluops_gtest.authoring import RecipeOutput

from .._shared.roiaware_scenes import borders, cells, forward_space, scene

_ALL: Final[tuple[Callable[..., RecipeOutput], ...]] = (scene, cells, borders)
RECIPES: Final = {recipe.__name__: recipe for recipe in _ALL}
SPACE: Final = forward_space()
