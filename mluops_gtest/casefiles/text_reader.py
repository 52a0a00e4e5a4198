"""Text case files: protobuf's text format, read by the schema; what the schema lacks is skipped and reported.

Of small cases in their ordinary form all tokens come from one regular expression. Anything else (comments, lists,
escapes, unknown fields, mistakes) is left to the general reader, which would read what is read there in the same way.
"""

import re
from typing import Any, Final

import numpy as np

from mluops_gtest.base.errors import CaseFileError
from mluops_gtest.casefiles.schema import (
    MAX_DIGITS,
    REMARK,
    Document,
    Field,
    Fields,
    Schema,
    TensorDocument,
    Unknown,
    ValueField,
)
from mluops_gtest.casefiles.text_values import (
    FIELD_GAP,
    GAP,
    HEX_DIGITS,
    INTEGER,
    INTEGER_END,
    REAL,
    REAL_END,
    TextError,
    ValueColumn,
    integer,
    real,
    string_end,
    strings_at,
    without_comments,
)
from mluops_gtest.core.tensor import Array

_DEEPEST: Final = 100
_MAX_TOLD: Final = 100

# The name, the colon, and a word that is certainly the whole value.
_field = re.compile(FIELD_GAP + rb"([A-Za-z_]\w*|\[[^\]\n]*\])" + GAP + rb"(:?)" + GAP + rb"(\w+(?=\s))?").match
_end = re.compile(FIELD_GAP + rb"([}>]|\Z)").match
_after_comma = re.compile(GAP + rb"([,\]])" + GAP).match
_gap = re.compile(GAP).match
_field_gap = re.compile(FIELD_GAP).match
_real = re.compile(rb"(" + REAL + rb")" + REAL_END).match
_integer = re.compile(rb"(" + INTEGER + rb")" + INTEGER_END).match
_word = re.compile(rb"(-?[\w.]+)").match
_token = re.compile(GAP + rb"(?:([\"'])|([{<\[])|([}>\]])|[-+\w./]+|[:,;])").match

_BOOLS: Final = {b"true": True, b"t": True, b"True": True, b"1": True} | dict.fromkeys(
    (b"false", b"f", b"False", b"0"), False
)
_CLOSING: Final = {b"{": b"}", b"<": b">", b"[": b"]"}


def read_text(text: bytes, schema: Schema) -> Document:
    """The document of a text case; errors start with line:column."""
    plain = read_plain_text(text, schema)
    return plain if plain is not None else read_any_text(text, schema)


def read_any_text(text: bytes, schema: Schema) -> Document:
    """The same by the general reader alone."""
    document = _TextReader(without_comments(text), schema).read(schema.fields)
    remark = _remark(text)
    if remark and not document.node.HasExtension(schema.expect):
        expect = document.node.Extensions[schema.expect]
        expect.status, expect.degenerate = 0, remark
    return document


def _remark(text: bytes) -> str:
    """Why the baseline is constant, by the first line; empty where that is anything else, another comment included."""
    try:
        value, _ = strings_at(text, len(REMARK)) if text.startswith(REMARK) else (None, 0)
        return (value or b"").decode()
    except (ValueError, OverflowError):
        return ""


def text_operator_name(text: bytes, schema: Schema) -> str:
    """The op_name of a text case, looking only at brackets and strings besides; empty if it has none."""
    only = {b"op_name": schema.fields[b"op_name"]}
    return str(_TextReader(without_comments(text), schema).read(only).node.op_name)


class _TextReader:
    def __init__(self, text: bytes, schema: Schema) -> None:
        self._text = text
        self._schema = schema
        self._document = Document(schema.node())
        # Places are asked for in rising order: lines are counted once.
        self._counted = 0
        self._line = 1
        self._line_start = 0

    def read(self, fields: Fields) -> Document:
        """The document, of which these fields are known."""
        try:
            self._message(self._document.node, fields, self._document, 0, b"")
        except TextError as error:
            raise CaseFileError(f"{self._place(error.pos)}: {error}") from None
        return self._document

    def _place(self, pos: int) -> str:
        """line:column, both from 1."""
        if pos < self._counted:
            self._counted, self._line, self._line_start = 0, 1, 0
        lines = self._text.count(b"\n", self._counted, pos)
        if lines:
            self._line += lines
            self._line_start = self._text.rfind(b"\n", self._counted, pos) + 1
        self._counted = pos
        return f"{self._line}:{pos - self._line_start + 1}"

    def _message(self, message: Any, fields: Fields, owner: Document | TensorDocument, pos: int, close: bytes) -> int:
        """Fill `message` up to its closing bracket; values and unknown fields go to `owner`."""
        text = self._text
        seen = set()
        columns: dict[str, ValueColumn] = {}
        while (found := _field(text, pos)) is not None:
            name, colon, word = found.groups()
            pos = found.end() if word is None else found.start(3)
            field = fields.get(name)
            if field is None:
                owner.unknown.append(Unknown(self._place(found.start(1)), _quote_token(name)))
                pos = self._skip(pos, colon)
                continue
            if not field.repeated:
                if name in seen:
                    raise TextError(found.start(1), f"{field.name} is given twice")
                seen.add(name)
            value = _plain(field, word) if colon and word is not None else None
            if value is not None:
                _store(message, field, value, pos)
                pos = found.end()
            elif not colon and field.kind != "message":
                raise TextError(pos, f"expected ':' after {field.name}")
            elif field.values is not None:
                if field.name not in columns:
                    columns[field.name] = ValueColumn(field.values)
                pos = columns[field.name].read(text, pos)
            else:
                pos = self._items(message, field, owner, pos)
        if isinstance(owner, TensorDocument):
            owner.values.update((name, column.array()) for name, column in columns.items())
        return self._close(pos, close)

    def _close(self, pos: int, close: bytes) -> int:
        found = _end(self._text, pos)
        if found is None:
            raise TextError(_field_gap(self._text, pos).end(), "expected the name of a field")  # type: ignore[union-attr]
        if found[1] != close:
            wanted = f"'{close.decode()}'" if close else "the end of the file"
            met = f"'{found[1].decode()}'" if found[1] else "the end of the file"
            raise TextError(found.start(1), f"expected a field or {wanted}, met {met}")
        return found.end()

    def _items(self, message: Any, field: Field, owner: Document | TensorDocument, pos: int) -> int:
        """One message or scalar, or a list of them where the field is repeated."""
        read = self._nested if field.kind == "message" else self._scalar
        if not (field.repeated and self._text[pos : pos + 1] == b"["):
            return read(message, field, owner, pos)
        pos = _gap(self._text, pos + 1).end()  # type: ignore[union-attr]
        if self._text[pos : pos + 1] == b"]":
            return pos + 1
        while True:
            pos = read(message, field, owner, pos)
            found = _after_comma(self._text, pos)
            if found is None:
                raise TextError(pos, f"expected ',' or ']' in the list of {field.name}")
            pos = found.end()
            if found[1] == b"]":
                return pos

    def _nested(self, message: Any, field: Field, owner: Document | TensorDocument, pos: int) -> int:
        opening = self._text[pos : pos + 1]
        if opening not in (b"{", b"<"):
            raise TextError(pos, f"expected '{{' after {field.name}")
        nested, tensor = _open_message(self._document, message, field, self._schema)
        return self._message(nested, field.fields, owner if tensor is None else tensor, pos + 1, _CLOSING[opening])

    def _scalar(self, message: Any, field: Field, owner: Document | TensorDocument, pos: int) -> int:
        value, end = self._value(field, pos)
        if value is None:
            owner.unknown.append(Unknown(self._place(pos), field.name, _quote_token(self._text[pos:end])))
            return end
        _store(message, field, value, pos)
        return end

    def _value(self, field: Field, pos: int) -> tuple[Any, int]:
        """The value at `pos` and the position behind it; None for an enumerator that the schema does not know."""
        kind = field.kind
        if kind == "string":
            return self._strings(field, pos)
        found = (_integer if kind == "integer" else _real if kind == "real" else _word)(self._text, pos)
        if found is None:
            article = "a number" if kind == "real" else "a name" if kind == "enum" else f"{kind!s} value"
            raise TextError(pos, f"{field.name} must be {article}")
        word = found[1]
        if kind == "integer":
            return self._integer(word, pos), found.end()
        if kind == "real":
            return real(word), found.end()
        if kind == "bool":
            if word not in _BOOLS:
                raise TextError(pos, f"{field.name} must be true or false")
            return _BOOLS[word], found.end()
        number = field.words.get(word)
        if number is None and _integer(word, 0) is not None and self._integer(word, pos) in field.words.values():
            number = self._integer(word, pos)
        return number, found.end()

    def _integer(self, word: bytes, pos: int) -> int:
        try:
            return integer(word)
        except ValueError as error:
            raise TextError(pos, str(error)) from None

    def _strings(self, field: Field, pos: int) -> tuple[str, int]:
        """Adjacent strings are one."""
        try:
            value, end = strings_at(self._text, pos)
            if value is None:
                raise TextError(pos, f"{field.name} must be a quoted string on one line")
            return value.decode(), end
        except (ValueError, OverflowError) as error:
            raise TextError(pos, f"{field.name}: {error}") from None

    def _skip(self, pos: int, colon: bytes) -> int:
        """Behind the value of an unknown field: a scalar, a list, or a message however deep."""
        text = self._text
        start = pos
        closers: list[bytes] = []
        while True:
            found = _token(text, pos)
            end = -1 if found is None else string_end(text, found.start(1)) if found[1] else found.end()
            if found is None or end < 0:
                raise TextError(pos, "the value of an unknown field does not end" if closers else "expected a value")
            pos = end
            if found[2]:
                closers.append(_CLOSING[found[2]])
                if len(closers) > _DEEPEST:
                    raise TextError(start, f"nested deeper than {_DEEPEST}")
            elif found[3]:
                if not closers or closers.pop() != found[3]:
                    raise TextError(found.start(3), f"unexpected '{found[3].decode()}'")
            elif not closers and not colon:
                raise TextError(start, "expected ':' or '{' after the name of a field")
            if closers:
                continue
            while found[1] and end >= 0:
                pos = _gap(text, end).end()  # type: ignore[union-attr]
                end = string_end(text, pos)
            return pos


def _quote_token(word: bytes) -> str:
    """A word of the file for messages, shortened if it is too long."""
    return word[:_MAX_TOLD].decode(errors="replace") + "…" * (len(word) > _MAX_TOLD)


def _plain(field: Field, word: bytes) -> int | None:
    """The value of an ordinary enumerator or decimal number; None where a closer look is needed."""
    if field.kind == "enum":
        return field.words.get(word)
    if field.kind == "integer" and field.values is None and word.isdigit() and (word[0] != ord("0") or len(word) == 1):
        return int(word) if len(word) < 20 else None
    return None


def _store(message: Any, field: Field, value: Any, pos: int) -> None:
    try:
        if field.repeated:
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)
    except ValueError as error:
        raise TextError(pos, f"{field.name}: {error}") from None


def _open_message(document: Document, message: Any, field: Field, schema: Schema) -> tuple[Any, TensorDocument | None]:
    """The message that the field opens, and the tensor that it is; None where it is none."""
    if message is document.node and field.name in ("input", "output"):
        tensor = TensorDocument(schema.tensor())
        (document.inputs if field.name == "input" else document.outputs).append(tensor)
        return tensor.message, tensor
    nested = message.Extensions[schema.expect] if field.name[0] == "[" else getattr(message, field.name)
    nested.SetInParent()
    return nested, None


# Beyond this the general reader's way with long runs of values is faster.
_MAX_TEXT: Final = 1 << 14
_PLAIN_BOOLS: Final = {b"true": True, b"false": False}
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
        return _read_tokens(_tokens(text), schema)
    except (_NotPlainError, ValueError, IndexError, OverflowError):
        # What protobuf does not take is told by the general reader, with its place.
        return None


def _read_tokens(tokens: list[tuple[bytes, ...]], schema: Schema) -> Document:
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
        if field is None or (name in seen and not field.repeated) or (opening and field.kind != "message"):
            raise _NotPlainError
        seen.add(name)
        if opening:
            outer.append((message, fields, tensor, seen))
            message, opened = _open_message(document, message, field, schema)
            fields, tensor, seen = field.fields, opened or tensor, set()
        elif field.repeated:
            getattr(message, field.name).append(_plain_value(field, word, string))
        else:
            setattr(message, field.name, _plain_value(field, word, string))
    if outer:
        raise _NotPlainError
    return document


def _take(run: bytes, name: bytes, message: Any, fields: Fields, tensor: TensorDocument | None) -> None:
    """The values of one field that follow each other; a field that goes on later is not plain."""
    field = fields.get(name)
    if field is None or field.values is None or tensor is None:
        raise _NotPlainError
    if message is not tensor.message or field.name in tensor.values:
        raise _NotPlainError
    tensor.values[field.name] = _array(field.values, run)


def _plain_value(field: Field, word: bytes, string: bytes) -> Any:
    kind = field.kind
    if field.values is not None:
        raise _NotPlainError
    if kind == "integer":
        return _plain_integer(word)
    if kind == "string" and not word:
        return string.decode()
    if kind == "real" and b"_" not in word:
        return float(word)
    value = field.words.get(word) if kind == "enum" else _PLAIN_BOOLS.get(word) if kind == "bool" else None
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
        if max(map(len, words)) > MAX_DIGITS or b"".join(words).strip(HEX_DIGITS):
            raise _NotPlainError
        return np.array(words, "S")
    if field.storage.kind == "f":
        # Python alone allows underscores in numbers; one is in the name of every value.
        if run.count(b"_") != len(words):
            raise _NotPlainError
        # As protobuf does: to double first, then to float; a double too large for a float is an infinity.
        with np.errstate(over="ignore"):
            return np.array(list(map(float, words)), np.float64).astype(field.storage)
    numbers = list(map(_plain_integer, words))
    low, high = field.limits
    if min(numbers) < low or max(numbers) > high:
        raise _NotPlainError
    return np.array(numbers, field.storage)


def _plain_integer(word: bytes) -> int:
    """A decimal number; those with a leading zero are of another base."""
    digits = word[1:] if word[:1] == b"-" else word
    if not digits.isdigit() or (digits[0] == ord("0") and len(digits) > 1):
        raise _NotPlainError
    return int(word)
