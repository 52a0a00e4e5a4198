"""Recipes around the pairs of a sparse convolution: one part says which rows meet, another makes the case of them."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from mluops_gtest.authoring.connections import (
    Connections,
    Tail,
    layer_connections,
    random_connections,
    site_connections,
)
from mluops_gtest.authoring.random import Draw
from mluops_gtest.authoring.sparse import Triple, derive_geometry
from mluops_gtest.core.operator import Recipe, RecipeOutput
from mluops_gtest.core.tensor import DType


def connected(connect: Callable[..., Connections], around: Callable[..., RecipeOutput]) -> Recipe:
    """The recipe with the keywords of both: connect(draw, params, …) and then around(draw, params, dtype, found, …)."""
    keywords = {
        name: parameter
        for function in (around, connect)
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    }
    own = inspect.signature(connect).parameters.keys()

    def recipe(draw: Draw, params: Mapping[str, Any], dtype: DType, **given: Any) -> RecipeOutput:
        found = connect(draw, params, **{name: value for name, value in given.items() if name in own})
        return around(draw, params, dtype, found, **{name: value for name, value in given.items() if name not in own})

    # What declared cases are checked against, and where the operator's file has it.
    leading = [p for p in inspect.signature(recipe).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    hints = get_type_hints(around) | get_type_hints(connect)
    recipe.__signature__ = inspect.Signature([*leading, *keywords.values()])  # type: ignore[attr-defined]
    recipe.__annotations__ = {name: hints[name] for name in keywords} | {"return": RecipeOutput}
    recipe.__wrapped__ = around  # type: ignore[attr-defined]
    return recipe


def any_pairs(
    draw: Draw,
    params: Mapping[str, Any],
    *,
    kernel: tuple[int, ...],
    rows_in: int,
    rows_out: int,
    counts: tuple[int, ...] = (),
    tail: Tail = "minus_one",
) -> Connections:
    """Any rows meet, in any order: `counts` pairs per offset; one number is for all, none leaves it to chance.

    With sub_m the middle offset pairs every row with itself.
    """
    sub_m = params.get("sub_m", 0) == 1
    return random_connections(draw, kernel, rows_in, rows_out, counts=counts, tail=tail, sub_m=sub_m)


def pairs_of_sites(
    draw: Draw,
    params: Mapping[str, Any],
    *,
    space: Triple,
    kernel: Triple,
    count: int,
    batch: int = 1,
    stride: Triple = (1, 1, 1),
    pad: Triple = (0, 0, 0),
    dilation: Triple = (1, 1, 1),
) -> Connections:
    """The pairs of a convolution over `count` random active sites; with sub_m the outputs are the sites themselves."""
    geometry = derive_geometry(batch, space, kernel, stride, pad, dilation, sub_m=params.get("sub_m", 0) == 1)
    return site_connections(draw, geometry, count)


def pairs_of_layer(draw: Draw, params: Mapping[str, Any], *, layer: str, keep: int = 0) -> Connections:
    """A layer of the detection network; `keep` makes its twin: that many neighbouring sites of a small cloud."""
    del params
    return layer_connections(draw, layer, keep)
