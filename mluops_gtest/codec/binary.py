"""Binary case files: the long value fields go straight to and from arrays, protobuf handles the small rest."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from mluops_gtest.codec import wire
from mluops_gtest.codec.document import MOST_DIGITS, VALUE_FIELDS, Document, TensorDocument, Unknown, ValueField, joined
from mluops_gtest.codec.schema import Schema
from mluops_gtest.codec.wire import FIXED32, LENGTH, VARINT, Buffer
from mluops_gtest.errors import CaseFileError
from mluops_gtest.model.dtypes import Array

_VALUE_FIELDS: Final = {field.number: field for field in VALUE_FIELDS}
_INPUT: Final = 6
_OUTPUT: Final = 7
# Entries of one unpacked field in a row before a run is looked for: the search costs as much as a few entries.
_RUN_AFTER: Final = 16
_MOST_NESTED: Final = 8


def read_binary(data: Buffer, schema: Schema) -> Document:
    """The document of a binary case; unknown fields stay in it and are reported."""
    document = Document(schema.node())
    rest = bytearray()
    pos, end = 0, len(data)
    while pos < end:
        start = pos
        tag, pos = wire.varint(data, pos, end)
        payload, pos = wire.skip(data, tag, pos, end)
        if tag == _INPUT << 3 | LENGTH:
            document.inputs.append(_read_tensor(data, payload, pos, schema, f"input {len(document.inputs)}"))
        elif tag == _OUTPUT << 3 | LENGTH:
            document.outputs.append(_read_tensor(data, payload, pos, schema, f"output {len(document.outputs)}"))
        else:
            rest += data[start:pos]
    _parse(document.node, bytes(rest))
    document.unknown.extend(_unknown(document.node, "Node"))
    return document


def _parse(message: Any, data: bytes) -> None:
    from google.protobuf.message import DecodeError

    try:
        message.MergeFromString(data)
    except DecodeError as error:
        raise CaseFileError(f"not a binary case: {error}") from error


def _read_tensor(data: Buffer, pos: int, end: int, schema: Schema, where: str) -> TensorDocument:
    tensor = TensorDocument(schema.tensor())
    columns: dict[str, _Column] = {}
    rest = bytearray()
    last_tag = repeats = 0
    while pos < end:
        start = pos
        tag, pos = wire.varint(data, pos, end)
        payload, pos = wire.skip(data, tag, pos, end)
        field = _VALUE_FIELDS.get(tag >> 3)
        if field is None or not _fits(field, tag & 7):
            rest += data[start:pos]
            continue
        column = columns.setdefault(field.name, _Column(field))
        repeats = repeats + 1 if tag == last_tag else 0
        last_tag = tag
        if repeats < _RUN_AFTER or _is_packed(field, tag & 7):
            column.add(data, tag & 7, payload, pos)
        else:
            pos = column.add_run(data, tag, start, pos, end)
            repeats = 0
    _parse(tensor.message, bytes(rest))
    tensor.values.update((name, column.array()) for name, column in columns.items())
    tensor.unknown.extend(_unknown(tensor.message, where))
    return tensor


def _fits(field: ValueField, kind: int) -> bool:
    """The field has this wire type, packed or not; with another one protobuf calls it unknown."""
    if kind == LENGTH:
        return True
    return field.storage is not None and kind == (FIXED32 if field.storage.kind == "f" else VARINT)


def _is_packed(field: ValueField, kind: int) -> bool:
    return kind == LENGTH and field.storage is not None


class _Column:
    """The values of one field as they are found: arrays of runs, with single values between them."""

    def __init__(self, field: ValueField) -> None:
        self.field = field
        self._parts: list[Array] = []
        self._singles: list[Any] = []

    def add(self, data: Buffer, kind: int, pos: int, end: int) -> None:
        """One field of the wire, single or packed."""
        storage = self.field.storage
        if storage is None:
            if end - pos > MOST_DIGITS:
                raise _too_long(end - pos)
            self._singles.append(bytes(data[pos:end]))
        elif kind == LENGTH:
            self._flush()
            if storage.kind == "f":
                self._parts.append(wire.aligned(data, pos, end, storage))
            else:
                numbers = wire.unpack_varints(np.frombuffer(data[pos:end], np.uint8), pos)
                self._parts.append(numbers.astype(storage))
        elif kind == VARINT:
            value = wire.varint(data, pos, end)[0] & 0xFFFFFFFFFFFFFFFF
            self._singles.append(value)
        else:
            self._singles.append(bytes(data[pos:end]))

    def add_run(self, data: Buffer, tag: int, start: int, entry_end: int, end: int) -> int:
        """All fields like the one at `start` that follow each other from there; the position behind them."""
        self._flush()
        storage = self.field.storage
        if tag & 7 == VARINT:
            numbers, pos = wire.run_of_varints(data, start, end, tag)
            self._parts.append(numbers.astype(storage))
            return pos
        if storage is not None:
            size = storage.itemsize
        else:
            # A record of the run has the length of its first entry, so the head holds tag and length.
            length_at = start + len(wire.encode_varint(tag))
            size, payload = wire.varint(data, length_at, end)
            if size > MOST_DIGITS:
                raise _too_long(size)
            if not size:
                self._singles.append(b"")
                return payload
        head = bytes(data[start : entry_end - size])
        rows, pos = wire.run_of_records(data, start, end, head, size)
        kind = storage if storage is not None else np.dtype(f"S{size}")
        self._parts.append(np.ascontiguousarray(rows).view(kind).reshape(-1))
        return pos

    def array(self) -> Array:
        """All values in the order of the file."""
        self._flush()
        return joined(self._parts)

    def _flush(self) -> None:
        if not self._singles:
            return
        storage = self.field.storage
        if storage is None:
            part = np.array(self._singles, "S")
        elif storage.kind == "f":
            part = np.frombuffer(b"".join(self._singles), storage)
        else:
            part = np.array(self._singles, np.uint64).astype(storage)
        self._parts.append(part)
        self._singles = []


def _too_long(length: int) -> CaseFileError:
    return CaseFileError(f"a value_h of {length} characters; an element has at most {MOST_DIGITS} hexadecimal digits")


def _unknown(message: Any, where: str, depth: int = 0) -> Iterator[Unknown]:
    """What protobuf kept aside: fields without a name, and enumerators without a name of fields that have one."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    names = message.DESCRIPTOR.fields_by_number
    for item in UnknownFieldSet(message):  # type: ignore[attr-defined]
        known = names.get(item.field_number)
        if known is not None and known.enum_type is not None and item.wire_type == VARINT:
            # An enum is an int32; protobuf keeps negative ones as ten bytes.
            number = item.data - (1 << 64) if item.data >> 63 else item.data
            yield Unknown(where, known.name, str(number))
        else:
            yield Unknown(where, str(item.field_number))
    if depth < _MOST_NESTED:
        for field, value in message.ListFields():
            if field.message_type is not None:
                yield from _unknown(value, f"{where}, {field.name}", depth + 1)


def write_binary(document: Document) -> Iterator[Any]:
    """The bytes of a binary case, piece by piece; value arrays are spliced in without a copy."""
    yield document.node.SerializePartialToString(deterministic=True)
    for number, tensors in ((_INPUT, document.inputs), (_OUTPUT, document.outputs)):
        for tensor in tensors:
            pieces = [tensor.message.SerializePartialToString(deterministic=True)]
            for field in sorted(VALUE_FIELDS, key=lambda field: field.number):
                if field.name in tensor.values:
                    pieces += _value_pieces(field, tensor.values[field.name])
            length = sum(len(piece) for piece in pieces)
            yield wire.encode_varint(number << 3 | LENGTH) + wire.encode_varint(length)
            yield from pieces


def _value_pieces(field: ValueField, values: Array) -> list[Any]:
    if not len(values):
        return []
    tag = wire.encode_varint(field.number << 3 | LENGTH)
    if field.storage is not None:
        packed = values if field.storage.kind == "f" else wire.pack_varints(values)
        return [tag + wire.encode_varint(packed.nbytes), _bytes_of(packed)]
    lengths = np.char.str_len(values)
    if lengths.min() != lengths.max():
        return [b"".join(tag + wire.encode_varint(len(text)) + text for text in values.tolist())]
    width = int(lengths[0])
    rows = np.empty((len(values), len(tag) + 1 + width), np.uint8)
    rows[:, : len(tag) + 1] = np.frombuffer(tag + wire.encode_varint(width), np.uint8)
    if width:
        rows[:, len(tag) + 1 :] = np.ascontiguousarray(values.astype(f"S{width}")).view(np.uint8).reshape(-1, width)
    return [_bytes_of(rows)]


def _bytes_of(array: Array) -> Any:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
