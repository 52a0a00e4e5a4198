"""Small text cases in their ordinary form: all tokens come from one regular expression.

Anything else (comments, lists, escapes, unknown fields, mistakes) gives None and is left to the general reader, which
would read what is read here in the same way.
"""

import re
from typing import Any, Final

import numpy as np

from mluops_gtest.codec.schema.document import MAX_DIGITS, Document, TensorDocument, ValueField
from mluops_gtest.codec.schema.schema import Field, Schema
from mluops_gtest.model.dtypes import Array

# Beyond this the general reader's way with long runs of values is faster.
_MAX_TEXT: Final = 1 << 14
_DIGITS: Final = b"0123456789abcdefABCDEF"
_BOOLS: Final = {b"true": True, b"false": False}
# A name with a word, with a string or with an opening bracket; a closing bracket; else all the rest.
_tokens = re.compile(
    rb"\s*(?:([A-Za-z_]\w*|\[[\w.]+\])(?::[ ]*(?:([-+.\w]+)|\"([^\"'\\\n]*)\")|[ ]*(\{))(?=\s)|(\})(?!\S)|(\S[\s\S]*))"
).findall


class _NotPlainError(Exception):
    """Something that the general reader must look at."""


def read_plain_text(text: bytes, schema: Schema) -> Document | None:
    """The document of a text case; None where it is not as short and as plain as it could be."""
    if len(text) > _MAX_TEXT:
        return None
    try:
        return _read(_tokens(text), schema)
    except (_NotPlainError, ValueError, IndexError, OverflowError):
        # What protobuf does not take is told by the general reader, with its place.
        return None


def _read(tokens: list[tuple[bytes, ...]], schema: Schema) -> Document:
    document = Document(schema.node())
    message, fields, tensor = document.node, schema.fields, None
    seen: set[bytes] = set()
    columns: dict[bytes, tuple[ValueField, list[bytes]]] = {}
    outer: list[Any] = []
    for name, word, string, opening, closing, _ in tokens:
        column = columns.get(name)
        if column is not None:
            column[1].append(string if column[0].storage is None else word)
            continue
        if closing:
            _fill(tensor, columns)
            # IndexError: nothing is open.
            message, fields, tensor, seen, columns = outer.pop()
            continue
        # The rest that is no token has no name either.
        field = fields.get(name)
        if field is None or (name in seen and not field.repeated):
            raise _NotPlainError
        seen.add(name)
        if opening:
            if field.kind != "message":
                raise _NotPlainError
            outer.append((message, fields, tensor, seen, columns))
            message, tensor = _nested(document, message, field, tensor, schema)
            fields, seen, columns = field.fields, set(), {}
        elif field.values is not None:
            if tensor is None or message is not tensor.message:
                raise _NotPlainError
            columns[name] = field.values, [string if field.values.storage is None else word]
        elif field.repeated:
            getattr(message, field.name).append(_value(field, word, string))
        else:
            setattr(message, field.name, _value(field, word, string))
    if outer:
        raise _NotPlainError
    return document


def _fill(tensor: TensorDocument | None, columns: dict[bytes, tuple[ValueField, list[bytes]]]) -> None:
    for field, words in columns.values():
        assert tensor is not None, "only tensors have columns"
        tensor.values[field.name] = _array(field, words)


def _nested(
    document: Document, message: Any, field: Field, tensor: TensorDocument | None, schema: Schema
) -> tuple[Any, TensorDocument | None]:
    """The message that opens, and the tensor that it is or is in."""
    if message is document.node and field.name in ("input", "output"):
        tensor = TensorDocument(schema.tensor())
        (document.inputs if field.name == "input" else document.outputs).append(tensor)
        return tensor.message, tensor
    nested = message.Extensions[schema.expect] if field.name[0] == "[" else getattr(message, field.name)
    nested.SetInParent()
    return nested, tensor


def _value(field: Field, word: bytes, string: bytes) -> Any:
    kind = field.kind
    if kind == "string" and not word:
        return string.decode()
    if kind == "integer":
        return _integer(word)
    if kind == "real":
        return _reals([word])[0]
    value = field.words.get(word) if kind == "enum" else _BOOLS.get(word) if kind == "bool" else None
    if value is None:
        raise _NotPlainError
    return value


def _array(field: ValueField, words: list[bytes]) -> Array:
    if field.storage is None:
        if min(map(len, words)) < 1 or max(map(len, words)) > MAX_DIGITS or b"".join(words).strip(_DIGITS):
            raise _NotPlainError
        return np.array(words, "S")
    if field.storage.kind == "f":
        # As protobuf does: to double first, then to float; a double too large for a float is an infinity.
        with np.errstate(over="ignore"):
            return np.array(_reals(words), np.float64).astype(field.storage)
    numbers = list(map(_integer, words))
    low, high = field.limits
    if min(numbers) < low or max(numbers) > high:
        raise _NotPlainError
    return np.array(numbers, field.storage)


def _integer(word: bytes) -> int:
    """A decimal number; those with a leading zero are of another base."""
    digits = word[1:] if word[:1] == b"-" else word
    if not digits.isdigit() or (digits[0] == ord("0") and len(digits) > 1):
        raise _NotPlainError
    return int(word)


def _reals(words: list[bytes]) -> list[float]:
    # Python alone allows underscores in numbers.
    if any(b"_" in word for word in words):
        raise _NotPlainError
    return list(map(float, words))
