"""A recipe of two parts: it takes the keywords of both, and each part gets its own."""

from typing import Literal

import pytest

from generators._shared.connections import any_pairs, connected
from mluops_gtest.authoring import Draw, DType, RecipeOutput
from mluops_gtest.catalog.templates import signature_of
from mluops_gtest.core.operator import source_of


def around(draw, params, dtype, connections, *, channels: int, kind: Literal["plain", "odd"] = "plain"):
    """The pairs alone, with what was asked for."""
    return RecipeOutput({"indice_pairs": connections.pairs}, {**params, "kind": kind, "channels": channels})


RECIPE = connected(any_pairs, around)


def test_the_recipe_takes_the_keywords_of_both_parts():
    required, types = signature_of(RECIPE)
    assert required == {
        "channels": True, "kind": False, "kernel": True, "rows_in": True, "rows_out": True, "counts": False,
        "tail": False,
    }  # fmt: skip
    assert types["kind"] == Literal["plain", "odd"]
    assert types["kernel"] == tuple[int, ...]


def test_each_part_gets_its_own():
    made = RECIPE(Draw(1), {"sub_m": 1}, DType.FLOAT, kernel=(3,), rows_in=4, rows_out=4, counts=(2,), channels=5)
    assert made.inputs["indice_pairs"].shape == (3, 2, 4)
    assert made.params == {"sub_m": 1, "kind": "plain", "channels": 5}


def test_mistakes_are_the_authors():
    assert source_of(RECIPE).startswith(f"{__file__}:")
    with pytest.raises(TypeError, match="channels"):
        RECIPE(Draw(1), {}, DType.FLOAT, kernel=(1,), rows_in=1, rows_out=1)
