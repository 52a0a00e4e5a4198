"""Where the active sites of a case lie."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, OpCall, RecipeOutput
from mluops_gtest.authoring.reductions import Reduction, changed, without_rows
from mluops_gtest.authoring.space import Choice, Drawn, Sizes, Space

from .._shared.clouds import nearest_sites, network_layer, random_sites, small_layer
from .._shared.sparse import Geometry, derive_output_space, find_pairs, refuse_lonely
from . import geometry_of

Params = Mapping[str, Any]

_ONES = (1, 1, 1)
# What an output space is derived from.
_FIT = ("input_space", "filter_space", "stride", "pad", "dilation")


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
        refuse_lonely(find_pairs(indices, geometry_of(full)).indice_num.tolist())
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
    space = derive_output_space(*(full[name] for name in _FIT))
    if min(space) < 1:
        raise ValueError(f"the kernel does not fit: the output space would be {space}; give output_space or more pad")
    return space


def _params_of(geometry: Geometry) -> dict[str, Any]:
    own = asdict(geometry)
    return complete({"filter_space": own.pop("kernel"), **own, "sub_m": int(geometry.sub_m)})


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
)


# How a call becomes smaller: fewer sites and batches, smaller spaces and kernels, plain strides.


def _reduced(call: OpCall, sites: Array, *, spare_lost: int = 0, **params: Any) -> RecipeOutput | None:
    """The output space and the output dims follow; out_indices keeps its spare rows.

    None where no batch or no length is left.
    """
    full = {**(call.params or {}), **params}
    if full["batch"] < 1 or any(min(full[name]) < 1 for name in ("input_space", "filter_space", "stride", "dilation")):
        return None
    full["output_space"] = full["input_space"] if full["sub_m"] else derive_output_space(*(full[name] for name in _FIT))
    if min(full["output_space"]) < 1:
        return None
    spare = _spare_rows(call) - spare_lost
    rows = {"out_indices": (_count_outputs(sites, full) + spare, 4)} if spare else {}
    return changed(call, {"indices": sites}, full, rows, derived=("out_indices", "indice_pairs", "indice_num"))


def _count_outputs(sites: Array, params: Params) -> int:
    return len(find_pairs(sites, geometry_of(params)).out_indices)


def _spare_rows(call: OpCall) -> int:
    """Rows of out_indices that no output needs."""
    return call.tensor("out_indices").dims[0] - _count_outputs(call.array("indices"), call.params or {})


def _without_cells(call: OpCall, column: int, start: int, stop: int) -> Array:
    """The sites there are lost, those behind move up."""
    sites = call.array("indices")
    left = sites[(sites[:, column] < start) | (sites[:, column] >= stop)]
    left[:, column] -= np.where(left[:, column] >= stop, np.int32(stop - start), np.int32(0))
    return left


def _entry(name: str, axis: int) -> Reduction:
    """One entry of a parameter; where it is an axis of the input space, its sites go with it."""

    def without(call: OpCall, start: int, stop: int) -> RecipeOutput | None:
        values = call.param(name)
        less: dict[str, Any] = {name: (*values[:axis], values[axis] - (stop - start), *values[axis + 1 :])}
        is_space = name == "input_space"
        return _reduced(
            call, _without_cells(call, axis + 1, start, stop) if is_space else call.array("indices"), **less
        )

    return Reduction(lambda call: int(call.param(name)[axis]), without)


_ENTRIES = {"space": "input_space", "kernel": "filter_space", "pad": "pad", "stride": "stride", "dilation": "dilation"}
REDUCTIONS = {
    "spare_rows": Reduction(
        _spare_rows, lambda call, start, stop: _reduced(call, call.array("indices"), spare_lost=stop - start)
    ),
    "sites": Reduction(
        lambda call: call.tensor("indices").dims[0],
        lambda call, start, stop: _reduced(call, without_rows(call.array("indices"), start, stop)),
    ),
    "batches": Reduction(
        lambda call: int(call.param("batch")),
        lambda call, start, stop: _reduced(
            call, _without_cells(call, 0, start, stop), batch=call.param("batch") - stop + start
        ),
    ),
    **{f"{word}_{letter}": _entry(name, axis) for word, name in _ENTRIES.items() for axis, letter in enumerate("dhw")},
}

RECIPES = {recipe.__name__: recipe for recipe in (cloud, scattered, block, everywhere, at_bounds, listed)}
