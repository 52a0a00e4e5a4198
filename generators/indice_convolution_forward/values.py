"""The numbers that fill features and weights, and the proof that right kernels can meet the criterion."""

from dataclasses import replace
from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, Criterion, Draw, DType, diff1_and_diff2

from .._shared.connections import Connections
from .._shared.products import Products, Values, by_matrix_products, draw_factor, refuse_unless_conditioned

# §1.5.1
CRITERIA: Final[dict[DType, tuple[Criterion, ...]]] = {
    DType.FLOAT: diff1_and_diff2(1e-5),
    DType.HALF: diff1_and_diff2(3e-3),
}

# A kernel that rounds to half after every offset, as the released one, may use up half of the threshold: with 27
# offsets of 64 channels it uses a third.
_HALF_STEPS_ROOM: Final = 2
# Output rows that are looked at: small cases wholly, network cases by their first rows.
_HALF_STEPS_ROWS: Final = 1024


def draw_operands(
    draw: Draw, values: Values, dtype: DType, connections: Connections, channels: tuple[int, int]
) -> tuple[Array, Array]:
    """features [L, Ci] and weights [K, Ci, Co] of that kind; both are summed along Ci."""
    channels_in, _ = channels
    offsets = len(connections.counts)
    # Within one offset an output row occurs at most once, so that many products at most meet in one sum.
    terms = offsets * channels_in
    rows = (connections.rows_in, channels_in)
    return (
        draw_factor(draw.stream("features"), values, dtype, rows, terms=terms),
        draw_factor(draw.stream("filters"), values, dtype, (offsets, *channels), terms=terms, axis=1, sign=-1),
    )


def refuse_unless_sound(products: Products, values: Values, dtype: DType) -> None:
    """Any order of float32 additions, and for half rounding after every offset, must stay far within the criterion."""
    refuse_unless_conditioned(products, CRITERIA[dtype], lattice=values == "lattice")
    if dtype is DType.HALF:
        _refuse_unless_half_steps_pass(products)


def _refuse_unless_half_steps_pass(products: Products) -> None:
    """Raise ValueError where sums that become half after every offset come near the threshold."""
    count = min(products.count, _HALF_STEPS_ROWS)
    first = replace(products, count=count, meetings=tuple(pairs[:, pairs[0] < count] for pairs in products.meetings))
    # Rounded once, as the baseline is.
    wanted = by_matrix_products(first).astype(np.float64)
    error = np.abs(summed_in_half_steps(first) - wanted)
    shares = (error.sum() / (np.abs(wanted).sum() + 1e-9), np.sqrt((error**2).sum() / ((wanted**2).sum() + 1e-9)))
    allowed = CRITERIA[DType.HALF][0].threshold / _HALF_STEPS_ROOM
    if not max(shares) <= allowed:
        raise ValueError(
            f"rounding to half after every offset costs {max(shares):.3g}, allowed is {allowed:.3g}: the released "
            "kernel could fail; give fewer offsets per sum, or terms that cancel less"
        )


def summed_in_half_steps(products: Products) -> Array:
    """The sums as the released kernel makes them from half: float32 within an offset, half after each."""
    sums = np.zeros(products.shape, np.float16)
    for matrix, (targets, sources) in zip(products.matrices, products.meetings, strict=True):
        part = products.rows[sources].astype(np.float32) @ matrix.astype(np.float32)
        sums[targets] += part.astype(np.float16)
    return sums.astype(np.float64)
