"""Where an array's memory is: numpy's C interface to an array, without the Python code behind `array.ctypes`.

Two arrays compared by the C library, cell by cell, on the caller's thread and without the interpreter's lock.

Rows that lie anywhere, gathered, added and measured in float64 by the C library; None or False: use numpy.

Long runs of values in text: read by the C library as far as they are spelled in ordinary ways, and written.
"""

import ctypes
import inspect
import math
from collections.abc import Callable
from functools import cache, partial, wraps
from struct import Struct
from typing import Any, ClassVar, Concatenate, Final, NamedTuple, ParamSpec

import numpy as np
import numpy.typing as npt

from mluops_gtest.base.native.library import native_level, native_library


class _ArrayInterface(ctypes.Structure):
    """numpy's documented PyArrayInterface."""

    data: int | None

    _fields_: ClassVar = [
        ("two", ctypes.c_int),
        ("nd", ctypes.c_int),
        ("typekind", ctypes.c_char),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_int),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
    ]


_pointer: Final = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.POINTER(_ArrayInterface), [ctypes.py_object, ctypes.c_char_p]


def address_of(array: npt.NDArray[Any]) -> int:
    """The address of the first element, valid as long as the array lives."""
    capsule = array.__array_struct__
    return _pointer(capsule, None)[0].data or 0


_Array = npt.NDArray[Any]
_Arguments = ParamSpec("_Arguments")

# As in enum kind of native.h; any other type becomes float64.
_LIMIT_KINDS: Final = {np.dtype(np.float32): 2, np.dtype(np.float64): 3, np.dtype(np.int64): 10}


class _Spread(ctypes.Structure):
    _fields_: ClassVar = [("numbers", ctypes.c_void_p), ("kind", ctypes.c_int64), ("repeat", ctypes.c_int64)]


class _Limits(ctypes.Structure):
    """struct bound of native.h."""

    _fields_: ClassVar = [
        *((name, _Spread) for name in ("magnitude", "roundings", "unit")),
        *((name, ctypes.c_double) for name in ("roundoff", "blocks_from", "loss", "tiny", "behind")),
        *((name, ctypes.c_double) for name in ("behind_underflow", "sums", "results", "smallest_unit")),
        *((name, ctypes.c_int64) for name in ("smallest", "significant", "rounds_twice")),
    ]


class NativeLimits:
    """The bound of every element of an output of that shape: three numbers that broadcast to it, and constants."""

    def __init__(
        self, shape: tuple[int, ...], magnitude: Any, roundings: Any, unit: Any, **constants: float | int
    ) -> None:
        # Kept: the addresses in the structure are theirs.
        self.arrays = [_laid_out(values, shape) for values in (magnitude, roundings, unit)]
        spreads = (_Spread(address_of(array), _LIMIT_KINDS[array.dtype], repeat) for array, repeat in self.arrays)
        self.structure = _Limits(*spreads, **constants)


def _laid_out(values: Any, shape: tuple[int, ...]) -> tuple[_Array, int]:
    """A flat array, and how many elements of the output share each of its numbers."""
    given = np.asarray(values)
    whole = np.broadcast_to(given if given.dtype in _LIMIT_KINDS else given.astype(np.float64), shape)
    axes = len(shape)
    while axes and (whole.strides[axes - 1] == 0 or shape[axes - 1] == 1):
        axes -= 1
    own = whole[(slice(None),) * axes + (0,) * (len(shape) - axes)]
    return np.ascontiguousarray(own).reshape(-1), math.prod(shape[axes:])


# Parts of one cell: sums are kept for each, so that they do not depend on how an array is cut into shares.
LANES: Final = 256
ROWS: Final = 128
CELL: Final = LANES * ROWS

# By what numpy calls it; the order is that of enum kind in native.h. bfloat16 has no numpy type.
_NAMES: Final = ("f2", "bfloat16", "f4", "f8", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")
_KINDS: Final = {name: number for number, name in enumerate(_NAMES)}
_SIZES: Final = tuple(2 if name == "bfloat16" else int(name[1:]) for name in _NAMES)

# What one share says, the fields of struct figures in native.h; places count parts from the beginning of the arrays.
ShareFigures = tuple[Any, ...]
# struct figures and struct pair of native.h, packed at once, where a ctypes.Structure takes its fields one by one.
_FIGURES: Final = Struct("7q3dqQ4q2d")
_PAIR: Final = Struct("2P3qdP")
# struct one_cell: what is given, then what is found, and the sums of one cell.
_CELL_FOUND: Final = Struct(f"{_FIGURES.format}4d")
_Cell: Final = ctypes.c_char * (_PAIR.size + _CELL_FOUND.size + 8)
_Room: Final = ctypes.c_char * _FIGURES.size


_ADDRESS: Final = ctypes.c_void_p
_NUMBER: Final = ctypes.c_int64


def _function(library: ctypes.CDLL, name: str, *arguments: Any, result: Any = None) -> Any:
    """That function of the library, which takes and returns these types."""
    function = getattr(library, f"mluops_{name}")
    function.argtypes, function.restype = arguments, result
    return function


class _Functions:
    def __init__(self, library: ctypes.CDLL) -> None:
        kind, pair = ctypes.c_int, _ADDRESS
        self.compare = _function(library, "compare", kind, pair, _ADDRESS, _ADDRESS, _ADDRESS)
        self.compare_cell = _function(library, "compare_cell", kind, _ADDRESS)
        self.weigh = _function(library, "weigh", kind, pair, _ADDRESS, _ADDRESS, result=_NUMBER)
        self.beyond = _function(library, "beyond", kind, pair, ctypes.c_double, ctypes.c_double, result=_NUMBER)
        self.first_difference = _function(library, "first_difference", _ADDRESS, _ADDRESS, _NUMBER, result=_NUMBER)


_functions: Final = cache(_Functions)


class NativePair:
    """Two contiguous arrays of one type seen as parts, and the sums of their cells."""

    def __init__(
        self, functions: _Functions, kind: int, evaluated: _Array, baseline: _Array, parts: int, small: float | None
    ) -> None:
        # Kept: the addresses below are theirs.
        self._arrays = evaluated, baseline
        self._functions, self._kind = functions, kind
        self._part_size = _SIZES[kind]
        self.count = baseline.nbytes // self._part_size
        self.cells = -(-self.count // CELL)
        self._parts, self._small = parts, 0.0 if small is None else small
        self._addresses = address_of(evaluated), address_of(baseline)
        self._sums = (ctypes.c_double * (4 * self.cells))()
        # Cells whose bits are the same on both sides: their sums are zeros until they are weighed.
        self._equal = (ctypes.c_char * self.cells)()
        self._limits: NativeLimits | None = None

    def differs(self, first: int, cells: int) -> bool:
        """Some bit of these cells does."""
        start = first * CELL * self._part_size
        size = min(cells * CELL * self._part_size, self.count * self._part_size - start)
        evaluated, baseline = self._addresses
        return bool(self._functions.first_difference(evaluated + start, baseline + start, size) >= 0)

    def hold_to(self, limits: NativeLimits) -> None:
        """Let `figures` say, too, which elements are beyond these; for floating-point types of one part."""
        self._limits = limits

    def figures(self, first: int, cells: int) -> ShareFigures:
        """Compare these cells, and keep their sums."""
        found = _Room()
        self._functions.compare(self._kind, self._pair(first, cells), found, *self._cell_addresses(first))
        return _FIGURES.unpack(found)

    def weigh(self, first: int, cells: int, *, all_cells: bool = False) -> int:
        """Fill in the weights of those of these cells that are equal, or of all; how many of their parts are finite."""
        if all_cells:
            ctypes.memset(ctypes.addressof(self._equal) + first, 1, cells)
        return int(self._functions.weigh(self._kind, self._pair(first, cells), *self._cell_addresses(first)))

    def beyond(self, first: int, cells: int, threshold: float, scale: float) -> int:
        """Elements of these cells with |e−b| > threshold · max(|b|, scale)."""
        return int(self._functions.beyond(self._kind, self._pair(first, cells), threshold, scale))

    @property
    def has_equal_cells(self) -> bool:
        """Some are not weighed yet."""
        return b"\1" in self._equal.raw

    def sums(self) -> list[list[float]]:
        """Σ|e−b|, Σ(e−b)², Σ|b| and Σb² of every cell."""
        numbers = self._sums[:]
        return [numbers[which::4] for which in range(4)]

    def _pair(self, first: int, cells: int) -> bytes:
        start = first * CELL
        offset = start * self._part_size
        evaluated, baseline = self._addresses
        count = min(cells * CELL, self.count - start)
        limits = 0 if self._limits is None else ctypes.addressof(self._limits.structure)
        return _PAIR.pack(evaluated + offset, baseline + offset, start, count, self._parts, self._small, limits)

    def _cell_addresses(self, first: int) -> tuple[int, int]:
        """Where the sums of the cells from that one on are, and their marks of equality."""
        return ctypes.addressof(self._sums) + 32 * first, ctypes.addressof(self._equal) + first


def cell_figures(
    evaluated: _Array, baseline: _Array, part: str, *, parts: int = 1, small: float | None = None
) -> tuple[ShareFigures, tuple[float, ...]] | None:
    """What unequal arrays of at most one cell say, and Σ|e−b|, Σ(e−b)², Σ|b| and Σb²; None as for `native_pair`."""
    library = native_library()
    if library is None:
        return None
    evaluated, baseline = np.ascontiguousarray(evaluated), np.ascontiguousarray(baseline)
    kind, cell = _KINDS[part], _Cell()
    count, addresses = baseline.nbytes // _SIZES[kind], (address_of(evaluated), address_of(baseline))
    _PAIR.pack_into(cell, 0, *addresses, 0, count, parts, small or 0.0, 0)
    _functions(library).compare_cell(kind, cell)
    found = _CELL_FOUND.unpack_from(cell, _PAIR.size)
    return found[:-4], found[-4:]


def native_pair(
    evaluated: _Array, baseline: _Array, part: str, *, parts: int = 1, small: float | None = None
) -> NativePair | None:
    """The arrays for the C library, or None where numpy must compare them.

    `part` is "bfloat16" or the numpy type of a part ("f4"), of which `parts` make an element.
    """
    library = native_library()
    if library is None:
        return None
    contiguous = np.ascontiguousarray(evaluated), np.ascontiguousarray(baseline)
    return NativePair(_functions(library), _KINDS[part], *contiguous, parts, small)


class Magnitudes(NamedTuple):
    """Of some floats, those that are 0 left out: the smallest and the largest magnitude, 0.0 where there is none."""

    smallest: float
    largest: float


class _RowFunctions:
    def __init__(self, library: ctypes.CDLL, level: str) -> None:
        function = partial(_function, library)
        rows = (_ADDRESS, _ADDRESS, _ADDRESS, _NUMBER, _NUMBER)
        matrix = (_ADDRESS, _NUMBER, _NUMBER)
        self.add_rows = function(f"add_rows_{level}", *rows, ctypes.c_int, _ADDRESS, _ADDRESS)
        self.add_wide_rows = function(f"add_wide_rows_{level}", _ADDRESS, *matrix, _ADDRESS)
        self.gather_rows = function(f"gather_rows_{level}", _ADDRESS, *matrix, _ADDRESS)
        self.blend = function(f"blend_{level}", *matrix, _ADDRESS, _ADDRESS, _NUMBER, _ADDRESS)
        self.scatter = function(f"scatter_{level}", *matrix, _ADDRESS, _ADDRESS, _NUMBER, _ADDRESS)
        self.distances = function(f"distances_{level}", _ADDRESS, _NUMBER, *matrix, _ADDRESS)
        self.give = function(f"give_{level}", *rows, _ADDRESS, _ADDRESS, _ADDRESS, _ADDRESS)


_of_level: Final = cache(_RowFunctions)


def _rows_functions() -> _RowFunctions | None:
    library, level = native_library(), native_level()
    return None if library is None or level is None else _of_level(library, level)


def native_add_rows(
    sums: _Array, targets: _Array, rows: _Array, sources: _Array, *, absolute: bool = False
) -> Magnitudes | None:
    """float64 sums[targets[n]] += rows[sources[n]], float32, or |…|, one after the other; and what was added."""
    functions = _rows_functions()
    if functions is None:
        return None
    found = np.empty(2, np.uint32)
    values, indices = _floats(rows), (_within(sources, len(rows)), _within(targets, len(sums)))
    functions.add_rows(
        *(address_of(values), *map(address_of, indices), len(sources), values.shape[1]),
        *(int(absolute), address_of(sums), address_of(found)),
    )
    return Magnitudes(*found.view(np.float32).tolist())


def _where_native(work: Callable[Concatenate[_RowFunctions, _Arguments], None]) -> Callable[_Arguments, bool]:
    """The same work, where there is a library to do it; whether there is one."""

    @wraps(work)
    def call(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> bool:
        functions = _rows_functions()
        if functions is None:
            return False
        work(functions, *arguments, **named)
        return True

    _, *own = inspect.signature(work).parameters.values()
    vars(call)["__signature__"] = inspect.Signature(own, return_annotation=bool)
    return call


@_where_native
def native_add_wide_rows(functions: _RowFunctions, sums: _Array, targets: _Array, rows: _Array) -> None:
    """float64 sums[targets[n]] += rows[n], contiguous, one after the other."""
    indices = _within(targets, len(sums))
    functions.add_wide_rows(address_of(rows), address_of(indices), len(indices), rows.shape[1], address_of(sums))


@_where_native
def native_gather_rows(functions: _RowFunctions, rows: _Array, sources: _Array, out: _Array) -> None:
    """Write to contiguous float64 [n, W] the float32 rows that are named."""
    values, indices = _floats(rows), _within(sources, len(rows))
    functions.gather_rows(address_of(values), address_of(indices), len(indices), values.shape[1], address_of(out))


@_where_native
def native_blend(functions: _RowFunctions, rows: _Array, cells: _Array, weights: _Array, out: _Array) -> None:
    """Write to float64 [R, N] the sums over t of rows[r, cells[t, n]] · weights[t, n], in order.

    They are float64 [R, M], int32 [3, N] and float64 [3, N], all contiguous.
    """
    indices = _within(cells, rows.shape[1], np.int32)
    functions.blend(
        *(address_of(rows), *rows.shape),
        *(address_of(indices), address_of(weights), indices.shape[1], address_of(out)),
    )


@_where_native
def native_scatter(functions: _RowFunctions, rows: _Array, cells: _Array, weights: _Array, sums: _Array) -> None:
    """float64 sums[r, cells[n, t]] += rows[r, n] · weights[n, t]: [R, N], int32 and float64 [N, 3]; in order."""
    indices = _within(cells, sums.shape[1], np.int32)
    functions.scatter(
        *(address_of(rows), *rows.shape),
        *(address_of(indices), address_of(weights), sums.shape[1], address_of(sums)),
    )


@_where_native
def native_give(
    functions: _RowFunctions, out: _Array, sources: _Array, targets: _Array, rows: _Array, wanted: _Array, own: _Array
) -> None:
    """Of the float32 rows that name a target the first with the wanted value gets the target's own; others get 0.

    Row sources[n] of `rows` and of `out` names targets[n]; place by place, in the order of n.
    """
    indices = _within(sources, len(rows)), _within(targets, len(wanted))
    values, wants, owns = map(_floats, (rows, wanted, own))
    taken = np.zeros(wants.shape, np.uint8)
    functions.give(
        *(address_of(values), *map(address_of, indices), len(sources), values.shape[1]),
        *map(address_of, (wants, owns, taken, out)),
    )


@_where_native
def native_distances(functions: _RowFunctions, queries: _Array, axes: _Array, out: _Array) -> None:
    """Write to float64 [N, M] the squared distances of points [N, 3] and [3, M], axis after axis.

    All are float64; the axes may be parts of longer ones.
    """
    rows = np.ascontiguousarray(queries)
    stride = axes.strides[0] // axes.itemsize
    functions.distances(address_of(rows), len(rows), address_of(axes), stride, axes.shape[1], address_of(out))


def _floats(rows: _Array) -> _Array:
    return np.ascontiguousarray(rows, np.float32)


def _within(indices: _Array, count: int, dtype: type[np.signedinteger[Any]] = np.int64) -> _Array:
    """The indices as C reads them; IndexError where one names nothing: C would read or write elsewhere."""
    if indices.size and not 0 <= indices.min() <= indices.max() < count:
        raise IndexError(f"an index is not one of 0 … {count - 1}")
    return np.ascontiguousarray(indices, dtype)


# The order is that of enum storage in text.c and written_text.c.
_STORAGES: Final = {name: number for number, name in enumerate(("f4", "f8", "i4", "i8", "u4", "u8"))}
# Values of one call: as many as stay in a cache.
_MOST: Final = 1 << 16


class _Source(ctypes.Structure):
    _fields_: ClassVar = [
        ("text", ctypes.c_char_p),
        ("length", ctypes.c_int64),
        ("name", ctypes.c_char_p),
        ("name_length", ctypes.c_int64),
    ]


class _TextFunctions:
    def __init__(self, library: ctypes.CDLL) -> None:
        source, position = ctypes.POINTER(_Source), ctypes.POINTER(_NUMBER)
        function = partial(_function, library, result=_NUMBER)
        label, room = (ctypes.c_char_p, _NUMBER), (_ADDRESS, _NUMBER)
        bounds = ctypes.c_int, _NUMBER, ctypes.c_uint64
        self.numbers = function("read_numbers", source, position, *bounds, *room)
        self.hex = function("read_hex", source, position, _NUMBER, *room)
        self.write = function("write_numbers", ctypes.c_int, *room, *label, _ADDRESS, position)


_text_functions: Final = cache(_TextFunctions)


class ValueText:
    """A text with values of one field; `name` stands before each, or commas between them (None)."""

    def __init__(self, library: ctypes.CDLL, text: bytes, name: bytes | None) -> None:
        self._functions = _text_functions(library)
        self._text = text
        self._shortest = 2 + len(name or b",")
        self._source = _Source(text, len(text), name, len(name or b""))

    def numbers(self, pos: int, storage: "np.dtype[Any]") -> tuple[list[_Array], int]:
        """The values from `pos` on, and where the first stands that is not read: a last one, or one of an odd form."""
        low, high = (0, 0) if storage.kind == "f" else (int(np.iinfo(storage).min), int(np.iinfo(storage).max))
        kind = _STORAGES[f"{storage.kind}{storage.itemsize}"]

        def read(place: Any, values: _Array) -> int:
            numbers = self._functions.numbers
            return int(numbers(self._source, place, kind, low, high, address_of(values), len(values)))

        return self._all(pos, storage, read)

    def hexadecimal(self, pos: int, digits: int) -> tuple[list[_Array], int]:
        """The same for strings of so many digits, as bytes."""

        def read(place: Any, values: _Array) -> int:
            return int(self._functions.hex(self._source, place, digits, address_of(values), len(values)))

        return self._all(pos, np.dtype(f"S{digits}"), read)

    def _all(self, pos: int, storage: "np.dtype[Any]", read: Any) -> tuple[list[_Array], int]:
        place = ctypes.c_int64(pos)
        parts: list[_Array] = []
        while True:
            room = min(_MOST, (len(self._text) - place.value) // self._shortest + 1)
            values = np.empty(room, storage)
            count = read(place, values)
            if count:
                parts.append(values[:count])
            if count < room:
                return parts, place.value


def value_text(text: bytes, name: bytes | None) -> ValueText | None:
    """The text for the C library, or None where there is none."""
    library = native_library()
    return None if library is None else ValueText(library, text, name)


def value_lines(values: _Array, label: bytes, odd: Callable[[_Array], bytes]) -> bytes | None:
    """A line for each value, with the label before it, or None where there is no library.

    `odd` makes the lines of values that the library does not spell.
    """
    library = native_library()
    if library is None:
        return None
    values = np.ascontiguousarray(values)
    write, kind = _text_functions(library).write, _STORAGES[f"{values.dtype.kind}{values.dtype.itemsize}"]
    # No number has 32 characters.
    room, written = np.empty(min(_MOST, len(values)) * (len(label) + 33), np.uint8), ctypes.c_int64()
    pieces: list[bytes] = []
    done = 0
    while done < len(values):
        share = values[done : done + _MOST]
        count = write(kind, address_of(share), len(share), label, len(label), address_of(room), written)
        pieces.append(room[: written.value].tobytes())
        done += count
        if count < len(share):
            pieces.append(odd(values[done : done + 1]))
            done += 1
    return b"".join(pieces)
