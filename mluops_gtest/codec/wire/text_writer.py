"""Text case files as we write them: fields in the order of their numbers, two blanks per level, one field per line."""

from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from typing import Any, Final

import numpy as np

from mluops_gtest.codec.schema.base import EXPECT_FIELD, EXPECT_PACKAGE, REMARK
from mluops_gtest.codec.schema.schema import VALUE_FIELDS, Document, TensorDocument, ValueField
from mluops_gtest.errors import CaseFileError
from mluops_gtest.model.dtypes import Array
from mluops_gtest.native.text import value_lines

_INPUT: Final = 6
_OUTPUT: Final = 7
_ESCAPES: Final = {ord("\n"): b"\\n", ord("\r"): b"\\r", ord("\t"): b"\\t", ord('"'): b'\\"', ord("\\"): b"\\\\"}
# The only NaN that a reader of text makes of the word `nan`.
_PLAIN_NAN: Final = 0x7FC00000


def write_text(document: Document) -> Iterator[Any]:
    """The bytes of a text case, piece by piece; the same document always gives the same bytes."""
    pieces: list[tuple[int, Any]] = list(_fields(document.node, b""))
    for number, name, tensors in ((_INPUT, b"input", document.inputs), (_OUTPUT, b"output", document.outputs)):
        for tensor in tensors:
            pieces.append((number, name + b" {\n"))
            pieces += [(number, piece) for piece in _tensor(tensor)]
            pieces.append((number, b"}\n"))
    yield from (piece for _, piece in sorted(pieces, key=lambda item: item[0]))


def _tensor(tensor: TensorDocument) -> Iterator[Any]:
    pieces = list(_fields(tensor.message, b"  "))
    present = [field for field in VALUE_FIELDS if len(tensor.values.get(field.name, ()))]
    pieces += [(field.number, _values(field, tensor.values[field.name])) for field in present]
    yield from (piece for _, piece in sorted(pieces, key=lambda item: item[0]))


def _fields(message: Any, indent: bytes) -> Iterator[tuple[int, bytes]]:
    """(number, text) of every field that is set."""
    for field, value in message.ListFields():
        name = field.name.encode()
        if field.is_extension:
            if _is_remark(value):
                yield -1, REMARK + quoted(value.degenerate) + b"\n"
                continue
            name = f"[{EXPECT_PACKAGE}.{EXPECT_FIELD}]".encode()
        if field.message_type is not None:
            inner = b"".join(text for _, text in _fields(value, indent + b"  "))
            yield field.number, indent + name + b" {\n" + inner + indent + b"}\n"
        else:
            # A repeated field is a container of protobuf's own.
            values = (value,) if isinstance(value, (int, float, str, bytes)) else value
            yield field.number, b"".join(indent + name + b": " + _scalar(field, item) + b"\n" for item in values)


def _is_remark(expect: Any) -> bool:
    """Nothing is expected that a plain call does not give; only the reason for a constant baseline is there."""
    return not expect.status and [field.name for field, _ in expect.ListFields()] == ["status", "degenerate"]


def _scalar(field: Any, value: Any) -> bytes:
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name).encode()
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, int):
        return str(value).encode()
    if isinstance(value, float):
        # A float field holds a rounded double: its shortest text is that of the float.
        is_float = field.type == field.TYPE_FLOAT
        return _shortest(np.array([value], "<f4"))[0] if is_float else str(value).encode()
    return quoted(value)


def quoted(value: str | bytes) -> bytes:
    """A string literal; everything that is not printable ASCII is escaped."""
    raw = value.encode() if isinstance(value, str) else value
    return b'"' + b"".join(_ESCAPES.get(c) or (bytes([c]) if 32 <= c < 127 else b"\\%03o" % c) for c in raw) + b'"'


def _values(field: ValueField, values: Array) -> Any:
    """One line per value, not indented: blanks would be a tenth of the file."""
    label = field.name.encode() + b": "
    if field.storage is None:
        return _strings(label, values)
    if field.storage.kind == "f":
        odd_nan = np.isnan(values) & (values.view("<u4") != _PLAIN_NAN)
        if odd_nan.any():
            bits = int(values.view("<u4")[odd_nan][0])
            raise CaseFileError(f"value_f holds the NaN {bits:#010x}, which a text cannot keep; store it as value_h.")
    written = value_lines(values, label, partial(spelled_lines, label))
    return spelled_lines(label, values) if written is None else written


def spelled_lines(label: bytes, values: Array) -> bytes:
    """A line for each number, spelled by numpy and Python."""
    words = _shortest(values) if values.dtype.kind == "f" else (str(value).encode() for value in values.tolist())
    return label + b"\n".join(words).replace(b"\n", b"\n" + label) + b"\n"


def _shortest(values: Array) -> list[bytes]:
    """Floats with the fewest digits that give them back, with an exponent below 1e-4 and from 1e16 on."""
    words: list[bytes] = values.astype("S32").tolist()
    size = np.abs(values)
    # From 1e6 on it depends on the version of numpy.
    for place in np.flatnonzero((size >= 1e6) & (size < 1e16)):
        whole = f"{Decimal(words[place].decode()):f}"
        words[place] = (whole if "." in whole else f"{whole}.0").encode()
    return words


def _strings(label: bytes, strings: Array) -> Any:
    lengths = np.char.str_len(strings)
    width = int(lengths[0])
    if (lengths != width).any():
        return b"".join(label + b'"' + text + b'"\n' for text in strings.tolist())
    head = label + b'"'
    rows = np.empty((len(strings), len(head) + width + 2), np.uint8)
    rows[:, : len(head)] = np.frombuffer(head, np.uint8)
    rows[:, len(head) : -2] = np.ascontiguousarray(strings, f"S{width}").view(np.uint8).reshape(-1, width)
    rows[:, -2:] = np.frombuffer(b'"\n', np.uint8)
    return rows.reshape(-1).data
