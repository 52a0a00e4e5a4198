"""Where the active sites of a case lie."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from mluops_gtest.authoring import Array, Draw, DType, RecipeOutput

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


RECIPES = {recipe.__name__: recipe for recipe in (cloud, scattered, block, everywhere, at_bounds, listed)}
