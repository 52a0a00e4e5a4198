"""moe_dispatch_forward: every sample's row, times its gate, becomes the row of dispatch that it is routed to."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import Array, OpCall, Status, checks, exact, suspects
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction, products

from .._shared import moe_dispatch as moe
from .._shared.moe_routing import Operands, Routing, literal_slot, rounded_products, routed, slots_read, torch_routing

CHECKS = (
    checks.handle("§2.2"),
    checks.arch("released; the header says compute_50 or above"),
    checks.descriptors(doc="§2.2"),
    checks.ranks(doc="§1.1"),
    checks.dtypes(doc="§1.4"),
    checks.params(doc="§1.3"),
    checks.dims(doc="§1.4"),
    checks.strided(doc="§1.4"),
    # The header has the limit. §3.6 calls S = 8192, K = 0 a call without elements, and this comes before those.
    checks.require(
        "samples_fit",
        lambda call: call.param("samples") <= call.param("num_experts") * call.param("capacity"),
        "there are no more samples than slots",
        "released, against §3.6",
    ),
    checks.large("dispatch", "indices", "locations", "input", "gates", doc="released"),
    # §1.1. A dispatch without rows has no samples.
    checks.empty("input", doc="§1.1"),
    checks.pointers("indices", "locations", "input", "dispatch", "gates", doc="§2.2"),
)


# The oracle: one product, rounded once.


def written(call: OpCall, routing: Routing) -> Array:
    """gates[i] · input[i, :] where a sample is routed to, and what dispatch held elsewhere (§1.4: in place)."""
    gates, rows = call.arrays("gates", "input")
    dispatch = call.array("dispatch").copy()
    # §3.1.2: samples come in order, so of those of one slot the last wins. §2.1 assigns; the "+=" in §1.2 of
    # moe_dispatch_backward_gate is a slip.
    slots, behind = np.unique(routing.slots[::-1], return_index=True)
    samples = routing.samples[::-1][behind]
    # NaN of other rows keep their bits.
    dispatch[slots] = rounded_products(gates[samples], rows[samples])
    return dispatch


def untouched(call: OpCall) -> Array:
    """bool [E · K]: no sample is routed to the row."""
    rows = np.ones(call.tensor("dispatch").dims[0], bool)
    rows[routed(call).slots] = False
    return rows


# Mistakes beside those about the routing.


def _sums(call: OpCall) -> Array:
    samples, slots = routed(call)
    gates, rows, sums = *call.arrays("gates", "input"), call.array("dispatch").copy()
    sums[slots] = 0
    with np.errstate(all="ignore"):
        np.add.at(sums, slots, gates[samples, None] * rows[samples])
    return sums


def _cleared(call: OpCall) -> Array:
    return np.where(untouched(call)[:, None], np.float32(0), written(call, routed(call)))


def _last_tile_misplaced(call: OpCall) -> Array:
    """§3.1.3's own: the last partial tile begins at the number of tiles times its own length."""
    tiles, rest = divmod(call.param("samples"), 64)
    read = np.concatenate([np.arange(tiles * 64), tiles * rest + np.arange(rest)])
    call = suspects.misread(**dict.fromkeys(call.inputs, lambda array: array[read]))(call)
    return written(call, routed(call))


def _masked(call: OpCall) -> Array:
    dispatch, rows = written(call, routed(call)), call.array("input")[slots_read(call) < 0]
    with np.errstate(invalid="ignore"):
        dispatch[0] += (rows * np.float32(0)).sum(axis=0)
    return dispatch


# One element as §2.1 defines it.
def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """The product of the last sample that is routed to the slot, or what dispatch held."""
    last = {literal_slot(call, sample): sample for sample in range(call.param("samples"))}

    def dispatch(slot: int, column: int) -> Fraction | float:
        if slot not in last:
            return fraction(call.array("dispatch")[slot, column])
        return fraction(float(products(call.array("gates")[last[slot]], call.array("input")[last[slot], column])))

    return {"dispatch": dispatch}


# The kernel that the numpy backend runs: tasks have a part of the columns each, and go through the samples (§3.1.2).

TASKS: Final = 4


def kernel(call: OpCall) -> Status:
    """Check the call, then write rows."""
    if (refused := moe.refusal(call, fits=True)) is not None:
        return refused
    if 0 in call.tensor("input").dims:
        return Status.SUCCESS
    if any(call.tensor(name).null for name in (*call.inputs, *call.outputs)):
        return Status.BAD_PARAM
    slots, gates, rows, dispatch = slots_read(call), *call.arrays("gates", "input", "dispatch")
    samples = np.flatnonzero(slots >= 0)
    with np.errstate(over="ignore", invalid="ignore"):
        for columns in np.array_split(np.arange(rows.shape[1]), min(TASKS, rows.shape[1])):
            part = slice(columns[0], columns[-1] + 1)
            # Of samples of one slot the last one is written last.
            dispatch[slots[samples], part] = rows[samples, part] * gates[samples, None]
    return Status.SUCCESS


# With torch: only the last sample of each slot is copied.
def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Write dispatch."""
    import torch

    samples, slots = torch_routing(call, inputs)
    last = torch.full(outputs["dispatch"].shape[:1], -1, device=samples.device)
    last.scatter_reduce_(0, slots, samples, "amax")
    slots = (last >= 0).nonzero().squeeze(1)
    samples = last[slots]
    outputs["dispatch"].index_copy_(0, slots, inputs["input"][samples] * inputs["gates"][samples, None])


OPERATOR = moe.moe_operator(
    "moe_dispatch_forward",
    (1305, 23333),
    Operands("gates", "input", "dispatch"),
    # §1.5.1; one product is rounded in one way. §1.4: in place, so rows that no sample is routed to keep their bits.
    exact(),
    written,
    summary="Writes the row of every sample, times its gate, to the slot that it is routed to; other slots stay.",
    checks=CHECKS,
    subsumed={
        **moe.never_large("gates", "indices", "locations"),
        "input_large": "dispatch has as many elements at least, since samples have a slot each",
    },
    kept=untouched,
    kernel=kernel,
    suspects={
        "samples of one slot are summed": _sums,
        "rows that no sample is routed to are cleared": _cleared,
        "what is not routed is added to row 0, times 0": _masked,
        "the last partial tile of 64 samples is read elsewhere": _last_tile_misplaced,
    },
    exact=elements,
    torch_kernel=torch_kernel,
)
