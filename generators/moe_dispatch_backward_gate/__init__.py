"""moe_dispatch_backward_gate: the gradient of a gate is its sample's row times the row of dispatch that it went to."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final, Literal

import numpy as np

import mluops_gtest.authoring as mg
from mluops_gtest.authoring import Array, Bound, Draw, OpCall, Params, RecipeOutput, Status, c_api, checks, roundings
from mluops_gtest.authoring.exact_numbers import ExactElement, products, total
from mluops_gtest.authoring.sums import lattice_unit, odd_sums

from .._shared import moe_dispatch as moe
from .._shared import moe_routing
from .._shared.interpolation import shortened
from .._shared.moe_routing import Routing, routed

OPERANDS: Final = moe_routing.Operands("input", "dispatch", "grad_gates")
_QUERY: Final = "mluOpGetMoeDispatchBackwardGateWorkspaceSize"

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


def dots(call: OpCall, routing: Routing) -> Array:
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
    with np.errstate(invalid="ignore"):
        magnitude[samples] = np.einsum("rh,rh->r", np.abs(rows[samples]), np.abs(dispatch[slots]), dtype=np.float64)
    return {"grad_gates": Bound(magnitude, rows.shape[1] + 1, unit=lattice_unit(rows, dispatch), products=True)}


# Mistakes beside those about the routing: sums of float32 products in another way, [R, H], one per row.

_TILE: Final = 16
TASKS: Final = 16


def sums_by(add: Callable[[Array], Array]) -> Callable[[OpCall], Array]:
    """The gradients with such sums."""

    def gradients(call: OpCall) -> Array:
        grad = np.zeros(call.tensor("grad_gates").dims, np.float32)
        samples, slots = routed(call)
        if len(samples):
            with np.errstate(over="ignore", invalid="ignore"):
                grad[samples] = add(call.array("input")[samples] * call.array("dispatch")[slots])
        return grad

    return gradients


def _whole(length: int, terms: Array) -> Array:
    """What stands behind the last whole tile, or equal share, is lost; a shorter row is not."""
    sums: Array = terms[:, : terms.shape[1] // length * length or None].sum(axis=1)
    return sums


def _shares(terms: Array) -> int:
    """Samples are shared by tasks where they are fewer."""
    return max(1, TASKS // max(1, len(terms)))


SUSPECTS: Final[dict[str, Callable[[Array], Array]]] = {
    "the largest product is taken": lambda terms: terms.max(axis=1),
    "products have no sign": lambda terms: np.abs(terms).sum(axis=1),
    "sums are divided by H": lambda terms: terms.mean(axis=1),
    "sums are made in half": lambda terms: np.cumsum(terms, axis=1, dtype=np.float16)[:, -1],
    "products are rounded to tf32": lambda terms: shortened(terms, 11).sum(axis=1),
    "sums are rounded to half": lambda terms: roundings.through_half(terms.sum(axis=1)),
    "only the first tile of 16 columns counts": lambda terms: terms[:, :_TILE].sum(axis=1),
    "only whole tiles of 16 columns count": lambda terms: _whole(_TILE, terms),
    "what H leaves behind equal shares of tasks is lost": lambda terms: _whole(_shares(terms), terms),
    "partial sums of tasks are assigned": lambda t: np.array_split(t, _shares(t), axis=1)[-1].sum(axis=1),
    "the workspace is not cleared between samples": lambda terms: np.cumsum(terms.sum(axis=1)),
}


# One element as §2.1 defines it.
def elements(call: OpCall) -> Mapping[str, ExactElement]:
    """One sum, or 0."""

    def dot(slot: int, sample: int) -> Fraction | float:
        return total(products(call.array("dispatch")[slot], call.array("input")[sample]))

    return {"grad_gates": moe_routing.literal_or_0(call, dot)}


# The kernel that the numpy backend runs. §3.3: fewer samples than tasks are shared, and their parts are added up last.


def workspace_size(call: OpCall) -> int:
    """A float for every task that has a part of a sample."""
    rows = call.inputs["input"]
    return 4 * TASKS if rows is not None and len(rows.dims) == 2 and 0 < rows.dims[0] < TASKS else 0


def kernel(call: OpCall) -> Status:
    """Check the call, then add up products in float32."""
    if (refused := moe.refusal(call)) is not None:
        return refused
    samples, hidden = call.tensor("input").dims
    if samples == 0:
        return Status.SUCCESS
    if hidden == 0 or call.tensor("dispatch").dims[0] == 0:
        call.array("grad_gates")[...] = 0
        return Status.SUCCESS
    names = (*call.inputs, *call.outputs)
    if (call.workspace is None and call.workspace_size > 0) or any(call.tensor(name).null for name in names):
        return Status.BAD_PARAM
    slots, rows, dispatch, grad = moe_routing.slots_read(call), *call.arrays("input", "dispatch", "grad_gates")
    grad[...] = 0
    with np.errstate(over="ignore", invalid="ignore"):
        there = np.flatnonzero(slots >= 0)
        # So many products at once.
        for some in np.array_split(there, 1 + len(there) * hidden // (1 << 20)):
            parts = np.array_split(rows[some] * dispatch[slots[some]], max(1, TASKS // samples), axis=1)
            grad[some] = sum((part.sum(axis=1, dtype=np.float32) for part in parts), np.float32(0))
    return Status.SUCCESS


# With torch: sums of products of gathered rows.
def torch_kernel(call: OpCall, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> None:
    """Write grad_gates."""
    samples, slots = moe_routing.torch_routing(call, inputs)
    # Only what is routed is multiplied: 0 · NaN is NaN.
    sums = (inputs["dispatch"][slots] * inputs["input"][samples]).sum(dim=1)
    outputs["grad_gates"].zero_().index_copy_(0, samples, sums)


# Recipes beside those of all three: rows whose products nearly cancel, and rows of which few columns count.

# Factors a of 6 bits and b of 12 bits: no order of so many products a · b rounds in float32.
_MOST_HIDDEN: Final = 64


def cancel(
    draw: Draw,
    params: Params,
    dtype: mg.DType,
    *,
    where: moe_routing.Where = "any",
    zeros: bool = False,
    differ: Literal["input", "dispatch"] = "dispatch",
) -> RecipeOutput:
    """Pairs of columns a, −a against b, b + δ: narrow factors or products lose δ. With zeros δ is 0 in every other row.

    a is odd and has 6 bits, b, in `differ`, has 12, and |δ| is 1, 2 or 3, with one sign in a row: all sums are of one
    magnitude.
    """
    p = {**moe_routing.DEFAULTS, **params}
    if p["hidden"] % 2 or p["hidden"] > _MOST_HIDDEN:
        raise ValueError(f"rows of {p['hidden']} columns do not cancel in pairs exactly; give an even number up to 64")
    pairs, slots = p["hidden"] // 2, p["num_experts"] * p["capacity"]
    number = {"input": p["samples"], "dispatch": slots}
    (same, of_same), (_, of_other) = sorted(number.items(), key=lambda item: item[0] == differ)
    a = draw.stream(same).integers(0, 32, (of_same, pairs)) * 2 + 1
    b = draw.stream(differ).integers(2048, 4092, (of_other, pairs))
    delta = draw.stream("differences").integers(1, 4, (of_other, pairs))
    delta *= draw.stream("signs").integers(0, 2, (of_other, 1)) * 2 - 1
    if zeros:
        delta[::2] = 0
    values = {same: np.stack([a, -a], axis=2), differ: np.stack([b, b + delta], axis=2)}
    rows = {name: value.reshape(len(value), -1).astype("<f4") for name, value in values.items()}
    return OPERANDS.made(draw, p, dtype, *moe_routing.draw_routing(draw, p, where), rows)


def columns(draw: Draw, params: Params, dtype: mg.DType, *, at: tuple[int, ...], others: float = 0.0) -> RecipeOutput:
    """Positive products in the columns that are listed; `others` is the factor of all other columns."""
    p = {**moe_routing.DEFAULTS, **params}
    values = OPERANDS.values(draw, p, "positive")
    factors = np.full(p["hidden"], others, np.float32)
    factors[list(at)] = 1
    values["input"] *= factors
    return OPERANDS.made(draw, p, dtype, *moe_routing.draw_routing(draw, p, "any"), values)


OPERATOR = moe.moe_operator(
    "moe_dispatch_backward_gate",
    (1304, 135246),
    OPERANDS,
    mg.diff1_and_diff2(3e-3),  # §1.5.1
    dots,
    summary="Sums for every sample the products of its row and the slot that it went to; 0 if there is none.",
    checks=CHECKS,
    queries={_QUERY: mg.QueryChecks(("handle_null", "arch", "input_desc_null", mg.SIZE_NULL))},
    subsumed=moe.never_large("indices", "locations", "grad_gates"),
    bound=bound,
    kernel=kernel,
    workspace_size=workspace_size,
    order_free=True,
    suspects={words: sums_by(add) for words, add in SUSPECTS.items()},
    recipes={**OPERANDS.recipes, "cancel": cancel, "columns": columns},
    space=OPERANDS.space(cancel={}, columns={"at": (-1,), "others": 2.0**-12}),
    c_api=c_api.c_function(
        "mluOpMoeDispatchBackwardGate",
        query=_QUERY,
        query_arguments=(c_api.HANDLE, *c_api.descriptor("input"), c_api.ASKED_SIZE),
    ),
    exact=elements,
    torch_kernel=torch_kernel,
)
