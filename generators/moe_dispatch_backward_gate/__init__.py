"""moe_dispatch_backward_gate: the gradient of a gate is its sample's row times the row of dispatch that it went to."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np

from mluops_gtest.authoring import (
    SIZE_NULL,
    Array,
    Baseline,
    Bound,
    DType,
    OpCall,
    Operator,
    OutputSpec,
    QueryChecks,
    Status,
    Theory,
    checks,
    diff1_and_diff2,
)
from mluops_gtest.authoring import c_api as c
from mluops_gtest.authoring.exact_numbers import ExactElement, products, total
from mluops_gtest.authoring.left_open import find_subnormal
from mluops_gtest.authoring.sums import lattice_unit, odd_sums
from mluops_gtest.authoring.suspects import Suspect

from .._shared import moe_dispatch as moe
from .._shared.wrong_moe_dispatch import by_slot, route_suspects

INPUTS: Final = ("indices", "locations", "input", "dispatch")
ALL: Final = (*INPUTS, "grad_gates")
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


def routed(call: OpCall) -> moe.Routing:
    """The samples that have a sum; none without elements, where the pointers may be null."""
    if call.tensor("dispatch").desc.is_empty:
        return moe.Routing(np.empty(0, np.int64), np.empty(0, np.int64))
    return moe.routed(call)


def dots(call: OpCall, routing: moe.Routing) -> Array:
    """grad_gates of samples that are routed in this way."""
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


def reference(call: OpCall) -> Baseline:
    """Σ_j dispatch[slot(i), j] · input[i, j] for what is routed, +0 for the rest: the operator clears it (§3.1)."""
    return Baseline({"grad_gates": dots(call, routed(call))})


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


def theory(call: OpCall) -> Theory:
    """Routing, both rows of what is routed, the gradients; a product and an addition per element."""
    read = len(routed(call).samples) * call.param("hidden")
    return Theory(io_bytes=12 * call.param("samples") + 8 * read, ops=2 * read)


# Mistakes beside those about the routing.


def sums_by(add: Callable[[Array], Array], call: OpCall) -> Mapping[str, Array]:
    """Products in float32 that are added up in another way, of [R, H] one sum per row."""
    grad = np.zeros(call.tensor("grad_gates").dims, np.float32)
    samples, slots = routed(call)
    if len(samples):
        grad[samples] = add(call.array("input")[samples] * call.array("dispatch")[slots])
    return {"grad_gates": grad}


def _slot_sums(call: OpCall) -> Mapping[str, Array]:
    read, grad = routed(call), reference(call).outputs["grad_gates"]
    sums = np.zeros(call.tensor("dispatch").dims[0], np.float32)
    np.add.at(sums, read.slots, grad[read.samples])
    grad[read.samples] = sums[read.slots]
    return {"grad_gates": grad}


SUSPECTS: Final[Mapping[str, Suspect]] = {
    **route_suspects("grad_gates", dots),
    "rows of input are by slot": lambda call: {"grad_gates": dots(by_slot("input", call), routed(call))},
    "samples of one slot are summed": _slot_sums,
    "the largest product is taken": partial(sums_by, lambda terms: terms.max(axis=1)),
    "products have no sign": partial(sums_by, lambda terms: np.abs(terms).sum(axis=1)),
    "sums are divided by H": partial(sums_by, lambda terms: terms.mean(axis=1)),
}


# One element as §2.1 defines it.


def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """One sum, or 0."""

    def grad_gates(sample: int) -> Fraction | float:
        if call.tensor("dispatch").desc.is_empty:
            return Fraction(0)
        slot = moe.literal_slot(call, sample)
        if slot is None:
            return Fraction(0)
        return total(products(call.array("dispatch")[slot], call.array("input")[sample]))

    return {"grad_gates": grad_gates}


# The kernel that the numpy backend runs. §3.3: fewer samples than tasks are shared, and their parts are added up last.

TASKS: Final = 16
# Columns that are added up at a time.
_TILE: Final = 1024


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
    shared = TASKS // samples if samples < TASKS else 1
    with np.errstate(over="ignore", invalid="ignore"):
        for sample, slot in enumerate(slots.tolist()):
            parts = np.array_split(np.arange(hidden), shared) if slot >= 0 else ()
            partial = [_sum(rows[sample, part], dispatch[slot, part]) for part in parts]
            grad[sample] = sum(partial, np.float32(0))
    return Status.SUCCESS


def _sum(left: Array, right: Array) -> np.float32:
    terms, result = left * right, np.float32(0)
    for start in range(0, len(terms), _TILE):
        result += terms[start : start + _TILE].sum(dtype=np.float32)
    return result


# With torch: sums of products of gathered rows.


def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Write grad_gates."""
    grad = outputs["grad_gates"].zero_()
    if call.tensor("dispatch").desc.is_empty:
        return
    samples, slots = moe.torch_routing(call, inputs)
    # Only what is routed is multiplied: 0 · NaN is NaN.
    grad.index_copy_(0, samples, (inputs["dispatch"][slots] * inputs["input"][samples]).sum(dim=1))


OPERATOR = Operator(
    name="moe_dispatch_backward_gate",
    released_name="moe_dispatch_backward_gate",
    op_type=("MOE_DISPATCH_BACKWARD_GATE", 1304),
    summary="Sums for every sample the products of its row and the slot that it went to; 0 if there is none.",
    inputs=tuple(map(moe.moe_input, INPUTS)),
    # §1.5.1.
    outputs=(OutputSpec("grad_gates", moe.SHAPES["grad_gates"], {DType.FLOAT: diff1_and_diff2(3e-3)}, None),),
    params=moe.moe_params("moe_dispatch_backward_gate_param", 135246, "MoeDispatchBackwardGateParam"),
    axes=moe.AXES,
    checks=CHECKS,
    queries={_QUERY: QueryChecks(("handle_null", "arch", "input_desc_null", SIZE_NULL))},
    subsumed=moe.never_large("indices", "locations", "grad_gates"),
    reference=reference,
    bound=bound,
    theory=theory,
    kernel=kernel,
    workspace_size=workspace_size,
    order_free=True,
    suspects=SUSPECTS,
    left_open={"subnormal": find_subnormal},
    reductions=moe.SLOT_REDUCTIONS,
    c_api=c.c_function(
        "mluOpMoeDispatchBackwardGate",
        query=_QUERY,
        arguments=(
            c.HANDLE,
            *c.tensor(*INPUTS),
            *c.scalar(*moe.FIELDS),
            c.WORKSPACE,
            c.WORKSPACE_SIZE,
            *c.tensor("grad_gates"),
        ),
        query_arguments=(c.HANDLE, *c.descriptor("input"), c.ASKED_SIZE),
    ),
    exact=elements,
    torch_kernel=torch_kernel,
)
