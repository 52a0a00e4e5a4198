"""Operators that move rows between samples and the slots of experts: what the three declare alike, and mistakes.

What S, E, K and H are, and where samples go, is in moe_routing.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

import mluops_gtest.authoring as mg
from mluops_gtest.authoring import Array, DType, Mutant, OpCall, Operator, Status, c_api, left_open, mistakes, narrowing
from mluops_gtest.authoring.roundings import flushed
from mluops_gtest.authoring.suspects import Suspect, misread

from .interpolation import shortened
from .moe_routing import FIELDS, ROWS, Operands, Routing, dims_of, routed, slots_read
from .refusals import Refusals, first_status, tensors_of

# In the order of files.
_INPUTS: Final = ("gates", "indices", "locations", "input", "dispatch")
# §1.4 and the header demand ranges; tutel marks what it drops by −1 and by K and above, and kernels, listings and
# incumbent test all four sides and skip: so does everybody.
_POSITIONS: Final = {"indices": "num_experts", "locations": "capacity"}

# The output of a call that computes, and as it is where samples are routed in that way.
Write = Callable[[OpCall], Array]
Answer = Callable[[OpCall, Routing], Array]


def moe_operator(
    name: str,
    numbers: tuple[int, int],
    operands: Operands,
    criteria: tuple[mg.Criterion, ...],
    answer: Answer,
    *,
    suspects: Mapping[str, Write] = MappingProxyType({}),
    kept: Callable[[OpCall], Array] | None = None,
    **own: Any,
) -> Operator:
    """What the three declare alike, and their own; `numbers` of op_type and of the parameters, `answer` the oracle."""
    title, output = name.title().replace("_", ""), operands.output
    inputs = [one for one in _INPUTS if one in operands.both or one in _POSITIONS]

    def declared(id_: str, becomes: str = "") -> mg.TensorSpec:
        # Nobody looks at layouts.
        if id_ in _POSITIONS:
            return mg.TensorSpec(id_, shape(id_), (DType.INT32,), None, names=_POSITIONS[id_], outside="skipped")
        return mg.TensorSpec(id_, shape(id_), (DType.FLOAT,), None, becomes=becomes)

    def shape(id_: str) -> str:
        rows = "num_experts·capacity" if id_.startswith("dispatch") else "samples"
        return f"[{rows}, hidden]" if id_ in ROWS else f"[{rows}]"

    def reference(call: OpCall) -> mg.Baseline:
        return mg.Baseline({output: answer(call, routed(call))})

    def bound(call: OpCall) -> dict[str, mg.Bound]:
        # One product; what is no product is the same bit for bit.
        magnitude = np.abs(answer(call, routed(call)))
        if kept is not None:
            magnitude[kept(call)] = 0
        return {output: mg.Bound(magnitude, 1)}

    def theory(call: OpCall) -> mg.Theory:
        # Routing and gates, or sums; the rows that are read, and those that are read or written.
        samples, hidden = call.param("samples"), call.param("hidden")
        met = len(routed(call).samples) * hidden
        other = samples * hidden if output == "grad_input" else met
        return mg.Theory(io_bytes=12 * samples + 4 * (met + other), ops=met * (1 + (output == "grad_gates")))

    def as_output(write: Write) -> Suspect:
        return lambda call: {output: write(call)}

    fields = tuple(mg.ParamField(one, number, least=0) for number, one in enumerate(FIELDS, 1))
    held = [declared("dispatch_before", output)] if output == "dispatch" else []
    common = {
        "axes": {"samples": mg.axis("samples", of="indices"), "hidden": mg.axis("hidden", of=inputs[-1])},
        "c_api": c_api.c_function(f"mluOp{title}"),
        "bound": bound,
        "recipes": operands.recipes,
        "space": operands.space(),
    }
    operator = Operator(
        name=name,
        op_type=(name.upper(), numbers[0]),
        inputs=(*map(declared, inputs), *held),
        outputs=(mg.OutputSpec(output, shape(output), {DType.FLOAT: criteria}, None, kept=kept),),
        params=mg.ParamMessage(f"{name}_param", numbers[1], f"{title}Param", fields),
        reference=reference,
        theory=theory,
        suspects={words: as_output(write) for words, write in {**_suspects(operands, answer), **suspects}.items()},
        left_open={"subnormal": left_open.find_subnormal},
        **{**common, **own},
    )

    def flushing(call: OpCall) -> Array:
        operator.kernel(misread(**dict.fromkeys(operands.both, flushed))(call))
        return flushed(call.array(output))

    # A device may take subnormal numbers for 0.
    variant = _computed(operator, "tiny_floats_flushed", "reads and writes subnormal floats as 0", flushing)
    return replace(operator, mutants=tuple(_mutants(operator, answer, operands)), variants={"subnormal": (variant,)})


def never_large(*of_samples: str) -> dict[str, str]:
    """`subsumed`: what an int32 parameter leaves no call for."""
    return {f"{name}_large": "it has `samples` elements, and samples is an int32" for name in of_samples}


def refusal(call: OpCall, *, fits: bool = False) -> Status | None:
    """What a kernel answers without a look at elements and pointers; `fits`: no more samples than slots."""
    return first_status(_refusals(call, fits=fits))


def _refusals(call: OpCall, *, fits: bool) -> Refusals:
    params, args = {name: call.param(name) for name in FIELDS}, tensors_of(call)
    yield call.handle is None, Status.BAD_PARAM
    yield call.handle is not None and call.handle.arch < 370, Status.ARCH_MISMATCH
    names = (*call.inputs, *call.outputs)
    yield [arg.dims for arg in args] != [dims_of(name, params) for name in names], Status.BAD_PARAM
    types = [DType.INT32 if name in ("indices", "locations") else DType.FLOAT for name in names]
    yield [arg.dtype for arg in args] != types or min(params.values()) < 0, Status.BAD_PARAM
    yield any(arg.desc.is_strided for arg in args), Status.NOT_SUPPORTED
    yield fits and params["samples"] > params["num_experts"] * params["capacity"], Status.BAD_PARAM
    yield any(arg.desc.is_large for arg in args), Status.NOT_SUPPORTED


# Mistakes about where samples go.

# What kernels cut axes into.
_TILE: Final = 64


class _Entries(NamedTuple):
    """indices and locations, int64 [S] each, the numbers of slots per expert and of experts, and H."""

    expert: Array
    place: Array
    k: int
    e: int
    h: int

    @property
    def slots(self) -> Array:
        return self.expert * self.k + self.place

    @property
    def index_fits(self) -> Array:
        return (self.expert >= 0) & (self.expert < self.e)

    @property
    def fits(self) -> Array:
        return self.index_fits & (self.place >= 0) & (self.place < self.k)

    def within(self, slots: Array) -> Array:
        """These slots of the samples that are routed."""
        return np.where(self.fits, slots, -1)

    def tested(self, holds: Array) -> Array:
        """The slots of the samples of which that holds."""
        return np.where(holds, self.slots, -1)


def _first_of_slot(c: _Entries) -> Array:
    _, first = np.unique(c.within(c.slots), return_index=True)
    return c.tested(c.fits & np.isin(np.arange(len(c.slots)), first))


# Words behind "as if", and the slots; those outside of dispatch are none.
_ROUTES: Final[dict[str, Callable[[_Entries], Array]]] = {
    "the slot is locations · E + indices": lambda c: c.within(c.place * c.e + c.expert),
    "the slot is indices · H + locations": lambda c: c.within(c.expert * c.h + c.place),
    "the slot is locations alone": lambda c: c.within(c.place),
    "slots have 8 bits": lambda c: c.within(narrowing.wrapped(8)(c.slots)),
    "samples that are not routed go to row 0": lambda c: np.maximum(c.within(c.slots), 0),
    "both are clipped to their ranges": lambda c: np.clip(c.expert, 0, c.e - 1) * c.k + np.clip(c.place, 0, c.k - 1),
    "slots are taken modulo E · K": lambda c: c.slots % max(1, c.e * c.k),
    "negative slots count from the end": lambda c: np.where(c.slots < 0, c.slots + c.e * c.k, c.within(c.slots)),
    "a location of K is one": lambda c: c.tested(c.fits | (c.index_fits & (c.place == c.k))),
    "locations beyond K are not tested": lambda c: c.tested(c.index_fits & (c.place >= 0)),
    "−1 is the one negative location": lambda c: c.tested(c.index_fits & (c.place < c.k) & (c.place != -1)),
    "only location < K and index ≥ 0 are tested": lambda c: c.tested((c.expert >= 0) & (c.place < c.k)),
    "only the slot is tested": lambda c: c.slots,
    "experts are counted from 1": lambda c: c.within(c.slots - c.k),
    "location 0 is none": lambda c: c.tested(c.fits & (c.place != 0)),
    "the last slot of an expert is none": lambda c: c.tested(c.fits & (c.place < c.k - 1)),
    "only the first sample of a slot counts": _first_of_slot,
    "whole tiles of 64 samples count": lambda c: c.within(c.slots)[: len(c.slots) // _TILE * _TILE or _TILE],
}
_GATES: Final[dict[str, Callable[[Array], Array]]] = {
    "gates are ignored": np.ones_like,
    "gates are squared": np.square,
    "gates have no sign": np.abs,
    "gates divide": np.reciprocal,
    "gates are those of the sample behind": lambda gates: np.roll(gates, -1),
}
_BY_SLOT: Final = {"gates": "gates are by slot", "input": "rows of input are by slot"}


def _suspects(operands: Operands, answer: Answer) -> dict[str, Write]:
    """Mistakes about where samples go, about gates, and about rows that are read where slots say."""

    def routes(change: Callable[[_Entries], Array], call: OpCall) -> Array:
        indices, locations = (call.array(name).astype(np.int64) for name in ("indices", "locations"))
        capacity, experts, hidden = (int(call.param(name)) for name in ("capacity", "num_experts", "hidden"))
        slots = change(_Entries(indices, locations, capacity, experts, hidden))
        samples = np.flatnonzero((slots >= 0) & (slots < capacity * experts))
        return answer(call, Routing(samples, slots[samples]))

    def exchanged(call: OpCall) -> Array:
        samples, slots = routed(call)
        fits = (slots < call.param("samples")) & (samples < call.tensor("dispatch").dims[0])
        return answer(call, Routing(slots[fits], samples[fits]))

    def gates(change: Callable[[Array], Array], call: OpCall) -> Array:
        with np.errstate(over="ignore", divide="ignore"):
            return answer(misread(gates=change)(call), routed(call))

    def by_slot(name: str, call: OpCall) -> Array:
        routing, own = routed(call), call.array(name).copy()
        own[routing.samples] = np.take(call.array(name), routing.slots, 0, mode="wrap")
        return answer(misread(**{name: lambda _: own})(call), routing)

    def summed(call: OpCall) -> Array:
        samples, slots = routing = routed(call)
        grad = answer(call, routing)
        sums = np.zeros((call.tensor("dispatch").dims[0], *grad.shape[1:]), np.float32)
        with np.errstate(all="ignore"):
            np.add.at(sums, slots, grad[samples])
        grad[samples] = sums[slots]
        return grad

    return {
        **{words: partial(routes, change) for words, change in _ROUTES.items()},
        "samples and slots are exchanged": exchanged,
        **{words: partial(gates, change) for words, change in _GATES.items() if "gates" in operands.both},
        **{words: partial(by_slot, name) for name, words in _BY_SLOT.items() if name in operands.both},
        **({"samples of one slot are summed": summed} if operands.output != "dispatch" else {}),
    }


def _computed(operator: Operator, name: str, message: str, write: Write) -> Mutant:
    """Calls that compute have this output, all others the kernel's answer."""

    def run(call: OpCall) -> Status:
        if operator.answer(call).check is not None:
            return operator.kernel(call)
        with np.errstate(all="ignore"):
            call.array(operator.outputs[0].id)[...] = write(call)
        return Status.SUCCESS

    return Mutant(name, message, run)


def _mutants(operator: Operator, answer: Answer, operands: Operands) -> Iterator[Mutant]:
    """Suspects, what is multiplied, lost and left, what another call finds."""
    right, output = operator.kernel, operands.output
    rows = "slots" if output == "dispatch" else "samples"
    yield from mistakes.suspected(operator)

    def narrowed(bits: int, call: OpCall) -> Array:
        return answer(misread(**dict.fromkeys(operands.both, partial(shortened, bits=bits)))(call), routed(call))

    for name, bits in (("bf16", 8), ("tf32", 11)):
        yield _computed(operator, f"{name}_inputs", f"rounds operands to {name}", partial(narrowed, bits))

    def written(call: OpCall) -> Array:
        return routed(call).slots if output == "dispatch" else routed(call).samples

    def added(call: OpCall) -> Array:
        values, places = answer(call, routed(call)), written(call)
        values[places] += call.array(output)[places]
        return values

    yield _computed(operator, "added", f"adds to what {output} holds", added)
    if "gates" in operands.both:

        def zero_gates(call: OpCall) -> Array:
            samples = routed(call).samples
            return written(call)[call.array("gates")[samples] == 0] if len(samples) else samples

        yield mistakes.left("zero_gates_left", "leaves rows whose gate is 0", right, output, zero_gates)
    if output != "dispatch":
        yield from _of_gradients(operator, answer)
    if output != "grad_gates":
        yield from mistakes.tails_left(right, output, 1, "columns", (16, 64))
        yield mistakes.part_left(right, output, 1, "columns")
    yield from mistakes.tails_left(right, output, 0, rows, (16, 64))
    yield mistakes.part_left(right, output, 0, rows)
    yield mistakes.cached_by_shape(right)
    yield mistakes.sum_goes_on(right, output)
    yield mistakes.first_length_kept(right, output, 0, rows)
    yield mistakes.first_param_kept(right, "capacity")
    for name in ("indices", "locations", *operands.both):
        yield mistakes.input_cleared(right, name)


def _of_gradients(operator: Operator, answer: Answer) -> Iterator[Mutant]:
    """What must be cleared, what spreads, and forward's limit."""
    right, output = operator.kernel, operator.outputs[0].id

    def unrouted(call: OpCall) -> Any:
        return slots_read(call) < 0 if operator.answer(call).check is None else slice(0)

    def empty(axis_: int, call: OpCall) -> slice:
        return slice(None if call.tensor("dispatch").dims[axis_] == 0 else 0)

    def masked(call: OpCall) -> Array:
        slots = slots_read(call)
        everywhere = answer(call, Routing(np.arange(len(slots)), np.maximum(slots, 0)))
        return (everywhere.T * (slots >= 0).astype(np.float32)).T

    def limited(call: OpCall) -> Status:
        return Status.BAD_PARAM if call.param("samples") > call.tensor("dispatch").dims[0] else right(call)

    yield mistakes.left("unrouted_left", "does not clear what is not routed", right, output, unrouted)
    for axis_, what in enumerate(("slots", "columns") if output == "grad_gates" else ("slots",)):
        message = f"does not clear gradients without {what}"
        yield mistakes.left(f"no_{what}_left", message, right, output, partial(empty, axis_))
    yield _computed(operator, "masked", "multiplies with 0 what is not routed", masked)
    yield Mutant("no_more_than_slots", "demands S ≤ E · K", limited)
