"""Mistakes of operators that move rows between samples and the slots of experts; for suspects and mutants."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Operator, Status, mistakes
from mluops_gtest.authoring.narrowing import wrapped
from mluops_gtest.authoring.roundings import flushed, through_half
from mluops_gtest.authoring.suspects import Suspect, misread

from .interpolation import shortened
from .moe_dispatch import Answer, Routing, routed, slots_read

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
    def samples(self) -> Array:
        return np.arange(len(self.expert))

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

    def without(self, lost: Array) -> Array:
        """The slots of all other samples that are routed."""
        return self.tested(self.fits & ~lost)


def _first_of_slot(c: _Entries) -> Array:
    return c.without(~np.isin(c.samples, np.unique(c.within(c.slots), return_index=True)[1]))


# Words behind "as if", and the slots; those outside of dispatch are none.
_ROUTES: Final[dict[str, Callable[[_Entries], Array]]] = {
    "the slot is locations · E + indices": lambda c: c.within(c.place * c.e + c.expert),
    "the slot is indices · H + locations": lambda c: c.within(c.expert * c.h + c.place),
    "indices and locations are exchanged": lambda c: (x := _Entries(c.place, c.expert, *c[2:])).within(x.slots),
    "the slot is locations alone": lambda c: c.within(c.place),
    "the slot is the first of the expert": lambda c: c.within(c.expert * c.k),
    "an expert has K + 1 slots": lambda c: c.within(c.slots + c.expert),
    "the slot is the number of the sample": lambda c: c.within(c.samples),
    "the slot is the one behind": lambda c: c.within(c.slots + 1),
    "slots have 8 bits": lambda c: c.within(wrapped(8)(c.slots)),
    "samples that are not routed go to row 0": lambda c: np.maximum(c.within(c.slots), 0),
    "both are clipped to their ranges": lambda c: np.clip(c.expert, 0, c.e - 1) * c.k + np.clip(c.place, 0, c.k - 1),
    "both are taken modulo E and K": lambda c: c.expert % max(1, c.e) * c.k + c.place % max(1, c.k),
    "slots are taken modulo E · K": lambda c: c.slots % max(1, c.e * c.k),
    "negative slots count from the end": lambda c: np.where(c.slots < 0, c.slots + c.e * c.k, c.within(c.slots)),
    "a location of K is one": lambda c: c.tested(c.fits | (c.index_fits & (c.place == c.k))),
    "locations beyond K are not tested": lambda c: c.tested(c.index_fits & (c.place >= 0)),
    "negative locations are not tested": lambda c: c.tested(c.index_fits & (c.place < c.k)),
    "−1 is the one negative location": lambda c: c.tested(c.index_fits & (c.place < c.k) & (c.place != -1)),
    "only location < K and index ≥ 0 are tested": lambda c: c.tested((c.expert >= 0) & (c.place < c.k)),
    "only the slot is tested": lambda c: c.slots,
    "both have no sign": lambda c: (x := _Entries(np.abs(c.expert), np.abs(c.place), *c[2:])).within(x.slots),
    "experts are counted from 1": lambda c: c.within(c.slots - c.k),
    "locations are counted from 1": lambda c: np.where(c.place > 0, c.within(c.slots - 1), -1),
    "expert 0 is none": lambda c: c.without(c.expert == 0),
    "location 0 is none": lambda c: c.without(c.place == 0),
    "the last expert is none": lambda c: c.without(c.expert == c.e - 1),
    "the last slot of an expert is none": lambda c: c.without(c.place == c.k - 1),
    "only the first sample of a slot counts": _first_of_slot,
    "the first sample is lost": lambda c: c.without(c.samples == 0),
    "the last sample is lost": lambda c: c.without(c.samples == len(c.samples) - 1),
    "whole tiles of 64 samples count": lambda c: c.without(c.samples >= (len(c.samples) // _TILE * _TILE or _TILE)),
}
_GATES: Final[dict[str, Callable[[Array], Array]]] = {
    "gates are ignored": np.ones_like,
    "gates are squared": np.square,
    "gates have no sign": np.abs,
    "gates divide": np.reciprocal,
    "every gate is the first one": lambda gates: np.full_like(gates, gates[0]),
    "gates are those of the sample behind": lambda gates: np.roll(gates, -1),
}
_BY_SLOT: Final = {"gates": "gates are by slot", "input": "rows of input are by slot"}
_NARROW: Final[dict[str, Callable[[Array], Array]]] = {
    "half": through_half,
    "bf16": partial(shortened, bits=8),
    "tf32": partial(shortened, bits=11),
}


def _wrong_routing(change: Callable[[_Entries], Array], call: OpCall) -> Routing:
    indices, locations = (call.array(name).astype(np.int64) for name in ("indices", "locations"))
    entries = _Entries(indices, locations, *(int(call.param(name)) for name in ("capacity", "num_experts", "hidden")))
    slots = change(entries)
    samples = np.flatnonzero((slots >= 0) & (slots < entries.k * entries.e))
    return Routing(samples, slots[samples])


def moe_suspects(output: str, answer: Answer, operands: tuple[str, str]) -> dict[str, Suspect]:
    """Mistakes about where samples go, about gates, and about rows that are read where slots say."""

    def routes(change: Callable[[_Entries], Array], call: OpCall) -> dict[str, Array]:
        return {output: answer(call, _wrong_routing(change, call))}

    def gates(change: Callable[[Array], Array], call: OpCall) -> dict[str, Array]:
        with np.errstate(over="ignore", divide="ignore"):
            return {output: answer(misread(gates=change)(call), routed(call))}

    def by_slot(name: str, call: OpCall) -> dict[str, Array]:
        routing, own = routed(call), call.array(name).copy()
        own[routing.samples] = np.take(call.array(name), routing.slots, 0, mode="wrap")
        return {output: answer(misread(**{name: lambda _: own})(call), routing)}

    return {
        **{words: partial(routes, change) for words, change in _ROUTES.items()},
        **{words: partial(gates, change) for words, change in _GATES.items() if "gates" in operands},
        **{words: partial(by_slot, name) for name, words in _BY_SLOT.items() if name in operands},
    }


def slot_sums(output: str, answer: Answer, call: OpCall) -> dict[str, Array]:
    """Gradients where samples of one slot share their sum."""
    routing = routed(call)
    grad = answer(call, routing)
    sums = np.zeros((call.tensor("dispatch").dims[0], *grad.shape[1:]), np.float32)
    with np.errstate(all="ignore"):
        np.add.at(sums, routing.slots, grad[routing.samples])
    grad[routing.samples] = sums[routing.slots]
    return {output: grad}


def computed(operator: Operator, name: str, message: str, write: Callable[[OpCall], Array]) -> Mutant:
    """Calls that compute have this output, all others the kernel's answer."""

    def run(call: OpCall) -> Status:
        if operator.answer(call).check is not None:
            return operator.kernel(call)
        with np.errstate(all="ignore"):
            call.array(operator.outputs[0].id)[...] = write(call)
        return Status.SUCCESS

    return Mutant(name, message, run)


def moe_mutants(operator: Operator, answer: Answer, operands: tuple[str, str], rows: str) -> Iterator[Mutant]:
    """Suspects, what is multiplied, lost and left, what another call finds; `rows` are those of the output."""
    right, output = operator.kernel, operator.outputs[0].id
    names = {re.sub(r"\W+", "_", words.lower()).strip("_"): words for words in operator.suspects}
    yield from mistakes.suspected(operator, names)

    def narrowed(narrow: Callable[[Array], Array], call: OpCall) -> Array:
        return answer(misread(**dict.fromkeys(operands, narrow))(call), routed(call))

    for name, narrow in _NARROW.items():
        yield computed(operator, f"{name}_inputs", f"rounds operands to {name}", partial(narrowed, narrow))

    def written(call: OpCall) -> Array:
        return routed(call).slots if output == "dispatch" else routed(call).samples

    def added(call: OpCall) -> Array:
        values, places = answer(call, routed(call)), written(call)
        values[places] += call.array(output)[places]
        return values

    yield computed(operator, "added", f"adds to what {output} holds", added)
    if "gates" in operands:

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
    for name in ("indices", "locations", *operands):
        if name != output:
            yield mistakes.input_cleared(right, name)


def _of_gradients(operator: Operator, answer: Answer) -> Iterator[Mutant]:
    """What must be cleared, what spreads, and forward's limit."""
    right, output = operator.kernel, operator.outputs[0].id

    def unrouted(call: OpCall) -> Any:
        return slots_read(call) < 0 if operator.answer(call).check is None else slice(0)

    def without_slots(call: OpCall) -> slice:
        return slice(None if call.tensor("dispatch").dims[0] == 0 else 0)

    def masked(call: OpCall) -> Array:
        slots = slots_read(call)
        everywhere = answer(call, Routing(np.arange(len(slots)), np.maximum(slots, 0)))
        return (everywhere.T * (slots >= 0).astype(np.float32)).T

    def limited(call: OpCall) -> Status:
        return Status.BAD_PARAM if call.param("samples") > call.tensor("dispatch").dims[0] else right(call)

    yield mistakes.left("unrouted_left", "does not clear what is not routed", right, output, unrouted)
    yield mistakes.left("no_slots_left", "does not clear gradients without slots", right, output, without_slots)
    yield computed(operator, "masked", "multiplies with 0 what is not routed", masked)
    yield Mutant("no_more_than_slots", "demands S ≤ E · K", limited)


def flushing(operator: Operator, operands: tuple[str, str]) -> Mutant:
    """A device may take subnormal numbers for 0."""

    def run(call: OpCall) -> Status:
        if operator.answer(call).check is not None:
            return operator.kernel(call)
        status = operator.kernel(misread(**dict.fromkeys(operands, flushed))(call))
        result = call.array(operator.outputs[0].id)
        result[...] = flushed(result)
        return status

    return Mutant("tiny_floats_flushed", "reads and writes subnormal floats as 0", run)
