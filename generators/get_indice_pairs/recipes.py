"""Where the active sites of a case lie."""

import itertools
import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, OpCall, RecipeOutput
from mluops_gtest.authoring.reductions import Reduction, changed, without_rows
from mluops_gtest.authoring.space import Choice, Drawn, InStep, Sizes, Space

from .._shared.clouds import nearest_sites, network_layer, random_sites, small_layer
from .._shared.sparse import Geometry, derive_output_space, find_pairs, refuse_lonely

Params = Mapping[str, Any]

_ONES = (1, 1, 1)


def cloud(draw: Draw, params: Params, dtype: DType, *, layer: str, keep: int = 0) -> RecipeOutput:
    """The sites of a network layer; `keep` makes its twin: that many neighbouring sites of a coarser sweep."""
    del dtype
    if params:
        raise ValueError(f"a cloud brings its own parameters; remove {', '.join(params)}")
    indices, geometry = small_layer(layer, draw) if keep else network_layer(layer, draw)
    return RecipeOutput({"indices": nearest_sites(indices, keep) if keep else indices}, _params_of(geometry))


def scattered(draw: Draw, params: Params, dtype: DType, *, sites: int, ascending: bool = False) -> RecipeOutput:
    """Sites anywhere in the input space, in random order or ascending."""
    del dtype
    full = complete(params)
    indices = random_sites(draw.stream("indices"), full["batch"], full["input_space"], sites)
    if full["sub_m"] and sites > 1:
        refuse_lonely(find_pairs(indices, _geometry_of(full)).indice_num.tolist())
    return RecipeOutput({"indices": _ascending(indices) if ascending else indices}, full)


def block(
    draw: Draw, params: Params, dtype: DType, *, first: tuple[int, ...], size: tuple[int, ...], shuffled: bool = False
) -> RecipeOutput:
    """All sites of a box (n, d, h, w), ascending or in random order."""
    del dtype
    full = complete(params)
    shape = (full["batch"], *full["input_space"])
    if any(f < 0 or n < 1 or f + n > limit for f, n, limit in zip(first, size, shape, strict=True)):
        raise ValueError(f"the box of {size} at {first} leaves the space {shape}")
    indices = np.indices(size).reshape(4, -1).T + np.array(first)
    return RecipeOutput({"indices": _shuffled(indices, draw) if shuffled else indices.astype("<i4")}, full)


def everywhere(draw: Draw, params: Params, dtype: DType, *, shuffled: bool = False) -> RecipeOutput:
    """Every cell of the input space is active."""
    full = complete(params)
    shape = (full["batch"], *full["input_space"])
    return block(draw, params, dtype, first=(0, 0, 0, 0), size=shape, shuffled=shuffled)


def at_bounds(draw: Draw, params: Params, dtype: DType, *, margin: int = 1) -> RecipeOutput:
    """Sites whose every coordinate is within `margin` cells of the lower or the upper bound, in random order."""
    del dtype
    full = complete(params)
    shape = (full["batch"], *full["input_space"])
    near = (sorted({*range(min(margin, n)), *range(max(n - margin, 0), n)}) for n in shape)
    return RecipeOutput({"indices": _shuffled(np.array(list(itertools.product(*near))), draw)}, full)


def listed(draw: Draw, params: Params, dtype: DType, *, sites: tuple[int, ...]) -> RecipeOutput:
    """Exactly these sites: n, d, h, w of the first, then of the next."""
    del draw, dtype
    full = complete(params)
    indices = np.array(sites, "<i4").reshape(-1, 4)
    shape = (full["batch"], *full["input_space"])
    if (indices < 0).any() or (indices >= shape).any() or len(np.unique(indices, axis=0)) != len(indices):
        raise ValueError(f"sites must be distinct and inside {shape}")
    return RecipeOutput({"indices": indices}, full)


def complete(params: Params) -> dict[str, Any]:
    """All parameters: absent ones are plain, and the output space is derived (sub_m: the input space)."""
    missing = {"input_space", "filter_space"} - set(params)
    if missing:
        raise ValueError(f"params must give {' and '.join(sorted(missing))}")
    full = {"dimnb": 5, "batch": 1, "pad": (0, 0, 0), "stride": _ONES, "dilation": _ONES, "sub_m": 0, **params}
    if "output_space" not in full:
        # sub_m: never derived, whatever the pad; the window is shifted and the rule holds (§1.2).
        full["output_space"] = full["input_space"] if full["sub_m"] else _derived(full)
    order = ("dimnb", "batch", "pad", "stride", "dilation", "input_space", "filter_space", "output_space", "sub_m")
    return {**{name: full.pop(name) for name in order}, "transpose": 0, "inverse": 0, **full}


def _derived(full: Params) -> tuple[int, int, int]:
    names = ("input_space", "filter_space", "stride", "pad", "dilation")
    space = derive_output_space(*(full[name] for name in names))
    if min(space) < 1:
        raise ValueError(f"the kernel does not fit: the output space would be {space}; give output_space or more pad")
    return space


def _geometry_of(full: Params) -> Geometry:
    names = ("batch", "input_space", "filter_space", "stride", "pad", "dilation", "output_space", "sub_m")
    return Geometry(*(full[name] for name in names))


def _params_of(geometry: Geometry) -> dict[str, Any]:
    return complete(
        {
            "batch": geometry.batch,
            "pad": geometry.pad,
            "stride": geometry.stride,
            "dilation": geometry.dilation,
            "input_space": geometry.input_space,
            "filter_space": geometry.kernel,
            "output_space": geometry.output_space,
            "sub_m": int(geometry.sub_m),
        }
    )


def _shuffled(indices: Array, draw: Draw) -> Array:
    return indices[draw.stream("rows").permutation(len(indices))].astype("<i4")


def _ascending(indices: Array) -> Array:
    return indices[np.lexsort(indices.T[::-1])]


# What fuzzing draws: sites anywhere in small and long spaces, kernels with every stride, pad and dilation.


_KERNELS = ((3, 3, 3), (1, 1, 1), (2, 2, 2), (1, 1, 3), (3, 1, 1), (1, 2, 3), (5, 1, 1), (4, 3, 2))
_STEPS = ((1, 1, 1), (2, 2, 2), (1, 2, 1), (3, 1, 2))
_PADS = ((0, 0, 0), (1, 1, 1), (0, 1, 2), (2, 2, 2))
_AXES = ("depth", "height", "width")
# Of coordinates that neither a byte nor 16 bits hold.
_LONG = 256
_MAX_CELLS = 1 << 17
# Entries of the parameters are 32 bits wide.
_MOST = 2**31 - 1


def draw(at: Mapping[str, Any]) -> Drawn | None:
    """Sites of one of the recipes in a space of these axes."""
    space = _space(at)
    params: dict[str, Any] = {
        "batch": at["batch"],
        "input_space": space,
        "filter_space": at["kernel"],
        "pad": at["pad"],
    }
    if at["sub_m"]:
        params["sub_m"] = 1
    else:
        # No axis has both (§1.4).
        dilation = tuple(d if s == 1 else 1 for d, s in zip(at["dilation"], at["stride"], strict=True))
        params |= {"stride": at["stride"], "dilation": dilation}
    args: dict[str, Any] = {}
    match at["what"]:
        case "scattered":
            if at["sites"] > at["batch"] * math.prod(space):
                return None
            args = {"sites": at["sites"], "ascending": at["ascending"]}
        case "everywhere":
            if math.prod(space) > _MAX_CELLS:
                return None
            args = {"shuffled": not at["ascending"]}
    return Drawn(at["what"], params, args)


def _space(at: Mapping[str, Any]) -> tuple[int, ...]:
    """The axes as drawn; beside a long one the others are short, since references look at every cell."""
    if at["width"] > _LONG:
        return (1, min(at["height"], 2), at["width"])
    return tuple(at[name] for name in _AXES)


def elements(at: Mapping[str, Any]) -> int:
    """Sites and pairs; where every cell is one, those of the whole space."""
    cells = int(at["batch"] * math.prod(_space(at)))
    sites = cells if at["what"] == "everywhere" else min(cells, at["sites"])
    return int(sites * (8 + 3 * math.prod(at["kernel"])))


SPACE = Space(
    axes={
        "batch": Sizes(1, 4),
        "depth": Sizes(1, 33),
        "height": Sizes(1, 65),
        "width": Sizes(1, 65_537),
        "sites": Sizes(1, 1025),
        "kernel": Choice(_KERNELS),
        "stride": Choice(_STEPS),
        "dilation": Choice(_STEPS),
        "pad": Choice(_PADS),
        "sub_m": Choice((0, 1)),
        "ascending": Choice((False, True)),
        "what": Choice(("scattered", "everywhere", "at_bounds")),
    },
    draw=draw,
    elements=elements,
    limits=(4097, 1_000_001),
    in_step={"K": lambda _call, size: InStep(params={"filter_space": (min(size, _MOST), 1, 1)})},
)


# How a call becomes smaller: fewer sites and batches, smaller spaces and kernels, plain strides.


_SPACE_AXES = {"d": 0, "h": 1, "w": 2}
_OUTPUTS = ("out_indices", "indice_pairs", "indice_num")


def _reduced(call: OpCall, sites: Array, *, spare_lost: int = 0, **params: Any) -> RecipeOutput | None:
    """The output space and the output dims follow; out_indices keeps its spare rows.

    None where no batch or no length is left.
    """
    spare = _spare_rows(call) - spare_lost
    full = {**(call.params or {}), **params}
    if full["batch"] < 1 or any(min(full[name]) < 1 for name in ("input_space", "filter_space", "stride", "dilation")):
        return None
    derived = (full[name] for name in ("input_space", "filter_space", "stride", "pad", "dilation"))
    full["output_space"] = full["input_space"] if full["sub_m"] else derive_output_space(*derived)
    if min(full["output_space"]) < 1:
        return None
    rows = {"out_indices": (_outputs(sites, full) + spare, 4)} if spare else {}
    return changed(call, {"indices": sites}, full, rows, derived=_OUTPUTS)


def _outputs(sites: Array, params: Mapping[str, Any]) -> int:
    geometry = Geometry(
        params["batch"],
        params["input_space"],
        params["filter_space"],
        params["stride"],
        params["pad"],
        params["dilation"],
        params["output_space"],
        sub_m=bool(params["sub_m"]),
    )
    return len(find_pairs(sites, geometry).out_indices)


def _spare_rows(call: OpCall) -> int:
    """Rows of out_indices that no output needs."""
    return call.tensor("out_indices").dims[0] - _outputs(call.array("indices"), call.params or {})


def _without_sites(call: OpCall, start: int, stop: int) -> RecipeOutput | None:
    return _reduced(call, without_rows(call.array("indices"), start, stop))


def _without_batches(call: OpCall, start: int, stop: int) -> RecipeOutput | None:
    return _reduced(
        call, _without_cells(call.array("indices"), 0, start, stop), batch=call.param("batch") - stop + start
    )


def _without_planes(call: OpCall, start: int, stop: int, *, axis: int) -> RecipeOutput | None:
    sites = _without_cells(call.array("indices"), axis + 1, start, stop)
    return _reduced(call, sites, input_space=_lowered(call.param("input_space"), axis, stop - start))


def _without_cells(sites: Array, column: int, start: int, stop: int) -> Array:
    """The sites there are lost, those behind move up."""
    left = sites[(sites[:, column] < start) | (sites[:, column] >= stop)]
    left[:, column] -= np.where(left[:, column] >= stop, np.int32(stop - start), np.int32(0))
    return left


def _with_less(call: OpCall, start: int, stop: int, *, name: str, axis: int) -> RecipeOutput | None:
    params: dict[str, Any] = {name: _lowered(call.param(name), axis, stop - start)}
    return _reduced(call, call.array("indices"), **params)


def _lowered(values: tuple[int, ...], axis: int, by: int) -> tuple[int, ...]:
    return (*values[:axis], values[axis] - by, *values[axis + 1 :])


def _length(call: OpCall, *, name: str, axis: int) -> int:
    return int(call.param(name)[axis])


def _lowering(name: str) -> dict[str, Reduction]:
    word = "kernel" if name == "filter_space" else name
    return {
        f"{word}_{letter}": Reduction(partial(_length, name=name, axis=axis), partial(_with_less, name=name, axis=axis))
        for letter, axis in _SPACE_AXES.items()
    }


REDUCTIONS = {
    "spare_rows": Reduction(
        _spare_rows, lambda call, start, stop: _reduced(call, call.array("indices"), spare_lost=stop - start)
    ),
    "sites": Reduction(lambda call: call.tensor("indices").dims[0], _without_sites),
    "batches": Reduction(lambda call: int(call.param("batch")), _without_batches),
    **{
        f"space_{letter}": Reduction(
            partial(_length, name="input_space", axis=axis), partial(_without_planes, axis=axis)
        )
        for letter, axis in _SPACE_AXES.items()
    },
    **_lowering("filter_space"),
    **_lowering("pad"),
    **_lowering("stride"),
    **_lowering("dilation"),
}


RECIPES = {recipe.__name__: recipe for recipe in (cloud, scattered, block, everywhere, at_bounds, listed)}
