"""moe_dispatch_backward_gate: the gradient of a gate is its sample's row times the row of dispatch that it went to."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import (
    SIZE_NULL,
    Array,
    Bound,
    DType,
    OpCall,
    OutputSpec,
    QueryChecks,
    Status,
    checks,
    diff1_and_diff2,
)
from mluops_gtest.authoring import c_api as c
from mluops_gtest.authoring.exact_numbers import ExactElement, products, total
from mluops_gtest.authoring.sums import lattice_unit, odd_sums
from mluops_gtest.authoring.suspects import Suspect

from .._shared import moe_dispatch as moe
from .._shared.moe_dispatch import routed
from .._shared.wrong_moe_dispatch import moe_suspects, slot_sums

INPUTS: Final = ("indices", "locations", "input", "dispatch")
ALL: Final = (*INPUTS, "grad_gates")
OPERANDS: Final = ("input", "dispatch")
_QUERY: Final = "mluOpGetMoeDispatchBackwardGateWorkspaceSize"

# What is checked, in normative order.

CHECKS = (
    checks.handle("§3.7"),
    checks.arch("released; the header says compute_50 or above"),
    checks.descriptors(doc="§3.7"),
    checks.ranks(doc="§1.1"),
    checks.dtypes(doc="§3.7"),
    checks.params(doc="§1.3"),
    checks.dims(doc="§3.7"),
    checks.strided(doc="§1.4"),
    checks.large(doc="§3.7"),
    checks.empty("grad_gates", doc="§1.1"),
    # Without columns, too. §1.1 says success; as released, and as §1.2 prints it, the gradients are 0.
    checks.empty("dispatch", doc="§1.2, released", writes=True),
    checks.workspace("released"),
    checks.pointers(doc="§3.7"),
)


# The oracle: exact sums of products, rounded once.

# Products that are added up at a time.
_BLOCK: Final = 1 << 21


def dots(call: OpCall, routing: moe.Routing) -> Array:
    """Σ_j dispatch[slot(i), j] · input[i, j] for what is routed, +0 for the rest: the operator clears it (§3.1)."""
    grad = np.zeros(call.tensor("grad_gates").dims, np.float32)
    step = max(1, _BLOCK // max(1, call.param("hidden")))
    for start in range(0, len(routing.samples), step):
        samples, slots = (one[start : start + step] for one in routing)
        with np.errstate(over="ignore", invalid="ignore"):
            # + 0.0: no sum is −0.
            terms = products(call.array("input")[samples], call.array("dispatch")[slots])
            grad[samples] = odd_sums(terms.T) + 0.0
    # Which NaN an operation gives differs between processors.
    np.copyto(grad, np.float32(np.nan), where=np.isnan(grad))
    return grad


def bound(call: OpCall) -> Mapping[str, Bound]:
    """As many products as columns, in any order."""
    samples, slots = routed(call)
    magnitude = np.zeros(call.tensor("grad_gates").dims)
    if not len(samples):
        return {"grad_gates": Bound(magnitude)}
    rows, dispatch = call.arrays("input", "dispatch")
    pairs = np.abs(rows[samples]), np.abs(dispatch[slots])
    with np.errstate(invalid="ignore"):
        magnitude[samples] = np.einsum("rh,rh->r", *pairs, dtype=np.float64)
    return {"grad_gates": Bound(magnitude, rows.shape[1] + 1, unit=lattice_unit(rows, dispatch), products=True)}


# Mistakes beside those about the routing.


def sums_by(add: Callable[[Array], Array], call: OpCall) -> Mapping[str, Array]:
    """Products in float32 that are added up in another way, of [R, H] one sum per row."""
    grad = np.zeros(call.tensor("grad_gates").dims, np.float32)
    samples, slots = routed(call)
    if len(samples):
        grad[samples] = add(call.array("input")[samples] * call.array("dispatch")[slots])
    return {"grad_gates": grad}


SUSPECTS: Final[Mapping[str, Suspect]] = {
    **moe_suspects("grad_gates", dots, OPERANDS),
    "samples of one slot are summed": partial(slot_sums, "grad_gates", dots),
    "the largest product is taken": partial(sums_by, lambda terms: terms.max(axis=1)),
    "products have no sign": partial(sums_by, lambda terms: np.abs(terms).sum(axis=1)),
    "sums are divided by H": partial(sums_by, lambda terms: terms.mean(axis=1)),
}


# One element as §2.1 defines it.


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """One sum, or 0."""

    def grad_gates(sample: int) -> Fraction | float:
        slot = moe.literal_slot(call, sample)
        if slot is None:
            return Fraction(0)
        return total(products(call.array("dispatch")[slot], call.array("input")[sample]))

    return {"grad_gates": grad_gates}


# The kernel that the numpy backend runs. §3.3: fewer samples than tasks are shared, and their parts are added up last.

TASKS: Final = 16


def workspace_size(call: OpCall) -> int:
    """A float for every task that has a part of a sample."""
    rows = call.inputs["input"]
    return 4 * TASKS if rows is not None and len(rows.dims) == 2 and 0 < rows.dims[0] < TASKS else 0


def kernel(call: OpCall) -> Status:
    """Check the call, then add up products in float32."""
    refused = moe.refusal(call, *ALL)
    if refused is not None:
        return refused
    samples, hidden = call.tensor("input").dims
    if samples == 0:
        return Status.SUCCESS
    if hidden == 0 or call.tensor("dispatch").dims[0] == 0:
        call.array("grad_gates")[...] = 0
        return Status.SUCCESS
    if (call.workspace is None and call.workspace_size > 0) or any(call.tensor(name).null for name in ALL):
        return Status.BAD_PARAM
    slots, rows, dispatch, grad = moe.slots_read(call), *call.arrays("input", "dispatch", "grad_gates")
    grad[...] = 0
    with np.errstate(over="ignore", invalid="ignore"):
        for sample in np.flatnonzero(slots >= 0):
            parts = np.array_split(rows[sample] * dispatch[slots[sample]], max(1, TASKS // samples))
            grad[sample] = sum((part.sum(dtype=np.float32) for part in parts), np.float32(0))
    return Status.SUCCESS


# With torch: sums of products of gathered rows.


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Write grad_gates."""
    samples, slots = moe.torch_routing(call, inputs)
    # Only what is routed is multiplied: 0 · NaN is NaN.
    outputs["grad_gates"].zero_().index_copy_(
        0, samples, (inputs["dispatch"][slots] * inputs["input"][samples]).sum(dim=1)
    )


OPERATOR = moe.moe_operator(
    "moe_dispatch_backward_gate",
    (1304, 135246),
    INPUTS,
    OutputSpec("grad_gates", moe.SHAPES["grad_gates"], {DType.FLOAT: diff1_and_diff2(3e-3)}, None),  # §1.5.1
    dots,
    summary="Sums for every sample the products of its row and the slot that it went to; 0 if there is none.",
    checks=CHECKS,
    queries={_QUERY: QueryChecks(("handle_null", "arch", "input_desc_null", SIZE_NULL))},
    subsumed=moe.never_large("indices", "locations", "grad_gates"),
    bound=bound,
    kernel=kernel,
    workspace_size=workspace_size,
    order_free=True,
    suspects=SUSPECTS,
    c_api=c.c_function(
        "mluOpMoeDispatchBackwardGate",
        query=_QUERY,
        arguments=(
            *(c.HANDLE, *c.tensor(*INPUTS), *c.scalar(*moe.FIELDS)),
            *(c.WORKSPACE, c.WORKSPACE_SIZE, *c.tensor("grad_gates")),
        ),
        query_arguments=(c.HANDLE, *c.descriptor("input"), c.ASKED_SIZE),
    ),
    exact=elements,
    torch_kernel=torch_kernel,
)
