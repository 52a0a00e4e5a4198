"""Operators that move rows between samples and the slots of experts: routing, recipes, what kernels refuse, fuzzing.

S samples, E experts with K slots each, H values in a row; slot indices[i] · K + locations[i] is a row of dispatch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np

from mluops_gtest.authoring import (
    Array,
    Baseline,
    Bound,
    Draw,
    DType,
    OpCall,
    Operator,
    OutputSpec,
    ParamField,
    ParamMessage,
    Params,
    Recipe,
    RecipeOutput,
    Status,
    TensorSpec,
    Theory,
    axis,
)
from mluops_gtest.authoring.c_api import HANDLE, c_function, scalar, tensor
from mluops_gtest.authoring.left_open import find_subnormal
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

from .bit_patterns import KINDS, BitPatterns
from .products import SUBNORMAL, Values, draw_factor

FIELDS: Final = ("samples", "capacity", "hidden", "num_experts")
SHAPES: Final = {
    **dict.fromkeys(("gates", "indices", "locations", "grad_gates"), "[samples]"),
    **dict.fromkeys(("input", "grad_input"), "[samples, hidden]"),
    **dict.fromkeys(("dispatch", "dispatch_before"), "[num_experts·capacity, hidden]"),
}
# §1.4 and the header demand ranges; tutel marks what it drops by −1 and by K and above, and kernels, listings and
# incumbent test all four sides and skip: so does everybody.
_POSITIONS: Final = {"indices": "num_experts", "locations": "capacity"}


class Routing(NamedTuple):
    """Of the samples that are routed, in order: their numbers and their slots, int64 [R] each."""

    samples: Array
    slots: Array


# The output as it is of a call whose samples are routed in that way.
Answer = Callable[[OpCall, Routing], Array]


def moe_operator(
    name: str, numbers: tuple[int, int], inputs: tuple[str, ...], output: OutputSpec, answer: Answer, **own: Any
) -> Operator:
    """What the three declare alike, and their own; `numbers` of op_type and of the parameters, `answer` the oracle."""
    title, result = name.title().replace("_", ""), output.id
    named = [one for one in inputs if one != "dispatch_before"]

    def declared(id_: str) -> TensorSpec:
        # Nobody looks at layouts.
        if id_ in _POSITIONS:
            return TensorSpec(id_, SHAPES[id_], (DType.INT32,), None, names=_POSITIONS[id_], outside="skipped")
        return TensorSpec(id_, SHAPES[id_], (DType.FLOAT,), None, becomes=result if id_ not in named else "")

    def reference(call: OpCall) -> Baseline:
        return Baseline({result: answer(call, routed(call))})

    def bound(call: OpCall) -> dict[str, Bound]:
        # One product; what is no product is the same bit for bit.
        magnitude = np.abs(answer(call, routed(call)))
        if output.kept is not None:
            magnitude[output.kept(call)] = 0
        return {result: Bound(magnitude, 1)}

    def theory(call: OpCall) -> Theory:
        # Routing and gates, or sums; the rows that are read, and those that are read or written.
        samples, hidden = call.param("samples"), call.param("hidden")
        met = len(routed(call).samples) * hidden
        other = samples * hidden if result == "grad_input" else met
        return Theory(io_bytes=12 * samples + 4 * (met + other), ops=met * (1 + (result == "grad_gates")))

    params = tuple(ParamField(one, number, least=0) for number, one in enumerate(FIELDS, 1))
    common = {
        "axes": {"samples": axis("samples", of="indices"), "hidden": axis("hidden", of=named[-1])},
        "c_api": c_function(f"mluOp{title}", arguments=(HANDLE, *tensor(*named), *scalar(*FIELDS), *tensor(result))),
        "bound": bound,
        "left_open": {"subnormal": find_subnormal},
    }
    return Operator(
        name=name,
        released_name=name,
        op_type=(name.upper(), numbers[0]),
        inputs=tuple(map(declared, inputs)),
        outputs=(output,),
        params=ParamMessage(f"{name}_param", numbers[1], f"{title}Param", params),
        reference=reference,
        theory=theory,
        **{**common, **own},
    )


def never_large(*of_samples: str) -> dict[str, str]:
    """`subsumed`: what an int32 parameter leaves no call for."""
    return {f"{name}_large": "it has `samples` elements, and samples is an int32" for name in of_samples}


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


def literal_slot(call: OpCall, sample: int) -> int | None:
    """The slot of a sample, or None; for exact elements."""
    if call.tensor("dispatch").desc.is_empty:
        return None
    index, location = (int(call.array(name)[sample]) for name in ("indices", "locations"))
    capacity, experts = call.param("capacity"), call.param("num_experts")
    return index * capacity + location if 0 <= index < experts and 0 <= location < capacity else None


# What kernels of these operators do before they compute.


def refusal(call: OpCall, *names: str, fits: bool = False) -> Status | None:
    """What a kernel answers without a look at elements and pointers; `fits`: no more samples than slots."""
    if call.handle is None:
        return Status.BAD_PARAM
    if call.handle.arch < 370:
        return Status.ARCH_MISMATCH
    tensors = {**call.inputs, **call.outputs}
    samples, capacity, hidden, experts = (call.param(name) for name in FIELDS)
    slots = experts * capacity
    rows = {"input": samples, "grad_input": samples, "dispatch": slots}
    for name in names:
        arg = tensors[name]
        if arg is None or arg.dims != ((rows[name], hidden) if name in rows else (samples,)):
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
SPECIAL: Final = (*_AT_ONE, *_IDLE)

_INT32: Final = (-(2**31), 2**31 - 1)
_CROWD: Final = 3
_SPECIAL_GATES: Final = (0.0, -1.0, 1.0, 2.0**100)
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
        self, draw: Draw, params: Params, dtype: DType, *, indices: Ints, locations: Ints, values: Values = "full"
    ) -> RecipeOutput:
        """The routing that the declaration lists."""
        p = complete({**params, "samples": len(indices)})
        experts, places = (np.array(one, "<i4") for one in (indices, locations))
        return self.made(draw, p, dtype, experts, places, self.values(draw, p, values))

    def special(self, draw: Draw, params: Params, dtype: DType, *, kind: str) -> RecipeOutput:
        """Values that are not finite in every other column of the rows that one sample reads, or where none does."""
        p = complete(params)
        indices, locations = draw_routing(draw, p, "sides")
        samples, slots = routed_by(p, indices, locations)
        made = self.values(draw, p, "full")
        if len(samples) < 2:
            raise ValueError("some samples must be routed; give more")
        if kind not in SPECIAL:
            raise ValueError(f"kind is {kind}; give one of {', '.join(SPECIAL)}")
        for name, value in zip((self.first, self.second), _AT_ONE.get(kind, ()), strict=False):
            row = slots[-1] if name == "dispatch" else samples[-1]
            if value is not None:
                made[name][(row, slice(None, None, 2))[: made[name].ndim]] = value
            if kind == "inf_minus_inf" and name == self.second:
                made[name][row, 0] = -np.inf
        for name, array in made.items() if kind in _IDLE else ():
            array[np.setdiff1d(np.arange(len(array)), slots if name == "dispatch" else samples)] = _IDLE[kind]
        if kind in _IDLE and self.output == "dispatch":
            made["dispatch_before"] = _HELD.drawn(draw, dtype, self.shape("dispatch", p), kind.removeprefix("idle_"))
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


def moe_space(*, fits: bool = False, gates: tuple[str, ...] = get_args(Gates), **others: Any) -> Space:
    """What the recipes draw; a device may take subnormal floats for 0."""
    kinds = tuple(kind for kind in get_args(Values) if kind not in SUBNORMAL)

    def draw(at: Mapping[str, Any]) -> Drawn | None:
        params = {name: at[name] for name in FIELDS}
        slots, what = at["capacity"] * at["num_experts"], at["what"]
        if at["samples"] > slots and (fits or at["where"] == "distinct"):
            return None
        if what in SPECIAL:
            return Drawn("special", params, {"kind": what})
        if what in others:
            return Drawn(what, params, others[what])
        return Drawn("routed", params, {"values": what, "where": at["where"], "gates": at["gates"]})

    return Space(
        axes={
            "samples": Sizes(1, 2049),
            "capacity": Sizes(1, 1025),
            "hidden": Sizes(1, 257),
            "num_experts": Sizes(1, 9),
            "where": Choice(get_args(Where)),
            "gates": Choice(gates),
            "what": Choice((*kinds, *SPECIAL, *others)),
        },
        draw=draw,
        elements=lambda at: at["hidden"] * (2 * at["samples"] + at["capacity"] * at["num_experts"]) + 3 * at["samples"],
    )
