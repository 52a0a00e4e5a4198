"""Operators that move rows between samples and the slots of experts: routing, recipes, what kernels refuse, fuzzing.

S samples, E experts with K slots each, H values in a row; slot indices[i] · K + locations[i] is a row of dispatch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np

from mluops_gtest.authoring import (
    Array,
    Draw,
    DType,
    OpCall,
    ParamField,
    ParamMessage,
    Params,
    Recipe,
    RecipeOutput,
    Status,
    TensorSpec,
    axis,
)
from mluops_gtest.authoring.reductions import Reduction, changed, renumbered
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

from .bit_patterns import KINDS, BitPatterns
from .products import SUBNORMAL, Values, draw_factor

FIELDS: Final = ("samples", "capacity", "hidden", "num_experts")
SHAPES: Final = {
    **dict.fromkeys(("gates", "indices", "locations", "grad_gates"), "[samples]"),
    **dict.fromkeys(("input", "grad_input"), "[samples, hidden]"),
    "dispatch": "[num_experts·capacity, hidden]",
}
# §1.4 and the header demand ranges; tutel marks what it drops by −1 and by K and above, and kernels, listings and
# incumbent test all four sides and skip: so does everybody.
_POSITIONS: Final = {"indices": "num_experts", "locations": "capacity"}
AXES: Final = {"samples": axis("samples", of="indices"), "hidden": axis("hidden", of="dispatch")}


def moe_params(field: str, number: int, message: str) -> ParamMessage:
    """The four parameters, of which none is negative."""
    return ParamMessage(field, number, message, tuple(ParamField(one, n, least=0) for n, one in enumerate(FIELDS, 1)))


def moe_input(name: str) -> TensorSpec:
    """The declaration of an input by its name; nobody looks at layouts."""
    dtype = DType.INT32 if name in _POSITIONS else DType.FLOAT
    outside = "skipped" if name in _POSITIONS else ""
    return TensorSpec(name, SHAPES[name], (dtype,), None, names=_POSITIONS.get(name), outside=outside)


def never_large(*of_samples: str) -> Mapping[str, str]:
    """`subsumed`: what an int32 parameter leaves no call for."""
    return {f"{name}_large": "it has `samples` elements, and samples is an int32" for name in of_samples}


def never_reached(*of_samples: str) -> Mapping[str, str]:
    """The same where lengths, which are not negative, are asked for before parameters."""
    lengths = dict.fromkeys(("samples", "hidden"), "it is the length of an axis, which is not negative")
    return {**never_large(*of_samples), **lengths}


class Routing(NamedTuple):
    """Of the samples that are routed, in order: their numbers and their slots, int64 [R] each."""

    samples: Array
    slots: Array


def routed(call: OpCall) -> Routing:
    """0 ≤ locations[i] < K and 0 ≤ indices[i] < E."""
    if call.param("capacity") * call.param("num_experts") == 0:
        # Without slots the pointers may be null.
        return Routing(np.empty(0, np.int64), np.empty(0, np.int64))
    return routed_by(call.params or {}, *call.arrays("indices", "locations"))


def routed_by(params: Mapping[str, Any], indices: Array, locations: Array) -> Routing:
    """The same before there is a call."""
    capacity, experts = params["capacity"], params["num_experts"]
    samples = np.flatnonzero((locations >= 0) & (locations < capacity) & (indices >= 0) & (indices < experts))
    return Routing(samples, indices[samples].astype(np.int64) * capacity + locations[samples])


def literal_slot(call: OpCall, sample: int) -> int | None:
    """The slot of a sample, or None; for exact elements."""
    index, location = (int(call.array(name)[sample]) for name in ("indices", "locations"))
    capacity, experts = call.param("capacity"), call.param("num_experts")
    return index * capacity + location if 0 <= index < experts and 0 <= location < capacity else None


# What kernels of these operators do before they compute.

OLDEST_ARCH: Final = 370


def refusal(call: OpCall, *names: str, fits: bool = False) -> Status | None:
    """What a kernel answers without a look at elements and pointers; `fits`: no more samples than slots."""
    if call.handle is None:
        return Status.BAD_PARAM
    if call.handle.arch < OLDEST_ARCH:
        return Status.ARCH_MISMATCH
    tensors = {**call.inputs, **call.outputs}
    samples, capacity, hidden, experts = (call.param(name) for name in FIELDS)
    slots = experts * capacity
    dims = {1: (samples,), 2: (samples, hidden)}
    for name in names:
        arg = tensors[name]
        if arg is None or len(arg.dims) != 1 + (name in ("input", "grad_input", "dispatch")):
            return Status.BAD_PARAM
        if arg.dims != ((slots, hidden) if name == "dispatch" else dims[len(arg.dims)]):
            return Status.BAD_PARAM
        if arg.dtype is not (DType.INT32 if name in ("indices", "locations") else DType.FLOAT):
            return Status.BAD_PARAM
    if min(samples, capacity, hidden, experts) < 0:
        return Status.BAD_PARAM
    args = [arg for name in names if (arg := tensors[name]) is not None]
    if any(arg.desc.is_strided for arg in args):
        return Status.NOT_SUPPORTED
    if fits and samples > slots:
        return Status.BAD_PARAM
    return Status.NOT_SUPPORTED if any(arg.desc.is_large for arg in args) else None


def slots_read(call: OpCall) -> Array:
    """int64 [S]: the slot of every sample, −1 for none; for kernels."""
    # Read without a sign, a negative number lies behind every other.
    experts, places = (call.array(name).view("<u4").astype(np.int64) for name in ("indices", "locations"))
    routed = (experts < call.param("num_experts")) & (places < call.param("capacity"))
    return np.where(routed, experts * call.param("capacity") + places, -1)


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
# drawn: as the rows; unit: in (0, 1); special: 0, −1, 1 and 2^100 beside drawn ones.
Gates = Literal["drawn", "unit", "special"]
# At one routed sample; idle_…: wherever no routed sample reads, where nothing may show.
Special = Literal[
    "first_nan", "first_inf", "first_negative_inf", "second_nan", "second_inf", "second_negative_inf",
    "zero_times_inf", "inf_times_zero", "inf_minus_inf", "overflow", "idle_nan", "idle_inf",
]  # fmt: skip

_INT32: Final = (-(2**31), 2**31 - 1)
_CROWD: Final = 3
_SPECIAL_GATES: Final = (0.0, -1.0, 1.0, 2.0**100)
_LARGE: Final = 2.0**100
_NOT_FINITE: Final = {"nan": np.nan, "inf": np.inf, "negative_inf": -np.inf}
# What rows of a dispatch hold that nobody writes: NaN with any payload, infinities.
_HELD: Final = BitPatterns("dispatch_before", "sorts", KINDS)
_DEFAULTS: Final = {"samples": 12, "capacity": 5, "hidden": 4, "num_experts": 3}


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


@dataclass(frozen=True, slots=True)
class MoeOperands:
    """The two tensors that an operator multiplies, of a number or row per sample or, dispatch, per slot."""

    first: str
    second: str
    output: str

    def shape(self, name: str, p: Mapping[str, Any]) -> tuple[int, ...]:
        """That of a tensor in a call with these parameters."""
        if name == "dispatch":
            return p["num_experts"] * p["capacity"], p["hidden"]
        return (p["samples"], p["hidden"]) if SHAPES[name] == SHAPES["input"] else (p["samples"],)

    def values(self, draw: Draw, p: Mapping[str, Any], kind: Values, gates: Gates = "drawn") -> dict[str, Array]:
        """Both operands."""
        # A number per sample is the sum over a row, all else is one product.
        made, terms = {}, p["hidden"] if SHAPES[self.output] == "[samples]" else 1
        for name, sign in ((self.first, 1), (self.second, -1)):
            stream, shape = draw.stream(name), self.shape(name, p)
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
        p = complete(params)
        return self.made(draw, p, dtype, *draw_routing(draw, p, where), self.values(draw, p, values, gates))

    def listed(
        self,
        draw: Draw,
        params: Params,
        dtype: DType,
        *,
        indices: tuple[int, ...],
        locations: tuple[int, ...],
        values: Values = "full",
    ) -> RecipeOutput:
        """The routing that the declaration lists."""
        p = complete({**params, "samples": len(indices)})
        experts, places = (np.array(one, "<i4") for one in (indices, locations))
        return self.made(draw, p, dtype, experts, places, self.values(draw, p, values))

    def special(self, draw: Draw, params: Params, dtype: DType, *, kind: Special) -> RecipeOutput:
        """Values that are not finite in every other column of the rows that one sample reads, or where none does."""
        p = complete(params)
        indices, locations = draw_routing(draw, p, "sides")
        samples, slots = routed_by(p, indices, locations)
        made = self.values(draw, p, "full")
        if len(samples) < 2:
            raise ValueError("some samples must be routed; give more")
        at = {name: slots[-1] if name == "dispatch" else samples[-1] for name in made}

        def put(name: str, value: float) -> None:
            made[name][(at[name], slice(None, None, 2))[: made[name].ndim]] = value

        match kind.split("_", 1):
            case ["first" | "second" as which, value]:
                put(self.first if which == "first" else self.second, _NOT_FINITE[value])
            case ["zero", _]:
                put(self.first, 0)
                put(self.second, np.inf)
            case ["inf", "times_zero"]:
                put(self.first, np.inf)
                put(self.second, 0)
            case ["inf", _]:
                put(self.first, 1)
                put(self.second, np.inf)
                made[self.second][at[self.second], 0] = -np.inf
            case ["overflow"]:
                put(self.first, _LARGE)
                put(self.second, _LARGE)
            case ["idle", value]:
                for name, array in made.items():
                    idle = np.setdiff1d(np.arange(len(array)), slots if name == "dispatch" else samples)
                    array[idle] = _NOT_FINITE[value]
                if self.output == "dispatch":
                    made["dispatch_before"] = _HELD.drawn(draw, dtype, self.shape("dispatch", p), value)
        return self.made(draw, p, dtype, indices, locations, made)

    def made(
        self, draw: Draw, p: dict[str, Any], dtype: DType, indices: Array, locations: Array, values: Mapping[str, Array]
    ) -> RecipeOutput:
        """All inputs; a dispatch that is written has content, too."""
        if dtype is not DType.FLOAT:
            raise ValueError(f"values are float, not {dtype.value}")
        inputs = {"indices": indices, "locations": locations, **values}
        shape = self.shape(self.output, p)
        if self.output == "dispatch":
            inputs.setdefault("dispatch_before", draw.stream("dispatch_before").mantissas(shape, (-8, 8)))
        return RecipeOutput(inputs, p, outputs={self.output: shape})

    @property
    def recipes(self) -> dict[str, Recipe]:
        """By name."""
        return {one.__name__: one for one in (self.routed, self.listed, self.special)}


def complete(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with a default for each that is not declared."""
    return {name: params.get(name, default) for name, default in _DEFAULTS.items()}


def moe_space(*special: str, fits: bool = False, gates: bool = True, **others: Any) -> Space:
    """What the recipes draw; a device may take subnormal floats for 0."""
    kinds = tuple(kind for kind in get_args(Values) if kind not in SUBNORMAL)

    def draw(at: Mapping[str, Any]) -> Drawn | None:
        params = {name: at[name] for name in FIELDS}
        slots, what = at["capacity"] * at["num_experts"], at["what"]
        if at["samples"] > slots and (fits or at["where"] == "distinct"):
            return None
        if what in special:
            return Drawn("special", params, {"kind": what})
        if what in others:
            return Drawn(what, params, others[what])
        return Drawn(
            "routed", params, {"values": what, "where": at["where"], **({"gates": at["gates"]} if gates else {})}
        )

    return Space(
        axes={
            "samples": Sizes(1, 2049),
            "capacity": Sizes(1, 1025),
            "hidden": Sizes(1, 257),
            "num_experts": Sizes(1, 9),
            "where": Choice(get_args(Where)),
            "gates": Choice(get_args(Gates) if gates else ("drawn",)),
            "what": Choice((*kinds, *special, *others)),
        },
        draw=draw,
        elements=lambda at: at["hidden"] * (2 * at["samples"] + at["capacity"] * at["num_experts"]) + 3 * at["samples"],
    )


# What minimising takes away beyond samples and hidden values: experts with their slots, and a slot of every expert.


def _fewer(name: str, axis_: int, positions: str) -> Reduction:
    def without(call: OpCall, start: int, stop: int) -> RecipeOutput | None:
        p = {one: int(call.param(one)) for one in FIELDS}
        shape = p["num_experts"], p["capacity"], p["hidden"]
        p[name] -= stop - start
        contents = {
            one: arg.array for one, arg in call.inputs.items() if one.startswith("dispatch") and arg is not None
        }
        inputs = {
            one: np.delete(array.reshape(shape), slice(start, stop), axis_).reshape(-1, shape[2])
            for one, array in contents.items()
            if array is not None
        }
        inputs[positions] = renumbered(call.array(positions), start, stop)
        outputs = {"dispatch": (p["num_experts"] * p["capacity"], p["hidden"])} if "dispatch" in call.outputs else {}
        return changed(call, inputs, p, outputs)

    return Reduction(lambda call: int(call.param(name)), without)


SLOT_REDUCTIONS: Final = {
    "capacity": _fewer("capacity", 1, "locations"),
    "experts": _fewer("num_experts", 0, "indices"),
}
