"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from mluops_gtest.authoring import Array, OpCall, mistakes
from mluops_gtest.authoring.roundings import through_half

from .._shared.interpolation import shortened
from .._shared.wrong_moe_dispatch import computed, flushing, moe_mutants
from . import OPERANDS, OPERATOR, TASKS, dots, kernel, sums_by

_OUTPUT: Final = "grad_gates"
_TILE: Final = 16


def _in_half(terms: Array) -> Array:
    sums = np.zeros(len(terms), np.float16)
    for column in terms.T:
        sums = (sums + column).astype(np.float16)
    return sums


def _whole(length: int, terms: Array) -> Array:
    """What stands behind the last whole tile, or equal share, is lost; a shorter row is not."""
    sums: Array = terms[:, : terms.shape[1] // length * length or None].sum(axis=1)
    return sums


def _shares(terms: Array) -> int:
    """Samples are shared by tasks where they are fewer."""
    return max(1, TASKS // max(1, len(terms)))


def _last_share(terms: Array) -> Array:
    """Partial sums are assigned, so the last task's remains."""
    last = np.array_split(np.arange(terms.shape[1]), min(_shares(terms), terms.shape[1]))[-1]
    sums: Array = terms[:, last].sum(axis=1)
    return sums


# Sums of float32 products, one row each.
_ADDITIONS: Final[tuple[tuple[str, str, Callable[[Array], Array]], ...]] = (
    ("half_sums", "adds up in half", _in_half),
    ("bf16_products", "rounds products to bf16", lambda terms: shortened(terms, 8).sum(axis=1)),
    ("tf32_products", "rounds products to tf32", lambda terms: shortened(terms, 11).sum(axis=1)),
    ("half_products", "rounds products to half", lambda terms: through_half(terms).sum(axis=1)),
    ("half_results", "rounds sums to half", lambda terms: through_half(terms.sum(axis=1))),
    ("first_tile", "adds up the first tile of 16 alone", lambda terms: terms[:, :_TILE].sum(axis=1)),
    ("whole_tiles", "adds up whole tiles of 16 alone", partial(_whole, _TILE)),
    ("last_tile", "assigns the sums of tiles", lambda t: t[:, (t.shape[1] - 1) // _TILE * _TILE :].sum(axis=1)),
    ("whole_shares", "loses what H leaves behind equal shares of tasks", lambda terms: _whole(_shares(terms), terms)),
    ("last_share", "assigns the partial sums of tasks", _last_share),
    ("first_column", "takes the first product alone", lambda terms: terms[:, 0]),
    ("first_column_lost", "loses the first column", lambda terms: terms[:, 1:].sum(axis=1)),
    ("last_column_lost", "loses the last column", lambda terms: terms[:, :-1].sum(axis=1)),
    ("goes_on", "does not clear the workspace between samples", lambda terms: np.cumsum(terms.sum(axis=1))),
)


def _without_columns(call: OpCall) -> slice:
    return slice(0 if call.param("hidden") else None)


MUTANTS: Final = (
    *moe_mutants(OPERATOR, dots, OPERANDS, "samples"),
    *(
        computed(OPERATOR, name, message, lambda call, add=add: sums_by(add, call)[_OUTPUT])  # type: ignore[misc]
        for name, message, add in _ADDITIONS
    ),
    mistakes.left("no_hidden_left", "does not clear grad_gates where H is 0", kernel, _OUTPUT, _without_columns),
)
VARIANTS: Final = {"subnormal": (flushing(OPERATOR, OPERANDS),)}
