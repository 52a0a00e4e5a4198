"""Mistakes in which sites meet: axes, windows, edges, samples."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall

from .plain import Plain

_AXES = ("depth", "height", "width")


def _variant(name: str, message: str, **steps: Callable[..., Any]) -> Mutant:
    """Plain with these steps exchanged; each gets Plain's own answer as its last argument."""

    def step(method: str, wrong: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, *args: wrong(*args, getattr(Plain, method)(self, *args))

    methods = {f"_{key}": step(f"_{key}", wrong) for key, wrong in steps.items()}
    return Mutant(name, message, type("_Wrong", (Plain,), methods)().run)


def _reversed(_call: OpCall, right: Any) -> Any:
    return right[::-1]


def _of_depth(_call: OpCall, right: Any) -> Any:
    return (right[0],) * 3


def _without_edge(axis: int) -> Callable[..., Array]:
    """The upper end of one axis is not looked at."""

    def inside(_call: OpCall, site: Array, right: Array) -> Array:
        wide = right.copy()
        wide[:, axis] = site[:, axis] >= 0
        return wide

    return inside


def _one_too_far(call: OpCall, site: Array, right: Array) -> Any:
    return right | (site == call.param("output_space"))


def _without_first(_call: OpCall, site: Array, right: Array) -> Array:
    return right & (site > 0)


def _without_last(call: OpCall, site: Array, right: Array) -> Any:
    return right & (site < np.subtract(call.param("output_space"), 1))


def _input_space(call: OpCall, site: Array, _right: Array) -> Any:
    both = np.minimum(call.param("output_space"), call.param("input_space"))
    return (site >= 0) & (site < both)


def _until_outside(_call: OpCall, rows: Array, _right: Array) -> Any:
    return rows[rows == np.arange(len(rows))]


def _one_sample(which: Callable[[Array], Any]) -> Callable[..., Array]:
    """Only sites of samples that are not left out."""

    def handled(call: OpCall, rows: Array, _right: Array) -> Array:
        samples = call.array("indices")[:, 0]
        return rows[samples[rows] != which(samples)] if samples.min() != samples.max() else rows

    return handled


def _in_bits(dtype: type[np.generic]) -> Callable[..., Array]:
    """Coordinates are kept in a narrow type on the way to their key."""

    def keys(call: OpCall, batch: Array, site: Array, _right: Array) -> Array:
        return Plain()._keys(call, batch, site.astype(dtype).astype(np.int64))

    return keys


def _hashed(_call: OpCall, _batch: Array, _site: Array, right: Array) -> Array:
    # A prime, so that neighbours do not collide.
    return right % 1021


WRONG_GEOMETRY = (
    _variant("pad_reversed", "reads pad as width, height, depth", pad=_reversed),
    _variant("stride_reversed", "reads stride as width, height, depth", stride=_reversed),
    _variant("dilation_reversed", "reads dilation as width, height, depth", dilation=_reversed),
    _variant("space_reversed", "reads output_space as width, height, depth", space=_reversed),
    _variant("pad_of_depth", "takes the pad of the depth for every axis", pad=_of_depth),
    _variant("stride_of_depth", "takes the stride of the depth for every axis", stride=_of_depth),
    _variant("dilation_of_depth", "takes the dilation of the depth for every axis", dilation=_of_depth),
    _variant("pad_ignored", "moves nothing by the pad", pad=lambda _call, _right: (0, 0, 0)),
    _variant("pad_subtracted", "moves sites by the pad in the wrong direction", pad=lambda _, pad: np.negative(pad)),
    _variant("stride_ignored", "takes every place for an output", stride=lambda _call, _right: (1, 1, 1)),
    _variant("window_mirrored", "counts offsets from the far end of the window", offsets=_reversed),
    *(
        _variant(f"{name}_unbounded", f"does not look whether an output lies behind the end of the {name}", inside=edge)
        for name, edge in zip(_AXES, map(_without_edge, range(3)), strict=True)
    ),
    _variant("one_too_far", "takes coordinates up to the length of an axis, the length included", inside=_one_too_far),
    _variant("no_first_cell", "wants coordinates above 0", inside=_without_first),
    _variant("no_last_cell", "stops one cell before the end of every axis", inside=_without_last),
    _variant("input_bounded", "keeps outputs within the input space, too", inside=_input_space),
    _variant("until_outside", "ends an offset at the first site that meets nothing", handled=_until_outside),
    _variant("first_sample_lost", "looks at no site of the first sample", handled=_one_sample(np.min)),
    _variant("last_sample_lost", "looks at no site of the last sample", handled=_one_sample(np.max)),
    _variant("byte_coordinates", "keeps coordinates in 8 bits", keys=_in_bits(np.uint8)),
    _variant("short_coordinates", "keeps coordinates in 16 bits", keys=_in_bits(np.int16)),
    _variant("hash_alone", "takes sites of one hash for one site", keys=_hashed),
)
