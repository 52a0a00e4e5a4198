"""moe_dispatch_backward_data: the gradient of every sample is its gate times the row of dispatch that it went to."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import (
    Array,
    Baseline,
    Bound,
    DType,
    OpCall,
    Operator,
    OutputSpec,
    Status,
    Theory,
    checks,
    exact,
)
from mluops_gtest.authoring.c_api import HANDLE, c_function, scalar, tensor
from mluops_gtest.authoring.exact_numbers import ExactElement, products
from mluops_gtest.authoring.left_open import find_subnormal

from .._shared import moe_dispatch as moe
from .._shared.wrong_moe_dispatch import factor_suspects, route_suspects

INPUTS: Final = ("gates", "indices", "locations", "dispatch")
ALL: Final = (*INPUTS, "grad_input")

# What is checked, in normative order.

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


def gradients(call: OpCall, routing: moe.Routing) -> Array:
    """grad_input of samples that are routed in this way."""
    gates, dispatch = call.arrays("gates", "dispatch")
    grad = np.zeros(call.tensor("grad_input").dims, np.float32)
    # A product of two float32 values has 48 bits: float64 holds it, and the result is rounded once.
    with np.errstate(over="ignore", invalid="ignore"):
        grad[routing.samples] = gates[routing.samples, None].astype(np.float64) * dispatch[routing.slots]
    # Which NaN an operation gives differs between processors.
    np.copyto(grad, np.float32(np.nan), where=np.isnan(grad))
    return grad


def reference(call: OpCall) -> Baseline:
    """gates[i] · dispatch[slot(i), :] for what is routed, +0 for the rest: the operator clears it itself (§3.1)."""
    if call.tensor("dispatch").desc.is_empty:
        return Baseline({"grad_input": np.zeros(call.tensor("grad_input").dims, np.float32)})
    return Baseline({"grad_input": gradients(call, moe.routed(call))})


def bound(call: OpCall) -> Mapping[str, Bound]:
    """One product."""
    return {"grad_input": Bound(np.abs(reference(call).outputs["grad_input"]), 1)}


def theory(call: OpCall) -> Theory:
    """Gates and routing, the rows that are read, all that is written; a product per routed element."""
    samples, hidden = call.tensor("grad_input").dims
    read = len(moe.routed(call).samples) * hidden
    return Theory(io_bytes=12 * samples + 4 * read + 4 * samples * hidden, ops=read)


# Mistakes beside those about the routing.


def _slot_sums(call: OpCall) -> Mapping[str, Array]:
    routing, grad = moe.routed(call), reference(call).outputs["grad_input"]
    sums = np.zeros(call.tensor("dispatch").dims, np.float32)
    with np.errstate(all="ignore"):
        np.add.at(sums, routing.slots, grad[routing.samples])
    grad[routing.samples] = sums[routing.slots]
    return {"grad_input": grad}


def _divided(call: OpCall) -> Mapping[str, Array]:
    routing = moe.routed(call)
    gates, dispatch = call.arrays("gates", "dispatch")
    grad = np.zeros(call.tensor("grad_input").dims, np.float32)
    with np.errstate(all="ignore"):
        grad[routing.samples] = dispatch[routing.slots] / gates[routing.samples, None]
    return {"grad_input": grad}


SUSPECTS: Final = {
    **route_suspects("grad_input", gradients),
    **factor_suspects("grad_input", gradients),
    "samples of one slot are summed": _slot_sums,
    "rows are divided by their gates": _divided,
}


# One element as §2.1 defines it.


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """One product, or 0."""

    def grad_input(sample: int, column: int) -> Fraction | float:
        slot = None if call.tensor("dispatch").desc.is_empty else moe.literal_slot(call, sample)
        if slot is None:
            return Fraction(0)
        value = float(products(call.array("gates")[sample], call.array("dispatch")[slot, column]))
        return Fraction(value) if np.isfinite(value) else value

    return {"grad_input": grad_input}


# The kernel that the numpy backend runs: §3.1's two ways, by how many samples there are for a task.

TASKS: Final = 16


def kernel(call: OpCall) -> Status:
    """Check the call, then gather."""
    refused = moe.refusal(call, *ALL)
    if refused is not None:
        return refused
    grad = call.tensor("grad_input")
    if 0 in grad.dims:
        return Status.SUCCESS
    if grad.null:
        return Status.BAD_PARAM
    without_slots = call.tensor("dispatch").dims[0] == 0
    if not without_slots and any(call.tensor(name).null for name in INPUTS):
        return Status.BAD_PARAM
    result = call.array("grad_input")
    result[...] = 0
    if not without_slots:
        _gather(call, result)
    return Status.SUCCESS


def _gather(call: OpCall, result: Array) -> None:
    slots, gates, dispatch = moe.slots_read(call), call.array("gates"), call.array("dispatch")
    with np.errstate(over="ignore", invalid="ignore"):
        if len(slots) > TASKS:
            # Every task has a part of the samples.
            for part in np.array_split(np.flatnonzero(slots >= 0), TASKS):
                result[part] = dispatch[slots[part]] * gates[part, None]
            return
        # Every sample is shared by tasks, which have a part of the columns each.
        for sample, slot in enumerate(slots.tolist()):
            if slot >= 0:
                for columns in np.array_split(np.arange(dispatch.shape[1]), TASKS // len(slots)):
                    result[sample, columns] = gates[sample] * dispatch[slot, columns]


# With torch: rows are gathered.


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Write grad_input."""
    grad = outputs["grad_input"].zero_()
    if call.tensor("dispatch").desc.is_empty:
        return
    samples, slots = moe.torch_routing(call, inputs)
    rows = inputs["dispatch"][slots]
    # Only what is routed is multiplied: 0 · NaN is NaN.
    grad.index_copy_(0, samples, rows * inputs["gates"][samples, None])


OPERATOR = Operator(
    name="moe_dispatch_backward_data",
    released_name="moe_dispatch_backward_data",
    op_type=("MOE_DISPATCH_BACKWARD_DATA", 1303),
    summary="Gives every sample the gradient of the slot that it went to, times its gate; 0 if there is none.",
    inputs=tuple(map(moe.moe_input, INPUTS)),
    # §1.5.1; one product is rounded in one way.
    outputs=(OutputSpec("grad_input", moe.SHAPES["grad_input"], {DType.FLOAT: exact()}, None),),
    params=moe.moe_params("moe_dispatch_backward_data_param", 20230216, "MoeDispatchBackwardDataParam"),
    axes=moe.AXES,
    checks=CHECKS,
    subsumed=moe.never_reached("gates", "indices", "locations"),
    reference=reference,
    bound=bound,
    theory=theory,
    kernel=kernel,
    suspects=SUSPECTS,
    left_open={"subnormal": find_subnormal},
    reductions=moe.SLOT_REDUCTIONS,
    c_api=c_function(
        "mluOpMoeDispatchBackwardData",
        arguments=(HANDLE, *tensor(*INPUTS), *scalar(*moe.FIELDS), *tensor("grad_input")),
    ),
    exact=elements,
    torch_kernel=torch_kernel,
)
