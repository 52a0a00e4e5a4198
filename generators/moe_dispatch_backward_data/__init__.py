"""moe_dispatch_backward_data: the gradient of every sample is its gate times the row of dispatch that it went to."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import Array, OpCall, Status, checks, exact
from mluops_gtest.authoring.exact_numbers import ExactElement, fraction, products

from .._shared import moe_dispatch as moe
from .._shared.moe_routing import Operands, Routing, literal_or_0, rounded_products, slots_read, torch_routing

INPUTS: Final = ("gates", "indices", "locations", "dispatch")

CHECKS = (
    checks.handle("§2.2"),
    checks.arch("released; the header says compute_50 or above"),
    checks.descriptors(doc="§2.2"),
    checks.ranks(doc="§1.1"),
    checks.dims(doc="§1.4"),
    checks.dtypes(doc="§1.4"),
    checks.params(doc="§1.3"),
    checks.strided(doc="§1.4"),
    checks.large(doc="released"),
    checks.empty("grad_input", doc="§1.1"),
    checks.pointers("grad_input", doc="§2.2"),
    # §1.1: without slots every sample is unrouted, and its gradient is 0.
    checks.empty("dispatch", doc="§1.1", writes=True),
    # As released, grad_input is cleared by now, and need not be.
    checks.pointers(*INPUTS, doc="§2.2", may_clear=("grad_input",)),
)


# The oracle: one product, rounded once.


def gradients(call: OpCall, routing: Routing) -> Array:
    """gates[i] · dispatch[slot(i), :] for what is routed, +0 for the rest: the operator clears it itself (§3.1)."""
    grad = np.zeros(call.tensor("grad_input").dims, np.float32)
    if not call.tensor("dispatch").desc.is_empty:
        gates, dispatch = call.arrays("gates", "dispatch")
        grad[routing.samples] = rounded_products(gates[routing.samples], dispatch[routing.slots])
    return grad


# One element as §2.1 defines it.
def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """One product, or 0."""

    def product(slot: int, sample: int, column: int) -> Fraction | float:
        return fraction(float(products(call.array("gates")[sample], call.array("dispatch")[slot, column])))

    return {"grad_input": literal_or_0(call, product)}


# The kernel that the numpy backend runs: every task has a part of the samples (§3.1).

TASKS: Final = 16


def kernel(call: OpCall) -> Status:
    """Check the call, then gather."""
    if (refused := moe.refusal(call)) is not None:
        return refused
    grad = call.tensor("grad_input")
    if 0 in grad.dims:
        return Status.SUCCESS
    if grad.null:
        return Status.BAD_PARAM
    result, without_slots = call.array("grad_input"), call.tensor("dispatch").dims[0] == 0
    if not without_slots and any(call.tensor(name).null for name in INPUTS):
        return Status.BAD_PARAM
    result[...] = 0
    if without_slots:
        return Status.SUCCESS
    slots, gates, dispatch = slots_read(call), *call.arrays("gates", "dispatch")
    with np.errstate(over="ignore", invalid="ignore"):
        for part in np.array_split(np.flatnonzero(slots >= 0), TASKS):
            result[part] = dispatch[slots[part]] * gates[part, None]
    return Status.SUCCESS


# With torch: rows are gathered.
def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Write grad_input."""
    samples, slots = torch_routing(call, inputs)
    # Only what is routed is multiplied: 0 · NaN is NaN.
    rows = inputs["dispatch"][slots] * inputs["gates"][samples, None]
    outputs["grad_input"].zero_().index_copy_(0, samples, rows)


OPERATOR = moe.moe_operator(
    "moe_dispatch_backward_data",
    (1303, 20230216),
    Operands("gates", "dispatch", "grad_input"),
    # §1.5.1; one product is rounded in one way.
    exact(),
    gradients,
    summary="Gives every sample the gradient of the slot that it went to, times its gate; 0 if there is none.",
    checks=CHECKS,
    # Lengths, which are not negative, are asked for before parameters.
    subsumed={
        **moe.never_large("gates", "indices", "locations"),
        **dict.fromkeys(("samples", "hidden"), "it is the length of an axis, which is not negative"),
    },
    kernel=kernel,
    exact=elements,
    torch_kernel=torch_kernel,
)
