"""Implementations with one plausible mistake each; Plain has none, and every other overrides one step of it."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from mluops_gtest.authoring import Array, Mutant, OpCall, Status
from mluops_gtest.authoring.mistakes import cached_by_shape, input_cleared, left, spoilt, sum_goes_on

from .._shared.sparse import derive_output_space

# The operator step by step; a wrong implementation overrides one of the steps.


class Plain:
    """Every step as the document means it."""

    unused = -1

    def run(self, call: OpCall) -> Status:
        """Write all outputs of a valid call."""
        indices = call.array("indices").astype(np.int64)
        rows, sites = zip(*(self._met(call, indices, offset) for offset in self._offsets(call)), strict=True)
        keys = [self._keys(call, indices[r, 0], site) for r, site in zip(rows, sites, strict=True)]
        out_keys, out_sites = self._outputs(call, indices, np.concatenate(rows), np.concatenate(keys), np.vstack(sites))
        pairs = call.array("indice_pairs")
        pairs[...] = self.unused
        for k, (in_rows, key) in enumerate(zip(rows, keys, strict=True)):
            out_rows = _rows_of(out_keys, key)
            met = out_rows >= 0
            found = self._ordered(np.stack([in_rows[met], out_rows[met]]))
            call.array("indice_num")[k] = found.shape[1]
            pairs[k, :, : found.shape[1]] = found
        room = call.array("out_indices")
        room[: len(out_sites)] = out_sites[: len(room)]
        call.scalars["num_act_out"] = self._count(call, out_sites)
        return Status.SUCCESS

    def _offsets(self, call: OpCall) -> list[tuple[int, ...]]:
        """Kernel offsets in order."""
        return list(itertools.product(*(range(length) for length in call.param("filter_space"))))

    def _pad(self, call: OpCall) -> Any:
        """Cells of padding on each axis."""
        return call.param("pad")

    def _dilation(self, call: OpCall) -> Any:
        """Distance of neighbouring offsets on each axis."""
        return call.param("dilation")

    def _stride(self, call: OpCall) -> Any:
        """Cells from one output to the next on each axis."""
        return call.param("stride")

    def _space(self, call: OpCall) -> Any:
        """Length of each axis of the output."""
        return call.param("output_space")

    def _divide(self, place: Array, stride: Any) -> tuple[Array, Array]:
        """The output under a padded place, and whether there is one."""
        site, rest = np.divmod(place, stride)
        return site, rest == 0

    def _met(self, call: OpCall, indices: Array, offset: tuple[int, ...]) -> tuple[Array, Array]:
        """The rows that meet an output at this offset, and the outputs' coordinates."""
        place = indices[:, 1:] + self._pad(call) - np.multiply(offset, self._dilation(call))
        site, whole = self._divide(place, self._stride(call))
        rows = np.flatnonzero(np.all(whole & self._inside(call, site), axis=1))
        rows = self._handled(call, rows)
        return rows, site[rows]

    def _inside(self, call: OpCall, site: Array) -> Array:
        """Which coordinates lie in the output space."""
        inside: Array = (site >= 0) & (site < self._space(call))
        return inside

    def _handled(self, call: OpCall, rows: Array) -> Array:
        """Of the rows that meet an output those that are looked at."""
        del call
        return rows

    def _keys(self, call: OpCall, batch: Array, site: Array) -> Array:
        """A number per site that is larger for a later one."""
        _, height, width = call.param("output_space")
        depth = call.param("output_space")[0]
        key: Array = ((batch * depth + site[:, 0]) * height + site[:, 1]) * width + site[:, 2]
        return key

    def _outputs(self, call: OpCall, indices: Array, rows: Array, keys: Array, sites: Array) -> tuple[Array, Array]:
        """Keys and coordinates (n, d, h, w) of the outputs, in order."""
        if call.param("sub_m"):
            return self._keys(call, indices[:, 0], indices[:, 1:]), indices
        distinct, first = np.unique(keys, return_index=True)
        return distinct, np.column_stack([indices[rows[first], 0], sites[first]])

    def _ordered(self, pairs: Array) -> Array:
        """The pairs of one offset in order."""
        return pairs

    def _count(self, call: OpCall, out_sites: Array) -> int:
        """num_act_out."""
        del call
        return len(out_sites)


def _rows_of(out_keys: Array, keys: Array) -> Array:
    """The row of each key among the outputs, −1 where it is none of them."""
    if not len(out_keys):
        return np.full(len(keys), -1)
    order = np.argsort(out_keys, kind="stable")
    place = np.searchsorted(out_keys, keys, sorter=order).clip(max=len(out_keys) - 1)
    rows = order[place]
    return np.where(out_keys[rows] == keys, rows, -1)


# Mistakes in which sites meet: axes, windows, edges, samples.


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


# Mistakes in what is written of the sites that meet: rows, counts, tails, and what an earlier call left.


_RIGHT = Plain().run
# Sites that kernels take at a time; stored cases have fewer than the next larger ones.
_TILES = (16, 32, 64, 128)


class _SitesInTiles(Plain):
    """Sites behind the last whole tile are not looked at; fewer than a tile are."""

    def __init__(self, tile: int) -> None:
        self._tile = tile

    def _handled(self, call: OpCall, rows: Array) -> Array:
        sites = call.tensor("indices").dims[0]
        return rows[rows < sites // self._tile * self._tile] if sites > self._tile else rows


class _WithoutRow(Plain):
    """One input row is not looked at."""

    def __init__(self, row: Callable[[int], int]) -> None:
        self._row = row

    def _handled(self, call: OpCall, rows: Array) -> Array:
        kept: Array = rows[rows != self._row(call.tensor("indices").dims[0])]
        return kept


class _OutputsTwice(Plain):
    """Outputs that several offsets meet stand several times."""

    def _outputs(self, *args: Any) -> tuple[Array, Array]:
        call, indices, rows, keys, sites = args
        if call.param("sub_m"):
            return super()._outputs(*args)
        order = np.argsort(keys, kind="stable")
        return keys[order], np.column_stack([indices[rows[order], 0], sites[order]])


class _RoomForInputs(Plain):
    """No more outputs than there are inputs."""

    def _outputs(self, *args: Any) -> tuple[Array, Array]:
        keys, sites = super()._outputs(*args)
        return keys[: len(args[1])], sites[: len(args[1])]


class _BatchFastest(Plain):
    """Outputs are sorted by their place first, then by their sample."""

    def _keys(self, call: OpCall, batch: Array, site: Array) -> Array:
        right = super()._keys(call, np.zeros_like(batch), site)
        key: Array = right * call.param("batch") + batch
        return key


def _exchange_rows(call: OpCall) -> None:
    pairs = call.array("indice_pairs")
    pairs[...] = pairs[:, ::-1].copy()


def _interleave(call: OpCall) -> None:
    pairs = call.array("indice_pairs")
    pairs[...] = pairs.transpose(0, 2, 1).reshape(pairs.shape)


def _batch_last(call: OpCall) -> None:
    made = call.array("out_indices")[: call.scalars["num_act_out"]]
    made[...] = np.roll(made, -1, axis=1)


def _lose_last_offset(call: OpCall) -> None:
    call.array("indice_num")[-1], call.array("indice_pairs")[-1] = 0, -1


def _add_up_counts(call: OpCall) -> None:
    counts = call.array("indice_num")
    counts[...] = np.cumsum(counts)


def _count_in(dtype: type[np.generic]) -> Callable[[OpCall], None]:
    def spoil(call: OpCall) -> None:
        counts = call.array("indice_num")
        counts[...] = counts.astype(dtype)

    return spoil


def _rows_in(dtype: type[np.generic]) -> Callable[[OpCall], None]:
    """Row numbers pass through a narrow type; the mark of unused places is put in afterwards."""

    def spoil(call: OpCall) -> None:
        pairs = call.array("indice_pairs")
        pairs[...] = np.where(pairs < 0, pairs, np.maximum(pairs, 0).astype(dtype))

    return spoil


def _no_tail(call: OpCall) -> Array:
    pairs = call.array("indice_pairs")
    return np.broadcast_to(np.arange(pairs.shape[2]) >= call.array("indice_num")[:, None, None], pairs.shape)


def _zero_output_tails(call: OpCall) -> None:
    pairs = call.array("indice_pairs")[:, 1]
    pairs[pairs < 0] = 0


def _count_inputs(call: OpCall) -> None:
    call.scalars["num_act_out"] = call.tensor("indices").dims[0]


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


WRONG_TABLES = (
    *(
        Mutant(f"site_tail_{tile}", f"looks at no site behind a multiple of {tile}", _SitesInTiles(tile).run)
        for tile in _TILES
    ),
    Mutant("first_site_lost", "looks at all sites but the first", _WithoutRow(lambda _: 0).run),
    Mutant("last_site_lost", "looks at all sites but the last", _WithoutRow(lambda sites: sites - 1).run),
    Mutant("outputs_twice", "two threads that find one output both add it", _OutputsTwice().run),
    Mutant("room_for_inputs", "has space for no more outputs than inputs", _RoomForInputs().run),
    Mutant("batch_fastest", "sorts outputs by their place, and by their sample last", _BatchFastest().run),
    spoilt("rows_exchanged", "writes the output row of a pair in front of the input row", _RIGHT, _exchange_rows),
    spoilt("pairs_interleaved", "writes the two rows of each pair side by side", _RIGHT, _interleave),
    spoilt("batch_last", "writes out_indices as d, h, w, n", _RIGHT, _batch_last),
    spoilt("last_offset_lost", "stops before the last offset", _RIGHT, _lose_last_offset),
    spoilt(
        "counts_added_up",
        "writes where the pairs of an offset end instead of how many there are",
        _RIGHT,
        _add_up_counts,
    ),
    spoilt("byte_counts", "counts the pairs of an offset in 8 bits", _RIGHT, _count_in(np.int8)),
    spoilt("byte_rows", "keeps row numbers in 8 bits", _RIGHT, _rows_in(np.uint8)),
    left("tails_left", "does not write −1 behind the pairs of an offset", _RIGHT, "indice_pairs", _no_tail),
    spoilt(
        "zero_output_tails", "marks unused input rows alone with −1, output rows with 0", _RIGHT, _zero_output_tails
    ),
    left(
        "counts_of_none_left",
        "does not write a count of 0",
        _RIGHT,
        "indice_num",
        lambda call: call.array("indice_num") == 0,
    ),
    spoilt("counts_the_inputs", "takes num_act_out from the number of inputs", _RIGHT, _count_inputs),
    spoilt("sub_m_centre_lost", "finds no pairs for the middle offset with sub_m", _RIGHT, _with_sub_m(_centre_lost)),
    spoilt(
        "sub_m_centre_of_all",
        "pairs every site with itself in the middle with sub_m",
        _RIGHT,
        _with_sub_m(_centre_of_all),
    ),
    spoilt("sub_m_symmetric", "exchanges the pairs of k for K − 1 − k with sub_m", _RIGHT, _with_sub_m(_symmetric)),
    input_cleared(_RIGHT, "indices"),
    cached_by_shape(_RIGHT),
    sum_goes_on(_RIGHT, "indice_num"),
)


class PlainDivision(Plain):
    """§3.2's formula alone: the integer division without the test that nothing is left over."""

    def _divide(self, place: Array, stride: Any) -> tuple[Array, Array]:
        site = np.fix(place / np.array(stride)).astype(np.int64)
        return site, np.ones(site.shape, np.bool_)


class ReciprocalDivision(Plain):
    """A multiplication by the float32 reciprocal of the stride, an output where the product is whole."""

    def _divide(self, place: Array, stride: Any) -> tuple[Array, Array]:
        reciprocal = np.float32(1) / np.array(stride, np.float32)
        quotient = place.astype(np.float32) * reciprocal
        return quotient.astype(np.int64), quotient == np.floor(quotient)


class LastOutputDropped(Plain):
    """The last distinct output taken for the mark of invalid slots, as if there always were one."""

    def _outputs(self, *args: Any) -> tuple[Array, Array]:
        keys, sites = super()._outputs(*args)
        return (keys, sites) if args[0].param("sub_m") else (keys[:-1], sites[:-1])


class SubMAsDefault(Plain):
    """sub_m taken for the default mode: every output counts, not the active ones alone."""

    def _outputs(self, *args: Any) -> tuple[Array, Array]:
        _, indices, rows, keys, sites = args
        distinct, first = np.unique(keys, return_index=True)
        return distinct, np.column_stack([indices[rows[first], 0], sites[first]])


class SubMSorted(Plain):
    """sub_m with its outputs in ascending order instead of the order of the inputs."""

    def _outputs(self, *args: Any) -> tuple[Array, Array]:
        keys, sites = super()._outputs(*args)
        order = np.argsort(keys, kind="stable")
        return keys[order], sites[order]


class SubMCentred(Plain):
    """sub_m with a pad of half the kernel, whatever pad is given."""

    def _pad(self, call: OpCall) -> Any:
        centred = tuple(length // 2 for length in call.param("filter_space"))
        return centred if call.param("sub_m") else super()._pad(call)


class SpaceDerived(Plain):
    """The output space derived from the pad, although it is given."""

    def _space(self, call: OpCall) -> Any:
        names = ("input_space", "filter_space", "stride", "pad", "dilation")
        return np.minimum(derive_output_space(*map(call.param, names)), super()._space(call))


class FirstSeenOrder(Plain):
    """Outputs in the order in which they are met first."""

    def _outputs(self, *args: Any) -> tuple[Array, Array]:
        call, _, _, keys, _ = args
        distinct, sites = super()._outputs(*args)
        if call.param("sub_m"):
            return distinct, sites
        _, first = np.unique(keys, return_index=True)
        order = np.argsort(first)
        return distinct[order], sites[order]


class HeightFastest(Plain):
    """Outputs sorted with height and width exchanged."""

    def _keys(self, call: OpCall, batch: Array, site: Array) -> Array:
        depth, height, width = call.param("output_space")
        key: Array = ((batch * depth + site[:, 0]) * width + site[:, 2]) * height + site[:, 1]
        return key


class BatchIgnored(Plain):
    """Sites of different samples taken for one."""

    def _keys(self, call: OpCall, batch: Array, site: Array) -> Array:
        return super()._keys(call, np.zeros_like(batch), site)


class NarrowKeys(Plain):
    """Linear indices in int32, which wrap where the space passes 2^31 cells."""

    def _keys(self, call: OpCall, batch: Array, site: Array) -> Array:
        return super()._keys(call, batch, site).astype(np.int32)


class FloatKeys(Plain):
    """Linear indices in float32, which merge neighbours where the space passes 2^24 cells."""

    def _keys(self, call: OpCall, batch: Array, site: Array) -> Array:
        return super()._keys(call, batch, site).astype(np.float32)


class DepthFastest(Plain):
    """Kernel offsets numbered from the depth on instead of from the width on."""

    def _offsets(self, call: OpCall) -> list[tuple[int, ...]]:
        return sorted(super()._offsets(call), key=lambda offset: offset[::-1])


class DilationIgnored(Plain):
    """Neighbouring offsets taken for neighbouring cells."""

    def _dilation(self, call: OpCall) -> Any:
        return (1,) * len(call.param("dilation"))


class ByOutputRow(Plain):
    """The pairs of an offset ascending by output row instead of by input row."""

    def _ordered(self, pairs: Array) -> Array:
        return pairs[:, np.argsort(pairs[1], kind="stable")]


class ZeroTails(Plain):
    """Zeros instead of −1 behind the pairs of an offset."""

    unused = 0


class CountsTheBuffer(Plain):
    """num_act_out taken from the room in out_indices."""

    def _count(self, call: OpCall, out_sites: Array) -> int:
        del out_sites
        return len(call.array("out_indices"))


_MISTAKES = {
    "plain_division": PlainDivision(),
    "reciprocal_division": ReciprocalDivision(),
    "last_output_dropped": LastOutputDropped(),
    "sub_m_as_default": SubMAsDefault(),
    "sub_m_sorted": SubMSorted(),
    "sub_m_centred": SubMCentred(),
    "space_derived": SpaceDerived(),
    "first_seen_order": FirstSeenOrder(),
    "height_fastest": HeightFastest(),
    "batch_ignored": BatchIgnored(),
    "narrow_keys": NarrowKeys(),
    "float_keys": FloatKeys(),
    "depth_fastest": DepthFastest(),
    "dilation_ignored": DilationIgnored(),
    "by_output_row": ByOutputRow(),
    "zero_tails": ZeroTails(),
    "counts_the_buffer": CountsTheBuffer(),
}

MUTANTS = (
    *(Mutant(name, mistake.__doc__ or "", mistake.run) for name, mistake in _MISTAKES.items()),
    *WRONG_GEOMETRY,
    *WRONG_TABLES,
)
