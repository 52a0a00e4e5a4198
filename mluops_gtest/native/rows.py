"""Rows that lie anywhere, gathered, added and measured in float64 by the C library; None or False: use numpy."""

import ctypes
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mluops_gtest.native.addresses import address_of
from mluops_gtest.native.library import native_level, native_library

_Array = npt.NDArray[Any]


class Magnitudes(NamedTuple):
    """Of some floats, those that are 0 left out: the smallest and the largest magnitude, 0.0 where there is none."""

    smallest: float
    largest: float


class _Functions:
    def __init__(self, library: ctypes.CDLL, level: str) -> None:
        pointer, number = ctypes.c_void_p, ctypes.c_int64

        def function(name: str, *arguments: Any) -> Any:
            found = getattr(library, f"mluops_{name}_{level}")
            found.argtypes, found.restype = arguments, None
            return found

        rows = (pointer, pointer, pointer, number, number)
        self.add_rows = function("add_rows", *rows, ctypes.c_int, pointer, pointer)
        self.add_wide_rows = function("add_wide_rows", pointer, pointer, number, number, pointer)
        self.gather_rows = function("gather_rows", pointer, pointer, number, number, pointer)
        self.blend = function("blend", pointer, number, number, pointer, pointer, number, pointer)
        self.scatter = function("scatter", pointer, number, number, pointer, pointer, number, pointer)
        self.distances = function("distances", pointer, number, pointer, number, number, pointer)
        self.give = function("give", *rows, pointer, pointer, pointer, pointer)


_of_level: Final = cache(_Functions)


def _functions() -> _Functions | None:
    library, level = native_library(), native_level()
    return None if library is None or level is None else _of_level(library, level)


def native_add_rows(
    sums: _Array, targets: _Array, rows: _Array, sources: _Array, *, absolute: bool = False
) -> Magnitudes | None:
    """float64 sums[targets[n]] += rows[sources[n]], float32, or |…|, one after the other; and what was added."""
    functions = _functions()
    if functions is None:
        return None
    found = np.empty(2, np.uint32)
    values, indices = _floats(rows), (_within(sources, len(rows)), _within(targets, len(sums)))
    functions.add_rows(
        *(address_of(values), *map(address_of, indices), len(sources), values.shape[1]),
        *(int(absolute), address_of(sums), address_of(found)),
    )
    return Magnitudes(*found.view(np.float32).tolist())


def native_add_wide_rows(sums: _Array, targets: _Array, rows: _Array) -> bool:
    """float64 sums[targets[n]] += rows[n], contiguous, one after the other."""
    functions = _functions()
    if functions is None:
        return False
    indices = _within(targets, len(sums))
    functions.add_wide_rows(address_of(rows), address_of(indices), len(indices), rows.shape[1], address_of(sums))
    return True


def native_gather_rows(rows: _Array, sources: _Array, out: _Array) -> bool:
    """Write to contiguous float64 [n, W] the float32 rows that are named."""
    functions = _functions()
    if functions is None:
        return False
    values, indices = _floats(rows), _within(sources, len(rows))
    functions.gather_rows(address_of(values), address_of(indices), len(indices), values.shape[1], address_of(out))
    return True


def native_blend(rows: _Array, cells: _Array, weights: _Array, out: _Array) -> bool:
    """Write to float64 [R, N] the sums over t of rows[r, cells[t, n]] · weights[t, n], in order.

    They are float64 [R, M], int32 [3, N] and float64 [3, N], all contiguous.
    """
    functions = _functions()
    if functions is None:
        return False
    indices = _within(cells, rows.shape[1], np.int32)
    functions.blend(
        *(address_of(rows), *rows.shape),
        *(address_of(indices), address_of(weights), indices.shape[1], address_of(out)),
    )
    return True


def native_scatter(rows: _Array, cells: _Array, weights: _Array, sums: _Array) -> bool:
    """float64 sums[r, cells[n, t]] += rows[r, n] · weights[n, t]: [R, N], int32 and float64 [N, 3]; in order."""
    functions = _functions()
    if functions is None:
        return False
    indices = _within(cells, sums.shape[1], np.int32)
    functions.scatter(
        *(address_of(rows), *rows.shape),
        *(address_of(indices), address_of(weights), sums.shape[1], address_of(sums)),
    )
    return True


def native_give(out: _Array, sources: _Array, targets: _Array, rows: _Array, wanted: _Array, own: _Array) -> bool:
    """Of the float32 rows that name a target the first with the wanted value gets the target's own; others get 0.

    Row sources[n] of `rows` and of `out` names targets[n]; place by place, in the order of n.
    """
    functions = _functions()
    if functions is None:
        return False
    indices = _within(sources, len(rows)), _within(targets, len(wanted))
    values, wants, owns = map(_floats, (rows, wanted, own))
    taken = np.zeros(wants.shape, np.uint8)
    functions.give(
        *(address_of(values), *map(address_of, indices), len(sources), values.shape[1]),
        *map(address_of, (wants, owns, taken, out)),
    )
    return True


def native_distances(queries: _Array, axes: _Array, out: _Array) -> bool:
    """Write to float64 [N, M] the squared distances of points [N, 3] and [3, M], axis after axis.

    All are float64; the axes may be parts of longer ones.
    """
    functions = _functions()
    if functions is None:
        return False
    rows = np.ascontiguousarray(queries)
    stride = axes.strides[0] // axes.itemsize
    functions.distances(address_of(rows), len(rows), address_of(axes), stride, axes.shape[1], address_of(out))
    return True


def _floats(rows: _Array) -> _Array:
    return np.ascontiguousarray(rows, np.float32)


def _within(indices: _Array, count: int, dtype: type[np.signedinteger[Any]] = np.int64) -> _Array:
    """The indices as C reads them; IndexError where one names nothing: C would read or write elsewhere."""
    if indices.size and not 0 <= indices.min() <= indices.max() < count:
        raise IndexError(f"an index is not one of 0 … {count - 1}")
    return np.ascontiguousarray(indices, dtype)
