"""Protobuf's wire format, as much of it as is needed to lift long value fields out of a file and to put them in.

Binary case files: the long value fields go straight to and from arrays, protobuf handles the small rest.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from mluops_gtest.base.errors import CaseFileError
from mluops_gtest.casefiles.schema import (
    MAX_DIGITS,
    VALUE_FIELDS,
    Document,
    Schema,
    TensorDocument,
    Unknown,
    joined,
    shortened,
    string_records,
)
from mluops_gtest.core.tensor import Array

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


_OP_NAME: Final = 5 << 3 | LENGTH
_INPUT: Final = 6 << 3 | LENGTH
_OUTPUT: Final = 7 << 3 | LENGTH
_VALUE_F: Final = 7 << 3 | LENGTH
_SINGLE_F: Final = 7 << 3 | FIXED32
_VALUE_H: Final = 9 << 3 | LENGTH
_FLOAT: Final = np.dtype("<f4")
# Equal entries in a row before a run is looked for: the search costs as much as that many single ones.
_RUN_AFTER: Final = 16


def read_binary(data: memoryview, schema: Schema) -> Document:
    """The document of a binary case; unknown fields stay in it and are reported."""
    document = Document(schema.node())
    rest = bytearray()
    pos, end = 0, len(data)
    while pos < end:
        start = pos
        tag, pos = varint(data, pos, end)
        payload, pos = skip(data, tag, pos, end)
        if tag == _INPUT:
            document.inputs.append(_read_tensor(data, payload, pos, schema, f"input {len(document.inputs)}"))
        elif tag == _OUTPUT:
            document.outputs.append(_read_tensor(data, payload, pos, schema, f"output {len(document.outputs)}"))
        else:
            rest += data[start:pos]
    _parse(document.node, rest)
    document.unknown.extend(_unknown(document.node, "Node"))
    return document


def binary_operator_name(data: memoryview) -> str:
    """The op_name of a binary case, without looking at the rest; empty if it has none."""
    name = b""
    pos, end = 0, len(data)
    while pos < end:
        tag, pos = varint(data, pos, end)
        payload, pos = skip(data, tag, pos, end)
        if tag == _OP_NAME:
            name = bytes(data[payload:pos])
    return name.decode(errors="replace")


def _parse(message: Any, data: bytearray) -> None:
    from google.protobuf.message import DecodeError

    try:
        message.MergeFromString(bytes(data))
    except DecodeError as error:
        raise CaseFileError(f"not a binary case: {error}") from error


def _read_tensor(data: memoryview, pos: int, end: int, schema: Schema, where: str) -> TensorDocument:
    tensor = TensorDocument(schema.tensor())
    rest = bytearray()
    floats = _Floats()
    strings = _Strings()
    while pos < end:
        start = pos
        tag, pos = varint(data, pos, end)
        payload, pos = skip(data, tag, pos, end)
        if tag == _VALUE_H:
            pos = strings.add(data, start, payload, pos, end)
        elif tag == _VALUE_F:
            floats.add(data[payload:pos], payload)
        elif tag == _SINGLE_F:
            floats.single += data[payload:pos]
        else:
            rest += data[start:pos]
    _parse(tensor.message, rest)
    for field in VALUE_FIELDS:
        if field.storage is not None and len(getattr(tensor.message, field.name)):
            tensor.values[field.name] = np.asarray(getattr(tensor.message, field.name), field.storage)
            tensor.message.ClearField(field.name)
    if parts := floats.all_parts():
        tensor.values["value_f"] = joined(parts)
    if strings.parts:
        tensor.values["value_h"] = joined(strings.parts)
    tensor.unknown.extend(_unknown(tensor.message, where))
    return tensor


class _Floats:
    """The entries of value_f, packed and single ones in their order; by bits, as no Python float carries every NaN."""

    def __init__(self) -> None:
        self._parts: list[Array] = []
        self.single = bytearray()

    def add(self, data: memoryview, where: int) -> None:
        """A list: a view where the address allows it, else a copy, as few things work well on unaligned arrays."""
        if len(data) % _FLOAT.itemsize:
            raise CaseFileError(f"byte {where}: a list of {len(data)} bytes is not made of 4-byte floats")
        self.all_parts().append(np.require(np.frombuffer(data, _FLOAT), requirements="A"))

    def all_parts(self) -> list[Array]:
        """What was met so far."""
        if self.single:
            self._parts.append(np.frombuffer(bytes(self.single), _FLOAT))
            self.single.clear()
        return self._parts


class _Strings:
    """The entries of value_h: single ones, and long runs of equal length at once."""

    def __init__(self) -> None:
        self.parts: list[Array] = []
        self._last = b""
        self._repeats = 0

    def add(self, data: memoryview, start: int, payload: int, pos: int, end: int) -> int:
        """The entry from `start` to `pos`, or the run that starts with it; the position behind."""
        size = pos - payload
        if not 0 < size <= MAX_DIGITS:
            try:
                digits = shortened(bytes(data[payload:pos]))
            except ValueError as error:
                raise CaseFileError(f"byte {start}: value_h: {error}") from None
            self._repeats = 0
            self._add(np.frombuffer(digits, np.uint8), len(digits), start)
            return pos
        head = bytes(data[start:payload])
        self._repeats = self._repeats + 1 if head == self._last else 0
        self._last = head
        if self._repeats < _RUN_AFTER:
            self._add(np.frombuffer(data[payload:pos], np.uint8), size, start)
            return pos
        self._repeats = 0
        rows, pos = run_of_records(data, start, end, head, size)
        self._add(np.ascontiguousarray(rows), size, start)
        return pos

    def _add(self, chars: Array, size: int, start: int) -> None:
        # An array of strings does not keep zero bytes at the end of one.
        if not chars.all():
            raise CaseFileError(f"byte {start}: value_h has an entry that is not hexadecimal")
        self.parts.append(chars.view(f"S{size}").reshape(-1))


def _unknown(message: Any, where: str) -> Iterator[Unknown]:
    """What protobuf kept aside: fields without a name, and enumerators without a name of fields that have one."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    names = message.DESCRIPTOR.fields_by_number
    for item in UnknownFieldSet(message):  # type: ignore[attr-defined]
        known = names.get(item.field_number)
        if known is not None and known.enum_type is not None and item.wire_type == VARINT:
            # An enumerator has 32 bits and a sign; what protobuf kept has 32 or 64 bits, by its version, and none.
            number = (item.data & 0xFFFF_FFFF ^ 1 << 31) - (1 << 31)
            yield Unknown(where, known.name, str(number))
        else:
            yield Unknown(where, str(item.field_number))
    for field, value in message.ListFields():
        if field.message_type is not None:
            yield from _unknown(value, f"{where}, {field.name}")


def write_binary(document: Document) -> Iterator[Any]:
    """The bytes of a binary case, piece by piece; floats and strings are spliced in as arrays."""
    yield document.node.SerializePartialToString(deterministic=True)
    for tag, tensors in ((_INPUT, document.inputs), (_OUTPUT, document.outputs)):
        for tensor in tensors:
            pieces = list(_tensor_pieces(tensor))
            yield encode_varint(tag) + encode_varint(sum(len(piece) for piece in pieces))
            yield from pieces


def _tensor_pieces(tensor: TensorDocument) -> Iterator[Any]:
    message = type(tensor.message)()
    message.CopyFrom(tensor.message)
    for name, values in tensor.values.items():
        if values.dtype.kind in "iu":
            getattr(message, name).extend(values.tolist())
    yield message.SerializePartialToString(deterministic=True)
    floats = tensor.values.get("value_f")
    if floats is not None and len(floats):
        yield encode_varint(_VALUE_F) + encode_varint(floats.nbytes)
        yield np.ascontiguousarray(floats).reshape(-1).view(np.uint8).data
    strings = tensor.values.get("value_h")
    if strings is not None and len(strings):
        yield string_records(strings, lambda length: encode_varint(_VALUE_H) + encode_varint(length))
