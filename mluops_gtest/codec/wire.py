"""Protobuf's wire format where a Python object per element would be too slow: varints and runs as arrays."""

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

_MOST_VARINT_BYTES: Final = 10
_DEEPEST_GROUP: Final = 100
# Window in which a run of single entries is looked for first; it doubles while the run goes on.
_FIRST_WINDOW: Final = 256

Buffer = memoryview


def varint(buffer: Buffer, pos: int, end: int) -> tuple[int, int]:
    """The varint at `pos` and the position behind it."""
    value = shift = 0
    for index in range(pos, min(end, pos + _MOST_VARINT_BYTES)):
        byte = buffer[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, index + 1
        shift += 7
    raise CaseFileError(f"byte {pos}: the file ends inside a number, or the number is longer than 10 bytes")


def skip(buffer: Buffer, tag: int, pos: int, end: int) -> tuple[int, int]:
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
    if not tag >> 3 or pos > end:
        raise CaseFileError(f"byte {payload}: a field reaches beyond its message; the file is cut or not a binary case")
    return payload, pos


def _skip_group(buffer: Buffer, pos: int, end: int) -> int:
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


def unpack_varints(data: Array, where: int = 0) -> Array:
    """Every varint in these bytes, as uint64; the last must be complete."""
    if not len(data):
        return np.empty(0, np.uint64)
    ends = np.flatnonzero(data < 0x80)
    if len(ends) == len(data):
        return data.astype(np.uint64)
    starts = np.empty_like(ends)
    starts[:1] = 0
    starts[1:] = ends[:-1] + 1
    lengths = ends - starts + 1
    if not len(ends) or ends[-1] != len(data) - 1 or lengths.max() > _MOST_VARINT_BYTES:
        raise CaseFileError(f"byte {where}: a list of numbers is cut, or a number is longer than 10 bytes")
    values = (data[starts] & 0x7F).astype(np.uint64)
    for k in range(1, int(lengths.max())):
        longer = np.flatnonzero(lengths > k)
        values[longer] |= (data[starts[longer] + k] & 0x7F).astype(np.uint64) << np.uint64(7 * k)
    return values


def pack_varints(values: Array) -> Array:
    """The bytes of these integers, one varint each; negative ones take ten bytes as protobuf has it."""
    words = values.astype(np.int64).view(np.uint64) if values.dtype.kind == "i" else values.astype(np.uint64)
    if not len(words) or words.max() < 0x80:
        return words.astype(np.uint8)
    lengths = np.ones(len(words), np.int64)
    for k in range(1, _MOST_VARINT_BYTES):
        lengths += words >> np.uint64(7 * k) != 0
    starts = np.cumsum(lengths) - lengths
    packed = np.empty(int(lengths.sum()), np.uint8)
    for k in range(int(lengths.max())):
        present = np.flatnonzero(lengths > k)
        more = np.where(lengths[present] > k + 1, 0x80, 0).astype(np.uint8)
        packed[starts[present] + k] = ((words[present] >> np.uint64(7 * k)) & np.uint64(0x7F)).astype(np.uint8) | more
    return packed


def encode_varint(value: int) -> bytes:
    """One varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def run_of_varints(buffer: Buffer, pos: int, end: int, tag: int) -> tuple[Array, int]:
    """The values of unpacked varint fields that follow each other from `pos` on, and the position behind them.

    Tag and value are both varints, so the run is decoded as one list in which every second number is the tag.
    """
    parts = []
    window = _FIRST_WINDOW
    while True:
        data = np.frombuffer(buffer[pos : min(end, pos + window)], np.uint8)
        stops = np.flatnonzero(data < 0x80)
        stops = stops[: len(stops) // 2 * 2]
        numbers = unpack_varints(data[: stops[-1] + 1] if len(stops) else data[:0], pos)
        count = _first_false(numbers[0::2] == tag)
        parts.append(numbers[1 : 2 * count : 2])
        pos += int(stops[2 * count - 1]) + 1 if count else 0
        if not count or 2 * count < len(numbers) or pos >= end:
            return np.concatenate(parts), pos
        window *= 2


def run_of_records(buffer: Buffer, pos: int, end: int, head: bytes, size: int) -> tuple[Array, int]:
    """The payloads of equal-sized fields that follow each other, as rows of `size` bytes, and the position behind.

    `head` is the tag (and the length, where the field has one).
    """
    stride = len(head) + size
    parts = []
    window = _FIRST_WINDOW
    wanted = np.frombuffer(head, np.uint8)
    while True:
        n = min(end - pos, window) // stride
        rows = np.frombuffer(buffer[pos : pos + n * stride], np.uint8).reshape(n, stride)
        count = _first_false((rows[:, : len(head)] == wanted).all(axis=1))
        parts.append(rows[:count, len(head) :])
        pos += count * stride
        if not count or count < n:
            return np.concatenate(parts), pos
        window *= 2


def _first_false(flags: Array) -> int:
    """How many leading elements are true."""
    return len(flags) if flags.all() else int(flags.argmin())


def aligned(buffer: Buffer, pos: int, end: int, storage: "np.dtype[np.generic]") -> Array:
    """The bytes as an array: a view where the address allows it, else a copy."""
    if (end - pos) % storage.itemsize:
        raise CaseFileError(f"byte {pos}: a list of {end - pos} bytes is not made of {storage.itemsize}-byte values")
    return np.require(np.frombuffer(buffer[pos:end], storage), requirements="A")
