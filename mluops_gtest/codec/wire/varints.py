"""Protobuf's wire format, as much of it as is needed to lift long value fields out of a file and to put them in."""

from typing import Final

import numpy as np

from mluops_gtest.errors import CaseFileError
from mluops_gtest.model.dtypes import Array

VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
START_GROUP: Final = 3
END_GROUP: Final = 4
FIXED32: Final = 5

_MAX_VARINT_BYTES: Final = 10
_DEEPEST_GROUP: Final = 100
# Bytes in which a run of records is looked for first; the window doubles while the run goes on.
_FIRST_WINDOW: Final = 1024
_LARGEST_WINDOW: Final = 1 << 20


def varint(buffer: memoryview, pos: int, end: int) -> tuple[int, int]:
    """The varint at `pos` and the position behind it."""
    value = shift = 0
    for index in range(pos, min(end, pos + _MAX_VARINT_BYTES)):
        byte = buffer[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, index + 1
        shift += 7
    raise CaseFileError(f"byte {pos}: the file ends inside a number, or the number is longer than 10 bytes")


def encode_varint(value: int) -> bytes:
    """One varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def skip(buffer: memoryview, tag: int, pos: int, end: int) -> tuple[int, int]:
    """Where the payload of the field with this tag starts, and where the field ends; `pos` is behind the tag."""
    kind = tag & 7
    payload = pos
    if kind == VARINT:
        pos = varint(buffer, pos, end)[1]
    elif kind == FIXED64:
        pos += 8
    elif kind == FIXED32:
        pos += 4
    elif kind == LENGTH:
        length, payload = varint(buffer, pos, end)
        pos = payload + length
    elif kind == START_GROUP:
        pos = _skip_group(buffer, pos, end)
    else:
        raise CaseFileError(f"byte {pos}: {kind} is not a wire type; the file is not a binary case")
    if pos > end:
        raise CaseFileError(f"byte {payload}: a field reaches beyond its message; the file is cut or not a binary case")
    return payload, pos


def _skip_group(buffer: memoryview, pos: int, end: int) -> int:
    depth = 1
    while depth:
        tag, pos = varint(buffer, pos, end)
        kind = tag & 7
        if kind == START_GROUP:
            depth += 1
        elif kind == END_GROUP:
            depth -= 1
        else:
            pos = skip(buffer, tag, pos, end)[1]
        if depth > _DEEPEST_GROUP:
            raise CaseFileError(f"byte {pos}: groups are nested deeper than {_DEEPEST_GROUP}")
    return pos


def run_of_records(buffer: memoryview, pos: int, end: int, head: bytes, size: int) -> tuple[Array, int]:
    """The payloads of equal fields that follow each other, as rows of `size` bytes, and the position behind them.

    `head` is what each field starts with: its tag and length.
    """
    stride = len(head) + size
    wanted = np.frombuffer(head, np.uint8)
    parts = []
    window = _FIRST_WINDOW
    while True:
        n = min(end - pos, window) // stride
        rows = np.frombuffer(buffer[pos : pos + n * stride], np.uint8).reshape(n, stride)
        same = (rows[:, : len(head)] == wanted).all(axis=1)
        count = n if same.all() else int(same.argmin())
        parts.append(rows[:count, len(head) :])
        pos += count * stride
        if not count or count < n:
            return np.concatenate(parts), pos
        window = min(2 * window, _LARGEST_WINDOW)
