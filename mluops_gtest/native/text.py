"""Long runs of values in text: read by the C library as far as they are spelled in ordinary ways, and written."""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from mluops_gtest.native.addresses import address_of
from mluops_gtest.native.library import native_library

# The order is that of enum storage in text.c and written_text.c.
_STORAGES: Final = {name: number for number, name in enumerate(("f4", "f8", "i4", "i8", "u4", "u8"))}
# Values of one call: as many as stay in a cache.
_MOST: Final = 1 << 16

_Array = npt.NDArray[Any]


class _Source(ctypes.Structure):
    _fields_: ClassVar = [
        ("text", ctypes.c_char_p),
        ("length", ctypes.c_int64),
        ("name", ctypes.c_char_p),
        ("name_length", ctypes.c_int64),
    ]


class _Functions:
    def __init__(self, library: ctypes.CDLL) -> None:
        source, position = ctypes.POINTER(_Source), ctypes.POINTER(ctypes.c_int64)
        self.numbers, self.hex = library.mluops_read_numbers, library.mluops_read_hex
        bounds = ctypes.c_int, ctypes.c_int64, ctypes.c_uint64
        self.numbers.argtypes = [source, position, *bounds, ctypes.c_void_p, ctypes.c_int64]
        self.hex.argtypes = [source, position, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64]
        self.write = library.mluops_write_numbers
        label = ctypes.c_char_p, ctypes.c_int64
        self.write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, *label, ctypes.c_void_p, position]
        self.numbers.restype = self.hex.restype = self.write.restype = ctypes.c_int64


_functions: Final = cache(_Functions)


class ValueText:
    """A text with values of one field; `name` stands before each, or commas between them (None)."""

    def __init__(self, library: ctypes.CDLL, text: bytes, name: bytes | None) -> None:
        self._functions = _functions(library)
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
    write, kind = _functions(library).write, _STORAGES[f"{values.dtype.kind}{values.dtype.itemsize}"]
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
