"""Recipes: where the pairs of a case come from, and the tensors around them."""

import math
from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, RecipeOutput, Stream
from mluops_gtest.authoring.sums import assert_conditioned, exact_sums

from .._shared.connections import Connections, any_pairs, connected, pairs_of_layer, pairs_of_sites
from .._shared.convolution import CRITERIA
from .._shared.convolution_space import convolution_space, fewer_pairs
from .._shared.products import Values as Factors
from .._shared.products import draw_factor, lattice_bits
from . import Operands, float64_is_exact, offset_products

# Beside what all sums of products share, huge: positive, and one product in the middle is a thousand times any other.
Values = Literal[Factors, "huge"]

# The longest float sums of wide lattices. Signed products cancel by chance, so that a sequential float32 sum of more
# may use a quarter of 1e-5, and one of a quarter of a million nearly all of it.
LONGEST: Final = 1_000
_FLOAT32_BITS: Final = 24
# Half ends at 65504; partial sums in another order may be larger than the sum.
_HALF_LIMIT: Final = 3e4
# Products of 256 to 1024 among others below 1/4.
_HUGE: Final = 2.0**6
# What is looked at for conditioning: small cases wholly, network cases by their longest offsets.
_CONDITION_PRODUCTS: Final = 1 << 20


def draw_operands(
    draw: Draw, values: Values, dtype: DType, connections: Connections, channels: tuple[int, int]
) -> Operands:
    """features [L, Ci] and output_grad [Y, Co] of that kind, and the pairs that multiply them.

    What is said of the order of terms holds for the pairs of the first offset.
    """
    terms = max(1, *connections.counts)
    in_rows, out_rows = connections.used[0]
    features = _draw_values(draw.stream("features"), values, dtype, (connections.rows_in, channels[0]), terms, 1)
    grads = _draw_values(draw.stream("output_grad"), values, dtype, (connections.rows_out, channels[1]), terms, -1)
    return Operands(_placed(features, in_rows), _placed(grads, out_rows), connections.used)


def _placed(in_order: Array, named: Array) -> Array:
    """The rows where the first offset names them one after the other, the others behind in ascending order."""
    by_row = np.empty_like(in_order)
    by_row[named] = in_order[: len(named)]
    by_row[np.setdiff1d(np.arange(len(in_order)), named)] = in_order[len(named) :]
    return by_row


def _draw_values(
    stream: Stream, values: Values, dtype: DType, shape: tuple[int, int], terms: int, sign: Literal[1, -1]
) -> Array:
    match values:
        case "lattice":
            return stream.lattice(shape, bits_per_factor(dtype, terms), dtype=dtype.storage.str)
        case "huge":
            drawn = draw_factor(stream, "positive", dtype, shape, terms=terms)
            drawn[terms // 2] *= drawn.dtype.type(_HUGE)
            return drawn
    return draw_factor(stream, values, dtype, shape, terms=terms, axis=0, sign=sign)


def bits_per_factor(dtype: DType, terms: int) -> int:
    """The bits of lattice values: the most that keep float64 sums exact, in long float sums those of float32.

    3 bits at 248636 terms, because 7 · 7 · 248636 < 2^24: exact in float32 in any order, so no order is unlucky.
    """
    if dtype is DType.FLOAT and terms > LONGEST:
        return int(math.log2(math.isqrt(2**_FLOAT32_BITS // terms) + 1))
    return lattice_bits(dtype, terms)


def _refuse_unless_sound(operands: Operands, values: Values, dtype: DType) -> None:
    """Lattice sums are exact in float64, half sums finite, float32 sums in any order far within the criterion."""
    if values == "lattice" and not float64_is_exact(operands):
        raise ValueError("the lattice is too fine: float64 sums of these products round")
    terms = _longest_sums(operands)
    if not terms.size:
        return
    sums = exact_sums(terms)
    if dtype is DType.HALF and np.abs(sums).max() > _HALF_LIMIT:
        raise ValueError(f"a sum is beyond {_HALF_LIMIT:.0f}, too near to the largest half")
    assert_conditioned(terms, sums, CRITERIA[dtype])


def _longest_sums(operands: Operands) -> Array:
    """The products of the longest offsets as columns [T, n], padded with zeros."""
    longest, channels_out = operands.longest, operands.shape[2]
    columns = min(max(1, _CONDITION_PRODUCTS // max(1, longest)), math.prod(operands.shape))
    lengths = [pairs.shape[1] for pairs in operands.pairs]
    found, filled = np.zeros((longest, columns)), 0
    for offset in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if filled == columns:
            break
        few = slice(0, math.ceil((columns - filled) / channels_out))
        terms = offset_products(operands, offset, few)[:, : columns - filled]
        found[: len(terms), filled : filled + terms.shape[1]] = terms
        filled += terms.shape[1]
    return found


def assemble(
    draw: Draw,
    params: Mapping[str, Any],
    dtype: DType,
    connections: Connections,
    *,
    channels_in: int,
    channels_out: int,
    values: Values = "lattice",
) -> RecipeOutput:
    """The case around the connections."""
    channels = channels_in, channels_out
    operands = draw_operands(draw, values, dtype, connections, channels)
    _refuse_unless_sound(operands, values, dtype)
    return RecipeOutput(
        inputs={"features": operands.features, "output_grad": operands.output_grad, "indice_pairs": connections.pairs},
        params={"inverse": 0, **params, "sub_m": int(connections.sub_m), "indice_num": connections.counts},
        outputs={"filters_grad": (*connections.kernel, *channels)},
    )


# …_idle: in a row that no pair names, where nothing may show.
Kind = Literal[
    "feature_idle", "grad_idle", "feature_inf", "feature_nan", "grad_inf", "grad_nan", "inf_minus_inf",
    "zero_times_inf", "zero_times_nan",
]  # fmt: skip


def _planted(
    draw: Draw,
    params: Mapping[str, Any],
    dtype: DType,
    connections: Connections,
    *,
    channels_in: int,
    channels_out: int,
    kind: Kind,
) -> RecipeOutput:
    """Random pairs; few values are not finite, so that most sums stay so and are still compared."""
    case = assemble(draw, params, dtype, connections, channels_in=channels_in, channels_out=channels_out)
    features, grad = case.inputs["features"], case.inputs["output_grad"]
    counts, longest = connections.counts, int(np.argmax(connections.counts))
    named = [np.concatenate([pairs[side] for pairs in connections.used]) for side in (0, 1)]
    idle_in, idle_out = (np.setdiff1d(np.arange(len(a)), b) for a, b in zip((features, grad), named, strict=True))
    if counts[longest] < 2 or min(counts) > 0:
        raise ValueError("some offset must have two pairs and another none")
    if not idle_in.size or not idle_out.size:
        raise ValueError("every row is in a pair; give fewer pairs or more rows")
    (first_in, second_in), outputs = connections.pairs[longest, :, :2]
    match kind:
        case "feature_idle":
            features[idle_in[0]] = np.nan
        case "grad_idle":
            grad[idle_out[0]] = np.nan
        case "feature_inf":
            features[first_in, 0] = -np.inf
        case "feature_nan":
            features[first_in, 0] = np.nan
        case "grad_inf":
            grad[outputs[0], 0] = np.inf
        case "grad_nan":
            grad[outputs[0], 0] = np.nan
        case "zero_times_inf":
            features[first_in, 0], grad[outputs[0], 0] = 0, np.inf
        case "zero_times_nan":
            features[first_in, 0], grad[outputs[0], 0] = np.nan, 0
        case "inf_minus_inf":
            # The two rows meet gradients of one sign, so their products are infinities of both.
            grad[outputs, 0] = 1
            features[first_in, 0], features[second_in, 0] = np.inf, -np.inf
    return case


SPACE = convolution_space(values=get_args(Values), kernels=((3, 3), (1, 1), (2, 1)), filters="filters_grad")
REDUCTIONS = fewer_pairs("features", "output_grad", "filters_grad")
RECIPES: Final = {
    "random_pairs": connected(any_pairs, assemble),
    "sites": connected(pairs_of_sites, assemble),
    "network": connected(pairs_of_layer, assemble),
    "nonfinite": connected(any_pairs, _planted),
}
