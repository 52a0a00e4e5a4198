"""Samples that are routed to the slots of experts: for references and kernels, exact elements, recipes, fuzzing.

S samples, E experts with K slots each, H values in a row; slot indices[i] · K + locations[i] is a row of dispatch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, OpCall, Params, Recipe, RecipeOutput, diff1_and_diff2
from mluops_gtest.authoring.exact_numbers import ExactElement, products
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space
from mluops_gtest.authoring.sums import assert_conditioned, exact_sums

from .bit_patterns import KINDS, BitPatterns
from .products import SUBNORMAL, Values, draw_factor

FIELDS: Final = ("samples", "capacity", "hidden", "num_experts")
# Of H columns; all others are a number per sample.
ROWS: Final = ("input", "grad_input", "dispatch", "dispatch_before")


class Routing(NamedTuple):
    """Of the samples that are routed, in order: their numbers and their slots, int64 [R] each."""

    samples: Array
    slots: Array


def routed(call: OpCall) -> Routing:
    """0 ≤ locations[i] < K and 0 ≤ indices[i] < E."""
    if call.tensor("dispatch").desc.is_empty:
        # Without slots or columns the pointers may be null.
        return Routing(np.empty(0, np.int64), np.empty(0, np.int64))
    return routed_by(call.params or {}, *call.arrays("indices", "locations"))


def routed_by(params: Mapping[str, Any], indices: Array, locations: Array) -> Routing:
    """The same before there is a call."""
    capacity, experts = params["capacity"], params["num_experts"]
    samples = np.flatnonzero((locations >= 0) & (locations < capacity) & (indices >= 0) & (indices < experts))
    return Routing(samples, indices[samples].astype(np.int64) * capacity + locations[samples])


def rounded_products(gates: Array, rows: Array) -> Array:
    """float32 [R, H]: each row times its gate, rounded once; for oracles."""
    # A product of two float32 values has 48 bits: float64 holds it.
    with np.errstate(over="ignore", invalid="ignore"):
        values = (gates[:, None].astype(np.float64) * rows).astype(np.float32)
    # Which NaN an operation gives differs between processors.
    np.copyto(values, np.float32(np.nan), where=np.isnan(values))
    return values


def literal_slot(call: OpCall, sample: int) -> int | None:
    """The slot of a sample, or None; for exact elements."""
    if call.tensor("dispatch").desc.is_empty:
        return None
    index, location = (int(call.array(name)[sample]) for name in ("indices", "locations"))
    capacity, experts = call.param("capacity"), call.param("num_experts")
    return index * capacity + location if 0 <= index < experts and 0 <= location < capacity else None


def literal_or_0(call: OpCall, value: Callable[..., Fraction | float]) -> ExactElement:
    """The value by the slot of a sample, the sample and a column, if there are columns; 0 if there is no slot."""

    def element(sample: int, *column: int) -> Fraction | float:
        slot = literal_slot(call, sample)
        return Fraction(0) if slot is None else value(slot, sample, *column)

    return element


def slots_read(call: OpCall) -> Array:
    """int64 [S]: the slot of every sample, −1 for none; for kernels."""
    # Read without a sign, a negative number lies behind every other.
    experts, places = (call.array(name).view("<u4").astype(np.int64) for name in ("indices", "locations"))
    fits = (experts < call.param("num_experts")) & (places < call.param("capacity"))
    return np.where(fits, experts * call.param("capacity") + places, -1)


def torch_routing(call: OpCall, inputs: Mapping[str, Any]) -> tuple[Any, Any]:
    """Samples that are routed, and their slots, as tensors of torch; for kernels."""
    indices, locations = inputs["indices"].long(), inputs["locations"].long()
    experts, capacity = call.param("num_experts"), call.param("capacity")
    fits = (indices >= 0) & (indices < experts) & (locations >= 0) & (locations < capacity)
    samples = fits.nonzero().squeeze(1)
    return samples, (indices * capacity + locations)[samples]


# Recipes. natural: every expert's locations are 0, 1, 2 … in the order of samples, and tokens beyond K are dropped.
# distinct: no slot twice, both ends of dispatch among them; any: slots anywhere; crowded: a few slots for all samples;
# sides: every third sample leaves the ranges by one of the four sides, in turn; none: all do.
Where = Literal["natural", "distinct", "any", "crowded", "sides", "none"]
Ints = tuple[int, ...]
# drawn: as the rows; unit: in (0, 1); special: 0, −1, 1 and 2^100 beside drawn ones.
Gates = Literal["drawn", "unit", "special"]
# What the first and the second operand hold at one routed sample; None: what they are.
_AT_ONE: Final[dict[str, tuple[float | None, float | None]]] = {
    "first_nan": (np.nan, None), "first_inf": (np.inf, None), "first_negative_inf": (-np.inf, None),
    "second_nan": (None, np.nan), "second_inf": (None, np.inf), "second_negative_inf": (None, -np.inf),
    "zero_times_inf": (0, np.inf), "inf_times_zero": (np.inf, 0), "inf_minus_inf": (1, np.inf),
    "overflow": (2.0**100, 2.0**100),
}  # fmt: skip
# Wherever no routed sample reads, where nothing may show.
_IDLE: Final = {"idle_nan": np.nan, "idle_inf": np.inf}
_SPECIAL: Final = (*_AT_ONE, *_IDLE)

_INT32: Final = (-(2**31), 2**31 - 1)
_CROWD: Final = 3
_SPECIAL_GATES: Final = (0.0, -1.0, 1.0, 2.0**100)
# What rows of a dispatch hold that nobody writes: NaN with any payload, infinities.
_HELD: Final = BitPatterns("dispatch_before", "sorts", KINDS)
# Parameters that are not declared.
DEFAULTS: Final[dict[str, Any]] = {"samples": 12, "capacity": 5, "hidden": 4, "num_experts": 3}
# What is looked at for conditioning: small cases wholly, network cases by their first samples.
_CONDITION_PRODUCTS: Final = 1 << 20


def draw_routing(draw: Draw, p: Mapping[str, Any], where: Where) -> tuple[Array, Array]:
    """int32 [S] each: indices and locations of that kind."""
    samples, capacity, experts = p["samples"], p["capacity"], p["num_experts"]
    slots = capacity * experts
    if not slots:
        # No slot is there: any numbers are outside.
        return np.zeros(samples, "<i4"), np.zeros(samples, "<i4")
    stream = draw.stream("indices")
    match where:
        case "natural":
            indices = stream.integers(0, experts, samples)
            locations = np.empty(samples, np.int64)
            for expert in np.unique(indices):
                locations[indices == expert] = np.arange(np.count_nonzero(indices == expert))
            return indices.astype("<i4"), locations.astype("<i4")
        case "distinct":
            if samples > slots:
                raise ValueError(f"{samples} samples have no slot each; there are {slots}")
            ends = np.array([slots - 1, 0])[:samples]
            between = stream.sample(slots - 2, samples - 2) + 1 if samples > 2 else np.empty(0, np.int64)
            chosen = np.concatenate([ends, between])[draw.stream("order").permutation(samples)]
        case "crowded":
            few = stream.sample(slots, min(_CROWD, slots))
            chosen = few[draw.stream("order").integers(0, len(few), samples)]
        case _:
            chosen = stream.integers(0, slots, samples)
    indices, locations = chosen // capacity, chosen % capacity
    if where in ("sides", "none"):
        ways = np.array([*_INT32, -1, experts, *_INT32, -1, capacity])
        at = np.arange(samples) if where == "none" else np.arange(1, samples, 3)
        way = np.arange(len(at)) % len(ways)
        by_index = way < len(ways) // 2
        indices[at[by_index]], locations[at[~by_index]] = ways[way[by_index]], ways[way[~by_index]]
    return indices.astype("<i4"), locations.astype("<i4")


def dims_of(name: str, p: Mapping[str, Any]) -> tuple[int, ...]:
    """Those of a tensor in a call with these parameters."""
    rows = p["num_experts"] * p["capacity"] if name.startswith("dispatch") else p["samples"]
    return (rows, p["hidden"]) if name in ROWS else (rows,)


@dataclass(frozen=True, slots=True)
class Operands:
    """The two tensors that an operator multiplies, of a number or row per sample or, dispatch, per slot."""

    first: str
    second: str
    output: str

    @property
    def both(self) -> tuple[str, str]:
        return self.first, self.second

    def values(self, draw: Draw, p: Mapping[str, Any], kind: Values, gates: Gates = "drawn") -> dict[str, Array]:
        """Both operands."""
        # A number per sample is the sum over a row, all else is one product.
        made, terms = {}, p["hidden"] if self.output == "grad_gates" else 1
        for name, sign in ((self.first, 1), (self.second, -1)):
            stream, shape = draw.stream(name), dims_of(name, p)
            made[name] = draw_factor(stream, kind, DType.FLOAT, shape, terms=max(1, terms), sign=sign)  # type: ignore[arg-type]
        if gates == "unit":
            made["gates"] = np.abs(draw.stream("gates").mantissas(p["samples"], (-4, -1)))
        if gates == "special":
            which = np.arange(p["samples"]) % (len(_SPECIAL_GATES) + 1)
            made["gates"] = np.choose(which, [*map(np.float32, _SPECIAL_GATES), made["gates"]]).astype("<f4")
        return made

    def routed(
        self,
        draw: Draw,
        params: Params,
        dtype: DType,
        *,
        where: Where = "any",
        values: Values = "full",
        gates: Gates = "drawn",
    ) -> RecipeOutput:
        """Samples routed in that way, operands of these kinds."""
        p = {**DEFAULTS, **params}
        return self.made(draw, p, dtype, *draw_routing(draw, p, where), self.values(draw, p, values, gates))

    def listed(self, draw: Draw, params: Params, dtype: DType, *, indices: Ints, locations: Ints) -> RecipeOutput:
        """The routing that the declaration lists."""
        p = {**DEFAULTS, **params, "samples": len(indices)}
        experts, places = (np.array(one, "<i4") for one in (indices, locations))
        return self.made(draw, p, dtype, experts, places, self.values(draw, p, "full"))

    def special(self, draw: Draw, params: Params, dtype: DType, *, kind: str) -> RecipeOutput:
        """Values that are not finite in every other column of the rows that one sample reads, or where none does."""
        p = {**DEFAULTS, **params}
        indices, locations = draw_routing(draw, p, "sides")
        samples, slots = routed_by(p, indices, locations)
        made = self.values(draw, p, "full")
        if len(samples) < 2:
            raise ValueError("some samples must be routed; give more")
        if kind not in _SPECIAL:
            raise ValueError(f"kind is {kind}; give one of {', '.join(_SPECIAL)}")
        for name, value in zip(self.both, _AT_ONE.get(kind, ()), strict=False):
            row = slots[-1] if name == "dispatch" else samples[-1]
            if value is not None:
                made[name][(row, slice(None, None, 2))[: made[name].ndim]] = value
            if kind == "inf_minus_inf" and name == self.second:
                made[name][row, 0] = -np.inf
        for name, array in made.items() if kind in _IDLE else ():
            array[np.setdiff1d(np.arange(len(array)), slots if name == "dispatch" else samples)] = _IDLE[kind]
        if kind in _IDLE and self.output == "dispatch":
            made["dispatch_before"] = _HELD.drawn(draw, dtype, dims_of("dispatch", p), kind.removeprefix("idle_"))
        return self.made(draw, p, dtype, indices, locations, made)

    def made(
        self, draw: Draw, p: dict[str, Any], dtype: DType, indices: Array, locations: Array, values: Mapping[str, Array]
    ) -> RecipeOutput:
        """All inputs; a dispatch that is written has content, too. ContentError where right sums could fail."""
        if dtype is not DType.FLOAT:
            raise ValueError(f"values are float, not {dtype.value}")
        inputs = {"indices": indices, "locations": locations, **values}
        shape = dims_of(self.output, p)
        if self.output == "dispatch":
            inputs.setdefault("dispatch_before", draw.stream("dispatch_before").mantissas(shape, (-8, 8)))
        if self.output == "grad_gates":
            samples, slots = routed_by(p, indices, locations)
            some = slice(max(1, _CONDITION_PRODUCTS // max(1, p["hidden"])))
            with np.errstate(over="ignore", invalid="ignore"):
                terms = products(values["input"][samples[some]], values["dispatch"][slots[some]]).T
                sums = exact_sums(terms).astype(np.float32)
            # Any order of float32 additions stays within the criteria.
            assert_conditioned(terms, sums, diff1_and_diff2(3e-3))
        return RecipeOutput(inputs, p, outputs={self.output: shape})

    @property
    def recipes(self) -> dict[str, Recipe]:
        return {one.__name__: one for one in (self.routed, self.listed, self.special)}

    def space(self, **others: Any) -> Space:
        """What recipes draw, `others` with these arguments; a device may take subnormal floats for 0."""
        kinds = tuple(kind for kind in get_args(Values) if kind not in SUBNORMAL)

        def draw(at: Mapping[str, Any]) -> Drawn | None:
            params = {name: at[name] for name in FIELDS}
            slots, what = at["capacity"] * at["num_experts"], at["what"]
            if at["samples"] > slots and (self.output == "dispatch" or at["where"] == "distinct"):
                return None
            if what in _SPECIAL:
                return Drawn("special", params, {"kind": what})
            if what in others:
                return Drawn(what, params, others[what])
            return Drawn("routed", params, {"values": what, "where": at["where"], "gates": at["gates"]})

        return Space(
            axes={
                **{name: Sizes(1, most) for name, most in zip(FIELDS, (2049, 1025, 257, 9), strict=True)},
                "where": Choice(get_args(Where)),
                "gates": Choice(get_args(Gates) if "gates" in self.both else ("drawn",)),
                "what": Choice((*kinds, *_SPECIAL, *others)),
            },
            draw=draw,
            elements=lambda at: (
                at["hidden"] * (2 * at["samples"] + at["capacity"] * at["num_experts"]) + 3 * at["samples"]
            ),
        )
