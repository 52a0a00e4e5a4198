"""Recipes: where the samples go; rows whose products nearly cancel, and rows of which few columns count."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, Params, Recipe, RecipeOutput, diff1_and_diff2
from mluops_gtest.authoring.exact_numbers import products
from mluops_gtest.authoring.sums import assert_conditioned, exact_sums

from .._shared.moe_dispatch import MoeOperands, Where, complete, draw_routing, moe_space, routed_by

# What is looked at for conditioning: small cases wholly, network cases by their first samples.
_CONDITION_PRODUCTS: Final = 1 << 20


class GateOperands(MoeOperands):
    """Rows whose sums any order of float32 additions leaves within the criteria."""

    def made(
        self, draw: Draw, p: dict[str, Any], dtype: DType, indices: Array, locations: Array, values: Mapping[str, Array]
    ) -> RecipeOutput:
        """All inputs; ContentError where a right kernel could fail."""
        samples, slots = routed_by(p, indices, locations)
        some = slice(max(1, _CONDITION_PRODUCTS // max(1, p["hidden"])))
        with np.errstate(over="ignore", invalid="ignore"):
            terms = products(values["input"][samples[some]], values["dispatch"][slots[some]]).T
            sums = exact_sums(terms).astype(np.float32)
        assert_conditioned(terms, sums, diff1_and_diff2(3e-3))
        return super().made(draw, p, dtype, indices, locations, values)


OPERANDS: Final = GateOperands("input", "dispatch", "grad_gates")
# Factors a of 6 bits and b of 12 bits: no order of so many products a · b rounds in float32.
_MOST_HIDDEN: Final = 64


def cancel(draw: Draw, params: Params, dtype: DType, *, where: Where = "any", zeros: bool = False) -> RecipeOutput:
    """Pairs of columns a, −a against b, b + δ: narrow factors or products lose δ. With zeros δ is 0 in every other row.

    a is odd and has 6 bits, b has 12, and |δ| is 1, 2 or 3, with one sign in a row: all sums are of one magnitude.
    """
    p = complete(params)
    if p["hidden"] % 2 or p["hidden"] > _MOST_HIDDEN:
        raise ValueError(f"rows of {p['hidden']} columns do not cancel in pairs exactly; give an even number up to 64")
    pairs, (samples, _) = p["hidden"] // 2, OPERANDS.shape("input", p)
    slots = p["num_experts"] * p["capacity"]
    a = draw.stream("input").integers(0, 32, (samples, pairs)) * 2 + 1
    b = draw.stream("dispatch").integers(2048, 4092, (slots, pairs))
    delta = draw.stream("differences").integers(1, 4, (slots, pairs))
    delta *= draw.stream("signs").integers(0, 2, (slots, 1)) * 2 - 1
    if zeros:
        delta[::2] = 0
    values = {"input": np.stack([a, -a], axis=2), "dispatch": np.stack([b, b + delta], axis=2)}
    rows = {name: value.reshape(len(value), -1).astype("<f4") for name, value in values.items()}
    return OPERANDS.made(draw, p, dtype, *draw_routing(draw, p, where), rows)


def columns(
    draw: Draw, params: Params, dtype: DType, *, at: tuple[int, ...], others: float = 0.0, where: Where = "any"
) -> RecipeOutput:
    """Positive products in the columns that are listed; `others` is the factor of all other columns."""
    p = complete(params)
    values = OPERANDS.values(draw, p, "positive")
    factors = np.full(p["hidden"], others, np.float32)
    factors[list(at)] = 1
    values["input"] *= factors
    return OPERANDS.made(draw, p, dtype, *draw_routing(draw, p, where), values)


RECIPES: Final[dict[str, Recipe]] = {**OPERANDS.recipes, "cancel": cancel, "columns": columns}
SPACE: Final = moe_space(gates=("drawn",), cancel={}, columns={"at": (-1,), "others": 2.0**-12})
