"""Small text cases in their ordinary form: all tokens come from one regular expression.

Anything else (comments, lists, escapes, unknown fields, mistakes) gives None and is left to the general reader, which
would read what is read here in the same way.
"""

import re
from typing import Any, Final

import numpy as np

from mluops_gtest.casefiles.schema import MAX_DIGITS, Document, Field, Fields, Schema, TensorDocument, ValueField
from mluops_gtest.core.tensor import Array

# Beyond this the general reader's way with long runs of values is faster.
_MAX_TEXT: Final = 1 << 14
_DIGITS: Final = b"0123456789abcdefABCDEF"
_BOOLS: Final = {b"true": True, b"false": False}
_SCALAR: Final = rb"(?:[-+.\w]+|\"[^\"'\\\n]*\")"
# A run of values of one field; a name with a word, with a string or with an opening bracket; a closing bracket; else
# all the rest.
_tokens = re.compile(
    rb"\s*(?:((value_[a-z]+):[ ]%b\s(?:\2:[ ]%b\s)*)" % (_SCALAR, _SCALAR)
    + rb"|([A-Za-z_]\w*|\[[\w.]+\])(?::[ ]*(?:([-+.\w]+)|\"([^\"'\\\n]*)\")|[ ]*(\{))(?=\s)|(\})(?!\S)|(\S[\s\S]*))"
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
    outer: list[Any] = []
    for run, values, name, word, string, opening, closing, _ in tokens:
        if run:
            _take(run, values, message, fields, tensor)
            continue
        if closing:
            # IndexError: nothing is open.
            message, fields, tensor, seen = outer.pop()
            continue
        # The rest that is no token has no name either.
        field = fields.get(name)
        if field is None or (name in seen and not field.repeated):
            raise _NotPlainError
        seen.add(name)
        if opening:
            outer.append((message, fields, tensor, seen))
            message, tensor = _nested(document, message, field, tensor, schema)
            fields, seen = field.fields, set()
        elif field.repeated:
            getattr(message, field.name).append(_value(field, word, string))
        else:
            setattr(message, field.name, _value(field, word, string))
    if outer:
        raise _NotPlainError
    return document


def _take(run: bytes, name: bytes, message: Any, fields: Fields, tensor: TensorDocument | None) -> None:
    """The values of one field that follow each other; a field that goes on later is not plain."""
    field = fields.get(name)
    if field is None or field.values is None or tensor is None or message is not tensor.message:
        raise _NotPlainError
    if field.name in tensor.values:
        raise _NotPlainError
    tensor.values[field.name] = _array(field.values, run)


def _nested(
    document: Document, message: Any, field: Field, tensor: TensorDocument | None, schema: Schema
) -> tuple[Any, TensorDocument | None]:
    """The message that opens, and the tensor that it is or is in."""
    if field.kind != "message":
        raise _NotPlainError
    if message is document.node and field.name in ("input", "output"):
        tensor = TensorDocument(schema.tensor())
        (document.inputs if field.name == "input" else document.outputs).append(tensor)
        return tensor.message, tensor
    nested = message.Extensions[schema.expect] if field.name[0] == "[" else getattr(message, field.name)
    nested.SetInParent()
    return nested, tensor


def _value(field: Field, word: bytes, string: bytes) -> Any:
    kind = field.kind
    if field.values is not None:
        raise _NotPlainError
    if kind == "integer":
        return _integer(word)
    if kind == "string" and not word:
        return string.decode()
    if kind == "real" and b"_" not in word:
        return float(word)
    value = field.words.get(word) if kind == "enum" else _BOOLS.get(word) if kind == "bool" else None
    if value is None:
        raise _NotPlainError
    return value


def _array(field: ValueField, run: bytes) -> Array:
    quotes = run.count(b'"')
    labelled = (run.replace(b'"', b"") if quotes else run).split()
    # A label and a word each: a string that is empty or has blanks moves a label to the place of a word.
    words = labelled[1::2]
    if quotes != (len(labelled) if field.storage is None else 0):
        raise _NotPlainError
    if field.storage is None:
        if max(map(len, words)) > MAX_DIGITS or b"".join(words).strip(_DIGITS):
            raise _NotPlainError
        return np.array(words, "S")
    if field.storage.kind == "f":
        # Python alone allows underscores in numbers; one is in the name of every value.
        if run.count(b"_") != len(words):
            raise _NotPlainError
        # As protobuf does: to double first, then to float; a double too large for a float is an infinity.
        with np.errstate(over="ignore"):
            return np.array(list(map(float, words)), np.float64).astype(field.storage)
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
