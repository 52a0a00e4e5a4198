"""The geometry of a 3-D sparse convolution, and which input site meets which output site at every kernel offset."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mluops_gtest.authoring import Array

Triple = tuple[int, int, int]

# Keys are int64. A real space is far below; one beyond has no exact key and is refused, never wrapped.
_KEY_LIMIT = 2**61
# Added to a key on each axis where no output is met: the sum stays negative and does not wrap.
_OUTSIDE = np.int64(-_KEY_LIMIT)
_OUTSIDE_NARROW = np.int32(-(2**29))
# A flag per cell beats sorting while there are at most this many cells per pair; memory stays linear in the pairs.
_CELLS_PER_PAIR = 16


@dataclass(frozen=True, slots=True)
class Geometry:
    """One 3-D sparse convolution; every triple is (depth, height, width)."""

    batch: int
    input_space: Triple
    kernel: Triple
    stride: Triple
    pad: Triple
    dilation: Triple
    output_space: Triple
    sub_m: bool = False

    @property
    def offsets(self) -> int:
        """Number of kernel offsets K."""
        return math.prod(self.kernel)


@dataclass(frozen=True, slots=True)
class Pairs:
    """The pairs of all kernel offsets, all int32: out_indices [n, 4], indice_pairs [K, 2, L], indice_num [K]."""

    out_indices: Array
    indice_pairs: Array
    indice_num: Array


def derive_output_space(
    input_space: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    pad: Sequence[int],
    dilation: Sequence[int],
) -> Triple:
    """floor((in + 2·pad − dilation·(kernel − 1) − 1) / stride) + 1 per axis."""
    axes = zip(input_space, kernel, stride, pad, dilation, strict=True)
    depth, height, width = ((i + 2 * p - d * (k - 1) - 1) // s + 1 for i, k, s, p, d in axes)
    return depth, height, width


def derive_geometry(
    batch: int, input_space: Triple, kernel: Triple, stride: Triple, pad: Triple, dilation: Triple, *, sub_m: bool
) -> Geometry:
    """The convolution whose output space follows from the rest; with sub_m it is the input space, whatever the pad."""
    output_space = input_space if sub_m else derive_output_space(input_space, kernel, stride, pad, dilation)
    return Geometry(batch, input_space, kernel, stride, pad, dilation, output_space, sub_m)


def find_pairs(indices: Array, geometry: Geometry) -> Pairs:
    """All pairs of the convolution over these sites (n, d, h, w), which must be unique and in range.

    A pair exists iff on every axis (in + pad − k·dilation) is a multiple of stride and its quotient lies in the
    output space. Within one offset pairs ascend by input row; −1 fills the rest.
    """
    return _find_sub_m(indices, geometry) if geometry.sub_m else _find_default(indices, geometry)


def refuse_lonely(counts: Sequence[int]) -> None:
    """Random sites must not be so far apart that all their pairs stand at one of several offsets."""
    if len(counts) > 1 and 0 < max(counts) == sum(counts):
        raise ValueError("no two sites are neighbours, so every offset but one stays empty; give more sites")


def _find_default(indices: Array, geometry: Geometry) -> Pairs:
    cells = geometry.batch * math.prod(geometry.output_space)
    _refuse_unless_keyed(cells, geometry)
    met = list(_met_cells(indices, geometry))
    keys = np.concatenate([cell for _, cell in met]).astype(np.intp, copy=False)
    if cells <= _CELLS_PER_PAIR * len(keys):
        flags = np.zeros(cells, np.bool_)
        flags[keys] = True
        out_keys = np.flatnonzero(flags)
        rank = np.empty(cells, np.int32)
        rank[out_keys] = np.arange(len(out_keys), dtype=np.int32)
        out_rows = rank[keys]
    else:
        # np.unique hashes, which is many times slower than sorting.
        keys_sorted = np.sort(keys)
        first = np.ones(len(keys), np.bool_)
        np.not_equal(keys_sorted[1:], keys_sorted[:-1], out=first[1:])
        out_keys = keys_sorted[first]
        out_rows = np.searchsorted(out_keys, keys).astype(np.int32)
    pairs = _empty_pairs(geometry.offsets, len(indices))
    start = 0
    for k, (rows, _) in enumerate(met):
        _write(pairs, k, rows, out_rows[start : start + len(rows)])
        start += len(rows)
    num = np.array([len(rows) for rows, _ in met], "<i4")
    sites = np.stack(np.unravel_index(out_keys, (geometry.batch, *geometry.output_space)), axis=1)
    return Pairs(sites.astype("<i4"), pairs, num)


def _met_cells(indices: Array, geometry: Geometry) -> Iterator[tuple[Array, Array]]:
    """Per kernel offset in order: the input rows that meet an output cell, ascending, and the cells' linear keys."""
    _, rows, columns = geometry.output_space
    cells = geometry.batch * math.prod(geometry.output_space)
    # The narrow type halves the memory traffic where three times `outside` still fits.
    outside = _OUTSIDE_NARROW if cells <= -_OUTSIDE_NARROW else _OUTSIDE
    batch, *coordinates = np.ascontiguousarray(indices.T).astype(np.intp)
    depth, height, width = (
        _axis_parts(coordinate, axis, geometry, weight, outside)
        for axis, (coordinate, weight) in enumerate(zip(coordinates, (rows * columns, columns, 1), strict=True))
    )
    first = batch.astype(outside.dtype) * outside.dtype.type(cells // geometry.batch)
    for part_d in depth:
        key_d = first + part_d
        for part_h in height:
            key_dh = key_d + part_h
            for part_w in width:
                key = key_dh + part_w
                met = np.flatnonzero(key >= 0)
                yield met, key[met]


def _axis_parts(
    coordinate: Array, axis: int, geometry: Geometry, weight: int, outside: np.signedinteger
) -> list[Array]:
    """Per kernel position on one axis every site's share of the output key, `outside` where no output is met."""
    stride, limit, space = geometry.stride[axis], geometry.output_space[axis], geometry.input_space[axis]
    # Sites share few coordinates: compute per coordinate and look up, unless the axis is longer than the list.
    tabulated = space <= len(coordinate)
    padded = (np.arange(space) if tabulated else coordinate) + geometry.pad[axis]
    parts = []
    for k in range(geometry.kernel[axis]):
        # §3.2's plain integer division invents pairs from stride 2 on: the remainder must be 0.
        out, rest = np.divmod(padded - k * geometry.dilation[axis], stride)
        part = np.where((rest == 0) & (out >= 0) & (out < limit), out * weight, outside).astype(outside.dtype)
        parts.append(part.take(coordinate) if tabulated else part)
    return parts


def _find_sub_m(indices: Array, geometry: Geometry) -> Pairs:
    """Sites become linear keys with a guard band on every axis, so that one shift is one constant and never wraps."""
    shifts = [[pad - k for k in range(kernel)] for pad, kernel in zip(geometry.pad, geometry.kernel, strict=True)]
    # A shift as long as the axis meets nothing, so no band needs to be wider than that.
    extents = [
        space + min(max(map(abs, shift)), space) for space, shift in zip(geometry.input_space, shifts, strict=True)
    ]
    _refuse_unless_keyed(geometry.batch * math.prod(extents), geometry)
    keys = np.ravel_multi_index(tuple(indices.T.astype(np.int64)), (geometry.batch, *extents))
    in_order = bool(np.all(keys[1:] > keys[:-1]))
    rows = None if in_order else np.argsort(keys, kind="stable").astype(np.int32)
    sorted_keys = keys if rows is None else keys[rows]
    pairs = _empty_pairs(geometry.offsets, len(indices))
    num = np.zeros(geometry.offsets, "<i4")
    for k, inputs, outputs in _sub_m_offsets(sorted_keys, geometry, shifts, extents):
        num[k] = len(inputs)
        _write(pairs, k, *_by_input_row(inputs, outputs, rows))
    return Pairs(np.ascontiguousarray(indices, "<i4"), pairs, num)


def _sub_m_offsets(
    keys: Array, geometry: Geometry, shifts: list[list[int]], extents: list[int]
) -> Iterator[tuple[int, Array, Array]]:
    """(k, inputs, outputs) as positions in the sorted keys, for every offset that can meet anything."""
    depth, height, width = geometry.kernel
    # Centred windows are point-symmetric: offset K−1−k is offset k with inputs and outputs exchanged.
    centred = all(2 * pad == kernel - 1 for pad, kernel in zip(geometry.pad, geometry.kernel, strict=True))
    middle = geometry.offsets // 2
    for group in range(depth * height // 2 + 1 if centred else depth * height):
        shift_d, shift_h = shifts[0][group // height], shifts[1][group % height]
        if abs(shift_d) >= geometry.input_space[0] or abs(shift_h) >= geometry.input_space[1]:
            continue
        base = (shift_d * extents[1] + shift_h) * extents[2]
        for kw, hits, partners in _along_width(keys, base, shifts[2], geometry.input_space[2]):
            k = group * width + kw
            if centred and k > middle:
                continue
            yield k, hits, partners
            if centred and k < middle:
                yield geometry.offsets - 1 - k, partners, hits


def _along_width(keys: Array, base: int, shifts: list[int], space: int) -> Iterator[tuple[int, Array, Array]]:
    """(kw, hits, partners) for the offsets of one row of the kernel, by one search for the whole row.

    The shifts of a row are consecutive, so the place of key + 1 is the place of key, plus one where key was found.
    """
    reachable = [kw for kw, shift in enumerate(shifts) if abs(shift) < space]
    place: Array | None = None
    for kw in reversed(reachable):
        wanted = keys + (base + shifts[kw])
        if place is None:
            place = np.searchsorted(keys, wanted)
        found = keys.take(place, mode="clip") == wanted
        hits = np.flatnonzero(found)
        yield kw, hits, place[hits]
        place += found


def _by_input_row(inputs: Array, outputs: Array, rows: Array | None) -> tuple[Array, Array]:
    """Positions in sorted order as rows, ascending by input row; `rows` is None where both are the same."""
    if rows is None:
        return inputs, outputs
    partner = np.full(len(rows), -1, np.int32)
    partner[rows[inputs]] = rows[outputs]
    ascending = np.flatnonzero(partner >= 0)
    return ascending, partner[ascending]


def _empty_pairs(offsets: int, sites: int) -> Array:
    return np.full((offsets, 2, sites), -1, "<i4")


def _write(pairs: Array, k: int, inputs: Array, outputs: Array) -> None:
    pairs[k, 0, : len(inputs)] = inputs
    pairs[k, 1, : len(outputs)] = outputs


def _refuse_unless_keyed(cells: int, geometry: Geometry) -> None:
    if cells >= _KEY_LIMIT:
        raise ValueError(f"the space of {geometry} has {cells} cells; choose one with fewer than 2^61")
