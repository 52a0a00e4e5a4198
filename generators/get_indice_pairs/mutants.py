"""Implementations with one plausible mistake each: the search step by step, of which every mistake replaces one."""

import itertools
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status
from mluops_gtest.authoring.mistakes import cached_by_shape, input_cleared, left, spoilt, sum_goes_on

from .._shared.sparse import derive_output_space

# wrong(call, what the right step says, *what the step was made from).
Wrong = Callable[..., Any]


def write(call: OpCall, /, **wrong: Wrong) -> Status:
    """Write all outputs of a valid call; the steps that are named go wrong."""

    def step(name: str, right: Any, *made_from: Any) -> Any:
        return wrong[name](call, right, *made_from) if name in wrong else right

    def keys(batch: Array, site: Array) -> Any:
        return step("keys", _linear(call, batch, site), batch, site)

    indices = call.array("indices").astype(np.int64)
    pad, stride, dilation, space = (
        step(name, call.param(name)) for name in ("pad", "stride", "dilation", "output_space")
    )
    met = []
    for offset in step("offsets", list(itertools.product(*map(range, call.param("filter_space"))))):
        place = indices[:, 1:] + pad - np.multiply(offset, dilation)
        site, rest = np.divmod(place, stride)
        site, is_whole = step("division", (site, rest == 0), place, stride)
        is_inside = step("inside", (site >= 0) & (site < space), site)
        rows = step("handled", np.flatnonzero(np.all(is_whole & is_inside, axis=1)))
        met.append((rows, site[rows], keys(indices[rows, 0], site[rows])))
    rows, sites, found = (np.concatenate(parts) for parts in zip(*met, strict=True))
    all_met = found, np.column_stack([indices[rows, 0], sites])
    distinct, first = np.unique(found, return_index=True)
    outputs = (keys(indices[:, 0], indices[:, 1:]), indices) if call.param("sub_m") else (distinct, all_met[1][first])
    out_keys, out_sites = step("outputs", outputs, all_met, first)
    pairs = call.array("indice_pairs")
    pairs[...] = step("unused", -1)
    for k, (in_rows, _, key) in enumerate(met):
        out_rows = _rows_of(out_keys, key)
        pair = step("order", np.stack([in_rows, out_rows])[:, out_rows >= 0])
        call.array("indice_num")[k] = pair.shape[1]
        pairs[k, :, : pair.shape[1]] = pair
    room = call.array("out_indices")
    room[: len(out_sites)] = out_sites[: len(room)]
    call.scalars["num_act_out"] = step("count", len(out_sites))
    return Status.SUCCESS


def _linear(call: OpCall, batch: Array, site: Array, axes: tuple[int, ...] = (0, 1, 2)) -> Array:
    """A number per site that is larger for a later one."""
    key = batch
    for axis in axes:
        key = key * call.param("output_space")[axis] + site[:, axis]
    return key


def _rows_of(out_keys: Array, keys: Array) -> Array:
    """The row of each key among the outputs, −1 where it is none of them."""
    if not len(out_keys):
        return np.full(len(keys), -1)
    order = np.argsort(out_keys, kind="stable")
    place = np.searchsorted(out_keys, keys, sorter=order).clip(max=len(out_keys) - 1)
    rows = order[place]
    return np.where(out_keys[rows] == keys, rows, -1)


def _reversed(_call: OpCall, right: Any) -> Any:
    return right[::-1]


def _of_depth(_call: OpCall, right: Any) -> Any:
    return (right[0],) * 3


# Which places of the input an output looks at.


def _centred(call: OpCall, pad: Any) -> Any:
    return tuple(length // 2 for length in call.param("filter_space")) if call.param("sub_m") else pad


def _derived(call: OpCall, space: Any) -> Any:
    names = ("input_space", "filter_space", "stride", "pad", "dilation")
    return np.minimum(derive_output_space(*map(call.param, names)), space)


def _by_reciprocal(_call: OpCall, _right: Any, place: Array, stride: Any) -> Any:
    quotient = place.astype(np.float32) * (np.float32(1) / np.array(stride, np.float32))
    return quotient.astype(np.int64), quotient == np.floor(quotient)


_PARAMETERS: Mapping[str, Mapping[str, Wrong]] = {
    "pad": {
        "pad_reversed: reads pad as width, height, depth": _reversed,
        "pad_of_depth: takes the pad of the depth for every axis": _of_depth,
        "pad_ignored: moves nothing by the pad": lambda _call, _pad: (0, 0, 0),
        "pad_subtracted: moves sites by the pad in the wrong direction": lambda _call, pad: np.negative(pad),
        "sub_m_centred: pads sub_m by half of the kernel, whatever pad is given": _centred,
    },
    "stride": {
        "stride_reversed: reads stride as width, height, depth": _reversed,
        "stride_of_depth: takes the stride of the depth for every axis": _of_depth,
        "stride_ignored: takes every place for an output": lambda _call, _stride: (1, 1, 1),
    },
    "dilation": {
        "dilation_reversed: reads dilation as width, height, depth": _reversed,
        "dilation_of_depth: takes the dilation of the depth for every axis": _of_depth,
        "dilation_ignored: takes neighbouring offsets for neighbouring cells": lambda _call, _dilation: (1, 1, 1),
    },
    "output_space": {
        "space_reversed: reads output_space as width, height, depth": _reversed,
        "space_derived: derives the output space from the pad, although it is given": _derived,
    },
    "offsets": {
        "window_mirrored: counts offsets from the far end of the window": _reversed,
        "depth_fastest: numbers kernel offsets from the depth on instead of from the width on": (
            lambda _call, offsets: sorted(offsets, key=lambda offset: offset[::-1])
        ),
    },
    "division": {
        "plain_division: takes §3.2's formula alone, the division without the test that nothing is left over": (
            lambda _call, _right, place, stride: (np.fix(place / np.array(stride)).astype(np.int64), True)
        ),
        "reciprocal_division: multiplies by the float32 reciprocal of the stride": _by_reciprocal,
    },
}


# Which sites meet: edges, samples, tiles.


def _without_edge(axis: int) -> Wrong:
    return lambda _call, right, site: np.where(np.arange(3) == axis, site >= 0, right)


def _within_input(call: OpCall, right: Array, site: Array) -> Any:
    return right & (site < call.param("input_space"))


def _one_sample(which: Callable[[Array], Any]) -> Wrong:
    """Only sites of samples that are not left out."""

    def handled(call: OpCall, rows: Array) -> Array:
        samples = call.array("indices")[:, 0]
        return rows[samples[rows] != which(samples)] if samples.min() != samples.max() else rows

    return handled


def _whole_tiles(tile: int) -> Wrong:
    """Sites behind the last whole tile are not looked at; fewer than a tile are."""

    def handled(call: OpCall, rows: Array) -> Array:
        sites = call.tensor("indices").dims[0]
        return rows[rows < sites // tile * tile] if sites > tile else rows

    return handled


_MET: Mapping[str, Mapping[str, Wrong]] = {
    "inside": {
        **{
            f"{name}_unbounded: does not look whether an output lies behind the end of the {name}": _without_edge(axis)
            for axis, name in enumerate(("depth", "height", "width"))
        },
        "one_too_far: takes coordinates up to the length of an axis, the length included": (
            lambda call, right, site: right | (site == call.param("output_space"))
        ),
        "no_first_cell: wants coordinates above 0": lambda _call, right, site: right & (site > 0),
        "no_last_cell: stops one cell before the end of every axis": (
            lambda call, right, site: right & (site < np.subtract(call.param("output_space"), 1))
        ),
        "input_bounded: keeps outputs within the input space, too": _within_input,
    },
    "handled": {
        "until_outside: ends an offset at the first site that meets nothing": (
            lambda _call, rows: rows[rows == np.arange(len(rows))]
        ),
        "first_sample_lost: looks at no site of the first sample": _one_sample(np.min),
        "last_sample_lost: looks at no site of the last sample": _one_sample(np.max),
        "first_site_lost: looks at all sites but the first": lambda _call, rows: rows[rows != 0],
        "last_site_lost: looks at all sites but the last": (
            lambda call, rows: rows[rows != call.tensor("indices").dims[0] - 1]
        ),
        # Stored cases have fewer sites than larger tiles.
        **{
            f"site_tail_{tile}: looks at no site behind a multiple of {tile}": _whole_tiles(tile)
            for tile in (16, 32, 64, 128)
        },
    },
}


# Which outputs there are, in which order.


def _within_sample(call: OpCall, right: Array, batch: Array, _site: Array) -> Any:
    return right - batch * int(np.prod(call.param("output_space")))


def _batch_fastest(call: OpCall, right: Array, batch: Array, site: Array) -> Any:
    return _within_sample(call, right, batch, site) * call.param("batch") + batch


# Keys and sites (n, d, h, w), in order; a key for each of the sites.
Outputs = tuple[Array, Array]


def _at(outputs: Outputs, places: Any) -> Outputs:
    return outputs[0][places], outputs[1][places]


def _by_key(outputs: Outputs) -> Outputs:
    return _at(outputs, np.argsort(outputs[0], kind="stable"))


_OUTPUTS: Mapping[str, Mapping[str, Wrong]] = {
    "keys": {
        "byte_coordinates: keeps coordinates in 8 bits": (
            lambda call, _right, batch, site: _linear(call, batch, site.astype(np.uint8))
        ),
        "short_coordinates: keeps coordinates in 16 bits": (
            lambda call, _right, batch, site: _linear(call, batch, site.astype(np.int16))
        ),
        "hash_alone: takes sites of one hash for one site": lambda _call, right, *_: right % 1021,
        "narrow_keys: keeps linear indices in int32, which wrap where the space passes 2^31 cells": (
            lambda _call, right, *_: right.astype(np.int32)
        ),
        "float_keys: keeps linear indices in float32, which merges neighbours beyond 2^24 cells": (
            lambda _call, right, *_: right.astype(np.float32)
        ),
        "height_fastest: sorts outputs with height and width exchanged": (
            lambda call, _right, batch, site: _linear(call, batch, site, (0, 2, 1))
        ),
        "batch_ignored: takes sites of different samples for one": _within_sample,
        "batch_fastest: sorts outputs by their place, and by their sample last": _batch_fastest,
    },
    "outputs": {
        "last_output_dropped: takes the last distinct output for a mark of invalid slots": (
            lambda call, right, *_: right if call.param("sub_m") else _at(right, slice(-1))
        ),
        "room_for_inputs: has space for no more outputs than inputs": (
            lambda call, right, *_: _at(right, slice(len(call.array("indices"))))
        ),
        "outputs_twice: two threads that find one output both add it": (
            lambda call, right, met, _first: right if call.param("sub_m") else _by_key(met)
        ),
        "sub_m_as_default: every output counts with sub_m, not the active ones alone": (
            lambda _call, _right, met, first: _at(met, first)
        ),
        "sub_m_sorted: sorts the outputs of sub_m instead of keeping the order of the inputs": (
            lambda _call, right, *_: _by_key(right)
        ),
        "first_seen_order: keeps outputs in the order in which they are met first": (
            lambda call, right, met, first: right if call.param("sub_m") else _at(met, np.sort(first))
        ),
    },
    "order": {
        "by_output_row: writes the pairs of an offset ascending by output row instead of by input row": (
            lambda _call, pair: pair[:, np.argsort(pair[1], kind="stable")]
        ),
    },
    "unused": {"zero_tails: writes zeros instead of −1 behind the pairs of an offset": lambda _call, _right: 0},
    "count": {
        "counts_the_buffer: takes num_act_out from the room in out_indices": (
            lambda call, _right: len(call.array("out_indices"))
        ),
        "counts_the_inputs: takes num_act_out from the number of inputs": (
            lambda call, _right: call.tensor("indices").dims[0]
        ),
    },
}


# What is written of the sites that meet, and what an earlier call left.


def _batch_last(call: OpCall) -> None:
    made = call.array("out_indices")[: call.scalars["num_act_out"]]
    made[...] = np.roll(made, -1, axis=1)


def _lose_last_offset(call: OpCall) -> None:
    call.array("indice_num")[-1], call.array("indice_pairs")[-1] = 0, -1


def _changed(output: str, change: Callable[[Array], Array]) -> Callable[[OpCall], None]:
    def spoil(call: OpCall) -> None:
        call.array(output)[...] = change(call.array(output).copy())

    return spoil


def _zero_output_tails(pairs: Array) -> Array:
    return np.where((pairs < 0) & (np.arange(2)[:, None] == 1), 0, pairs)


def _no_tail(call: OpCall) -> Array:
    pairs = call.array("indice_pairs")
    return np.broadcast_to(np.arange(pairs.shape[2]) >= call.array("indice_num")[:, None, None], pairs.shape)


def _with_sub_m(change: Callable[[Array, Array, int], None]) -> Callable[[OpCall], None]:
    def spoil(call: OpCall) -> None:
        if call.param("sub_m"):
            counts = call.array("indice_num")
            change(call.array("indice_pairs"), counts, len(counts) // 2)

    return spoil


def _centre_lost(pairs: Array, counts: Array, middle: int) -> None:
    pairs[middle], counts[middle] = -1, 0


def _centre_of_all(pairs: Array, counts: Array, middle: int) -> None:
    pairs[middle], counts[middle] = np.arange(pairs.shape[2]), pairs.shape[2]


def _symmetric(pairs: Array, counts: Array, middle: int) -> None:
    # True of a window that is centred, and of no other.
    for k in range(middle):
        pairs[-1 - k], counts[-1 - k] = pairs[k, ::-1], counts[k]


_SPOILT: Mapping[str, Callable[[OpCall], None]] = {
    "rows_exchanged: writes the output row of a pair in front of the input row": (
        _changed("indice_pairs", lambda pairs: pairs[:, ::-1])
    ),
    "pairs_interleaved: writes the two rows of each pair side by side": (
        _changed("indice_pairs", lambda pairs: pairs.transpose(0, 2, 1).reshape(pairs.shape))
    ),
    "byte_rows: keeps row numbers in 8 bits": (
        _changed("indice_pairs", lambda pairs: np.where(pairs < 0, pairs, pairs.astype(np.uint8)))
    ),
    "zero_output_tails: marks unused input rows alone with −1, output rows with 0": (
        _changed("indice_pairs", _zero_output_tails)
    ),
    "counts_added_up: writes where the pairs of an offset end instead of how many there are": (
        _changed("indice_num", np.cumsum)
    ),
    "byte_counts: counts the pairs of an offset in 8 bits": (
        _changed("indice_num", lambda counts: counts.astype(np.int8))
    ),
    "batch_last: writes out_indices as d, h, w, n": _batch_last,
    "last_offset_lost: stops before the last offset": _lose_last_offset,
    "sub_m_centre_lost: finds no pairs for the middle offset with sub_m": _with_sub_m(_centre_lost),
    "sub_m_centre_of_all: pairs every site with itself in the middle with sub_m": _with_sub_m(_centre_of_all),
    "sub_m_symmetric: exchanges the pairs of k for K − 1 − k with sub_m": _with_sub_m(_symmetric),
}


def _of_step(words: str, step: str, wrong: Wrong) -> Mutant:
    name, _, message = words.partition(": ")
    return Mutant(name, message, partial(write, **{step: wrong}))


def _of_buffers(words: str, spoil: Callable[[OpCall], None]) -> Mutant:
    name, _, message = words.partition(": ")
    return spoilt(name, message, write, spoil)


def _of_none(call: OpCall) -> Array:
    return np.asarray(call.array("indice_num") == 0)


_STEPS = {**_PARAMETERS, **_MET, **_OUTPUTS}
MUTANTS = (
    *(_of_step(words, step, wrong) for step, mistakes in _STEPS.items() for words, wrong in mistakes.items()),
    *(_of_buffers(words, spoil) for words, spoil in _SPOILT.items()),
    left("tails_left", "does not write −1 behind the pairs of an offset", write, "indice_pairs", _no_tail),
    left("counts_of_none_left", "does not write a count of 0", write, "indice_num", _of_none),
    input_cleared(write, "indices"),
    cached_by_shape(write),
    sum_goes_on(write, "indice_num"),
)
