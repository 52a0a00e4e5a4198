"""Mistakes of operators that move rows between samples and the slots of experts; for suspects and mutants."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Operator, Status, mistakes
from mluops_gtest.authoring.narrowing import NARROW
from mluops_gtest.authoring.roundings import through_half
from mluops_gtest.authoring.suspects import Suspect, misread

from .interpolation import shortened
from .moe_dispatch import Routing, routed

# What kernels cut axes into.
_TILE: Final = 64
# The output as it is of a call whose samples are routed in that way.
Answer = Callable[[OpCall, Routing], Array]


class Entries(NamedTuple):
    """indices and locations, int64 [S] each, the numbers of slots per expert and of experts, and H."""

    indices: Array
    locations: Array
    capacity: int
    experts: int
    hidden: int

    @property
    def slots(self) -> Array:
        """int64 [S], whatever the ranges are."""
        return self.indices * self.capacity + self.locations

    @property
    def index_fits(self) -> Array:
        """bool [S]: of an expert."""
        return (self.indices >= 0) & (self.indices < self.experts)

    @property
    def location_fits(self) -> Array:
        """bool [S]: below K and not negative."""
        return (self.locations >= 0) & (self.locations < self.capacity)

    def within(self, slots: Array) -> Array:
        """These slots of the samples that are routed."""
        return np.where(self.index_fits & self.location_fits, slots, -1)


def _first_of_slot(e: Entries) -> Array:
    slots = e.within(e.slots)
    first = np.zeros(len(slots), bool)
    first[np.unique(slots, return_index=True)[1]] = True
    return np.where(first, slots, -1)


def _without(e: Entries, lost: Array) -> Array:
    return np.where(lost, -1, e.within(e.slots))


def _behind_tiles(e: Entries) -> Array:
    count = len(e.indices)
    return np.arange(count) >= (count // _TILE * _TILE or count)


# Name, words behind "as if", and the slots; those outside of dispatch are none.
WRONG_ROUTES: Final[tuple[tuple[str, str, Callable[[Entries], Array]], ...]] = (
    ("locations_first", "the slot is locations · E + indices", lambda e: e.within(e.locations * e.experts + e.indices)),
    (
        "hidden_for_capacity",
        "the slot is indices · H + locations",
        lambda e: e.within(e.indices * e.hidden + e.locations),
    ),
    (
        "exchanged",
        "indices and locations are exchanged",
        lambda e: e._replace(indices=e.locations, locations=e.indices).within(e.locations * e.capacity + e.indices),
    ),
    ("expert_ignored", "the slot is locations alone", lambda e: e.within(e.locations)),
    ("location_ignored", "the slot is the first of the expert", lambda e: e.within(e.indices * e.capacity)),
    ("one_slot_more", "an expert has K + 1 slots", lambda e: e.within(e.slots + e.indices)),
    ("slot_is_sample", "the slot is the number of the sample", lambda e: e.within(np.arange(len(e.indices)))),
    ("slot_behind", "the slot is the one behind", lambda e: e.within(e.slots + 1)),
    ("unrouted_to_row_0", "samples that are not routed go to row 0", lambda e: np.maximum(e.within(e.slots), 0)),
    (
        "clipped",
        "indices and locations are clipped to their ranges",
        lambda e: np.clip(e.indices, 0, e.experts - 1) * e.capacity + np.clip(e.locations, 0, e.capacity - 1),
    ),
    (
        "wrapped",
        "indices and locations are taken modulo E and K",
        lambda e: e.indices % max(1, e.experts) * e.capacity + e.locations % max(1, e.capacity),
    ),
    (
        "slot_wrapped",
        "slots are taken modulo E · K",
        lambda e: e.slots % max(1, e.experts * e.capacity),
    ),
    (
        "negative_from_the_end",
        "negative slots count from the end",
        lambda e: np.where(e.slots < 0, e.slots + e.experts * e.capacity, e.within(e.slots)),
    ),
    (
        "location_k_counts",
        "a location of K is one",
        lambda e: np.where(e.index_fits & (e.locations == e.capacity), e.slots, e.within(e.slots)),
    ),
    (
        "locations_unlimited",
        "locations beyond K are not tested",
        lambda e: np.where(e.index_fits & (e.locations >= 0), e.slots, -1),
    ),
    (
        "negative_locations",
        "negative locations are not tested",
        lambda e: np.where(e.index_fits & (e.locations < e.capacity), e.slots, -1),
    ),
    (
        "two_sides_alone",
        "locations below K and indices from 0 on are all that is tested",
        lambda e: np.where((e.indices >= 0) & (e.locations < e.capacity), e.slots, -1),
    ),
    ("nothing_tested", "only the slot is tested", lambda e: e.slots),
    (
        "magnitudes",
        "indices and locations have no sign",
        lambda e: (f := e._replace(indices=np.abs(e.indices), locations=np.abs(e.locations))).within(f.slots),
    ),
    ("experts_from_1", "experts are counted from 1", lambda e: e.within(e.slots - e.capacity)),
    ("slots_from_1", "locations are counted from 1", lambda e: np.where(e.locations > 0, e.within(e.slots - 1), -1)),
    ("expert_0_lost", "expert 0 is none", lambda e: _without(e, e.indices == 0)),
    ("location_0_lost", "location 0 is none", lambda e: _without(e, e.locations == 0)),
    ("last_expert_lost", "the last expert is none", lambda e: _without(e, e.indices == e.experts - 1)),
    ("last_location_lost", "the last slot of an expert is none", lambda e: _without(e, e.locations == e.capacity - 1)),
    ("first_of_slot", "only the first sample of a slot counts", _first_of_slot),
    ("first_sample_lost", "the first sample is lost", lambda e: _without(e, np.arange(len(e.indices)) == 0)),
    (
        "last_sample_lost",
        "the last sample is lost",
        lambda e: _without(e, np.arange(len(e.indices), 0, -1) == 1),
    ),
    ("sample_tail", "samples behind whole tiles of 64 are lost", lambda e: _without(e, _behind_tiles(e))),
)
_NARROW: Final[Mapping[str, Callable[[Array], Array]]] = {
    "half": through_half,
    "bf16": partial(shortened, bits=8),
    "tf32": partial(shortened, bits=11),
}


def _wrong_routing(change: Callable[[Entries], Array], call: OpCall) -> Routing:
    indices, locations = (call.array(name).astype(np.int64) for name in ("indices", "locations"))
    entries = Entries(indices, locations, *(int(call.param(name)) for name in ("capacity", "num_experts", "hidden")))
    slots = change(entries)
    samples = np.flatnonzero((slots >= 0) & (slots < entries.capacity * entries.experts))
    return Routing(samples, slots[samples])


def route_suspects(output: str, answer: Answer) -> dict[str, Suspect]:
    """Mistakes about where samples go."""

    def of(change: Callable[[Entries], Array]) -> Suspect:
        return lambda call: {output: answer(call, _wrong_routing(change, call))}

    return {words: of(change) for _, words, change in WRONG_ROUTES}


def factor_suspects(output: str, answer: Answer) -> dict[str, Suspect]:
    """Mistakes about gates."""

    def of(change: Callable[[OpCall], OpCall]) -> Suspect:
        return lambda call: {output: answer(change(call), routed(call))}

    return {
        "gates are ignored": of(misread(gates=np.ones_like)),
        "gates are squared": of(misread(gates=_squared)),
        "gates have no sign": of(misread(gates=np.abs)),
        "every gate is the first one": of(misread(gates=lambda gates: np.full_like(gates, gates[0]))),
        "gates are those of the sample behind": of(misread(gates=lambda gates: np.roll(gates, -1))),
        "gates are by slot": lambda call: {output: answer(by_slot("gates", call), routed(call))},
    }


def _squared(gates: Array) -> Array:
    with np.errstate(over="ignore"):
        return gates * gates


def by_slot(name: str, call: OpCall) -> OpCall:
    """The call whose samples read that input where their slots say."""
    routing, own = routed(call), call.array(name).copy()
    own[routing.samples] = np.take(call.array(name), routing.slots, 0, mode="wrap")
    return misread(**{name: lambda _: own})(call)


_OF_GATES: Final = {
    "gates_ignored": "gates are ignored",
    "gates_squared": "gates are squared",
    "gates_absolute": "gates have no sign",
    "first_gate": "every gate is the first one",
    "next_gate": "gates are those of the sample behind",
    "gates_by_slot": "gates are by slot",
}


def computed(operator: Operator, name: str, message: str, write: Callable[[OpCall], Array]) -> Mutant:
    """Calls that compute have this output, all others the kernel's answer."""

    def run(call: OpCall) -> Status:
        if operator.answer(call).check is not None:
            return operator.kernel(call)
        with np.errstate(all="ignore"):
            call.array(operator.outputs[0].id)[...] = write(call)
        return Status.SUCCESS

    return Mutant(name, message, run)


def moe_mutants(
    operator: Operator, answer: Answer, operands: tuple[str, str], output: str, rows: str
) -> Iterator[Mutant]:
    """Where samples go, what is multiplied and lost, what another call finds; `rows` are those of the output."""
    yield from mistakes.suspected(operator, {name: words for name, words, _ in WRONG_ROUTES})
    if "gates" in operands:
        yield from mistakes.suspected(operator, _OF_GATES)
    right = operator.kernel

    def narrowed(narrow: Callable[[Array], Array], call: OpCall) -> Array:
        return answer(misread(**dict.fromkeys(operands, narrow))(call), routed(call))

    for name, narrow in _NARROW.items():
        yield computed(operator, f"{name}_inputs", f"rounds operands to {name}", partial(narrowed, narrow))
    for name, message, keep in NARROW:
        if name == "int8":
            yield computed(
                operator,
                f"{name}_slots",
                f"keeps slots in {message}",
                lambda call, keep=keep: answer(  # type: ignore[misc]
                    call, _wrong_routing(lambda e: keep(e.within(e.slots)), call)
                ),
            )
    yield from mistakes.tails_left(right, output, 0, rows, (16, 64))
    yield mistakes.part_left(right, output, 0, rows)
    yield mistakes.cached_by_shape(right)
    yield mistakes.sum_goes_on(right, output)
    yield mistakes.first_length_kept(right, output, 0, rows)
    yield mistakes.first_param_kept(right, "capacity")
    yield mistakes.input_cleared(right, "indices")
    yield mistakes.input_cleared(right, operands[1])
