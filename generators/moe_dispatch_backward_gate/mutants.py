"""Implementations with one plausible mistake each; the small cases must catch every one."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status, mistakes
from mluops_gtest.authoring.roundings import flushed, through_half
from mluops_gtest.authoring.suspects import misread

from .._shared import moe_dispatch as moe
from .._shared.interpolation import shortened
from .._shared.wrong_moe_dispatch import computed, moe_mutants
from . import OPERATOR, TASKS, dots, kernel, routed, sums_by

_OUTPUT: Final = "grad_gates"
_TILE: Final = 16
# Sums of float32 products, one row each.
Add = Callable[[Array], Array]


def _in_half(terms: Array) -> Array:
    sums = np.zeros(len(terms), np.float16)
    for column in terms.T:
        sums = (sums + column).astype(np.float16)
    return sums


def _part(terms: Array, start: int | None, stop: int | None) -> Array:
    """The sums of these columns alone."""
    sums: Array = terms[:, start:stop].sum(axis=1)
    return sums


def _whole(length: int, terms: Array) -> Array:
    """What stands behind the last whole tile, or equal share, is lost; a shorter row is not."""
    return _part(terms, 0, terms.shape[1] // length * length or None)


def _shares(terms: Array) -> int:
    """Samples are shared by tasks where they are fewer."""
    return max(1, TASKS // max(1, len(terms)))


def _last_share(terms: Array) -> Array:
    """Partial sums are assigned, so the last task's remains."""
    last = np.array_split(np.arange(terms.shape[1]), min(_shares(terms), terms.shape[1]))[-1]
    return _part(terms, int(last[0]), None)


_ADDITIONS: Final[tuple[tuple[str, str, Add], ...]] = (
    ("half_sums", "adds up in half", _in_half),
    ("bf16_products", "rounds products to bf16", lambda terms: shortened(terms, 8).sum(axis=1)),
    ("tf32_products", "rounds products to tf32", lambda terms: shortened(terms, 11).sum(axis=1)),
    ("half_products", "rounds products to half", lambda terms: through_half(terms).sum(axis=1)),
    ("half_results", "rounds sums to half", lambda terms: through_half(terms.sum(axis=1))),
    ("first_tile", "adds up the first tile of 16 alone", lambda terms: _part(terms, 0, _TILE)),
    ("whole_tiles", "adds up whole tiles of 16 alone", partial(_whole, _TILE)),
    (
        "last_tile",
        "assigns the sums of tiles of 16",
        lambda terms: _part(terms, (terms.shape[1] - 1) // _TILE * _TILE, None),
    ),
    ("whole_shares", "loses what H leaves behind equal shares of tasks", lambda terms: _whole(_shares(terms), terms)),
    ("last_share", "assigns the partial sums of tasks", _last_share),
    ("first_column", "takes the first product alone", lambda terms: terms[:, 0]),
    ("first_column_lost", "loses the first column", lambda terms: _part(terms, 1, None)),
    ("last_column_lost", "loses the last column", lambda terms: _part(terms, 0, -1)),
    ("sums_squared", "multiplies sums with themselves", lambda terms: terms.sum(axis=1) ** 2),
    ("negative", "has the other sign", lambda terms: -terms.sum(axis=1)),
    ("goes_on", "does not clear the workspace between samples", lambda terms: np.cumsum(terms.sum(axis=1))),
)


def _masked(call: OpCall) -> Array:
    """What is not routed is multiplied with 0."""
    slots = moe.slots_read(call)
    rows, dispatch = call.arrays("input", "dispatch")
    lost = (rows * dispatch[np.maximum(slots, 0)]).sum(axis=1) * np.float32(0)
    return np.where(slots < 0, lost, dots(call, routed(call)))


def _limited(call: OpCall) -> Status:
    """Forward's limit."""
    return Status.BAD_PARAM if call.param("samples") > len(call.array("dispatch")) else kernel(call)


def _unrouted(call: OpCall) -> Any:
    """Samples that went nowhere; none where there is nothing to add up."""
    return moe.slots_read(call) < 0 if OPERATOR.answer(call).check is None else slice(0)


def _without(param: str) -> Callable[[OpCall], slice]:
    return lambda call: slice(0 if call.param(param) else None)


MUTANTS: Final = (
    *moe_mutants(OPERATOR, dots, ("input", "dispatch"), _OUTPUT, "samples"),
    *mistakes.suspected(
        OPERATOR,
        {
            "maxima": "the largest product is taken",
            "magnitudes_summed": "products have no sign",
            "means": "sums are divided by H",
            "slot_sums": "samples of one slot are summed",
            "rows_by_slot": "rows of input are by slot",
        },
    ),
    *(
        computed(OPERATOR, name, message, lambda call, add=add: sums_by(add, call)[_OUTPUT])  # type: ignore[misc]
        for name, message, add in _ADDITIONS
    ),
    mistakes.left("unrouted_left", "does not clear what is not routed", kernel, _OUTPUT, _unrouted),
    *(
        mistakes.left(f"no_{param}_left", f"does not clear grad_gates where {param} is 0", kernel, _OUTPUT, where)
        for param, where in (("capacity", _without("capacity")), ("hidden", _without("hidden")))
    ),
    computed(OPERATOR, "masked", "multiplies with 0 what is not routed", _masked),
    computed(
        OPERATOR, "added", "adds to what grad_gates holds", lambda call: call.array(_OUTPUT) + dots(call, routed(call))
    ),
    Mutant("no_more_than_slots", "demands S ≤ E · K", _limited),
    mistakes.input_cleared(kernel, "input"),
)


# A device may take subnormal numbers for 0.

VARIANTS: Final = {
    "subnormal": (
        Mutant(
            "tiny_floats_flushed",
            "reads subnormal floats as 0",
            lambda call: kernel(misread(input=flushed)(call) if OPERATOR.answer(call).check is None else call),
        ),
    )
}
