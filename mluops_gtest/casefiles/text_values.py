"""Long value fields in text (`value_f: 1 value_f: 2 …`, `value_f: [1, 2, …]`) as arrays, and the gaps between them."""

import functools
import re
import warnings
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np

from mluops_gtest.base.errors import CaseFileError
from mluops_gtest.base.native.arrays import value_text
from mluops_gtest.casefiles.schema import MAX_DIGITS, ValueField, joined, shortened
from mluops_gtest.core.tensor import Array

GAP: Final = rb"\s*"
# Commas and semicolons may also separate two fields.
FIELD_GAP: Final = rb"[\s,;]*"

_gap = re.compile(GAP).match
_quote_or_comment = re.compile(rb"[\"'#]").search
_escape = re.compile(
    rb"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
).sub
_ESCAPES: Final = dict(zip(b"abfnrtv\\'\"?", b"\a\b\f\n\r\t\v\\'\"?", strict=True))
# Escapes in one match: the matcher remembers every one of them until it returns.
_ESCAPES_AT_ONCE: Final = 500
_inside = {
    quote: re.compile(rb"[^%b\\\n]*(?:\\[^\n][^%b\\\n]*){0,%d}" % (quote, quote, _ESCAPES_AT_ONCE)).match
    for quote in (b'"', b"'")
}


def without_comments(text: bytes) -> bytes:
    """The text with blanks for its comments: every place stays where it was."""
    at = text.find(b"#")
    if at < 0:
        return text
    clean = bytearray(text)
    while at >= 0:
        # A string ends on its line: whether this is a comment is settled from the line's start on.
        end = text.find(b"\n", at)
        end = end if end >= 0 else len(text)
        comment = _comment(text, text.rfind(b"\n", 0, at) + 1, end)
        clean[comment:end] = b" " * (end - comment)
        at = text.find(b"#", end)
    return bytes(clean)


def _comment(text: bytes, pos: int, end: int) -> int:
    """Where the comment of the line up to `end` starts; `end` where it has none."""
    while (found := _quote_or_comment(text, pos, end)) is not None:
        if found[0] == b"#":
            return found.start()
        pos = string_end(text, found.start())
        if pos < 0:
            # The reader refuses this line where the string starts.
            break
    return end


def string_end(text: bytes, pos: int) -> int:
    """Behind the quoted string that starts at `pos`; -1 where none starts, or where it does not end on its line."""
    quote = text[pos : pos + 1]
    inside = _inside.get(quote)
    if inside is None:
        return -1
    end = pos + 1
    while end != pos:
        pos = end
        end = inside(text, pos).end()  # type: ignore[union-attr]
        if text[end : end + 1] == quote:
            return end + 1
    return -1


def strings_at(text: bytes, pos: int) -> tuple[bytes | None, int]:
    """The value of the quoted strings from `pos` on, adjacent ones as one, and the position behind; None for none."""
    pieces = []
    while (end := string_end(text, pos)) >= 0:
        piece = text[pos + 1 : end - 1]
        pieces.append(_escape(_unescaped, piece) if b"\\" in piece else piece)
        pos = _gap(text, end).end()  # type: ignore[union-attr]
    return b"".join(pieces) if pieces else None, pos


def _unescaped(found: "re.Match[bytes]") -> bytes:
    octal, hexadecimal, short, long, char = found.groups()
    if octal is not None:
        return bytes([int(octal, 8) & 0xFF])
    if hexadecimal is not None:
        return bytes([int(hexadecimal, 16)])
    if short is not None or long is not None:
        return chr(int(short or long, 16)).encode()
    if char[0] not in _ESCAPES:
        raise ValueError(f"unknown escape \\{char.decode(errors='replace')}")
    return bytes([_ESCAPES[char[0]]])


_SIGN: Final = rb"(?:[+-]\s*)?"
REAL: Final = _SIGN + rb"(?:(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|(?i:infinity|inf|nan))"
# What may follow a number without being part of it.
REAL_END: Final = rb"[fF]?(?![\w.])"
INTEGER: Final = _SIGN + rb"(?:0[xX][0-9a-fA-F]+|\d+)"
INTEGER_END: Final = rb"(?![\w.])"
_HEX: Final = rb"[0-9a-fA-F]{1,%d}" % MAX_DIGITS
_QUOTE: Final = rb"[\"']"
HEX_DIGITS: Final = b"0123456789abcdefABCDEF"

# Values read one by one before the bulk path is tried; tiny files never pay for it.
_SINGLES: Final = 64
_WINDOW: Final = 1 << 14
_ROWS: Final = 1 << 15
_IS_HEX: Final = np.isin(np.arange(256, dtype=np.uint8), np.frombuffer(HEX_DIGITS, np.uint8))

_list_end = re.compile(GAP + rb"\]").match


class TextError(CaseFileError):
    """What is wrong at `pos`; the reader turns the position into line and column."""

    def __init__(self, pos: int, what: str) -> None:
        super().__init__(what)
        self.pos = pos


class _Form:
    """How one field is written: in a list, or with its name before every value."""

    def __init__(self, field: ValueField, in_list: bool) -> None:
        before, value, behind = (
            (_QUOTE, _HEX, _QUOTE)
            if field.storage is None
            else (b"", REAL, REAL_END)
            if field.storage.kind == "f"
            else (b"", INTEGER, INTEGER_END)
        )
        name = field.name.encode()
        separator = (GAP + b"," if in_list else FIELD_GAP + name + GAP + b":") + GAP
        self.in_list, self.name = in_list, name
        # Up to _SINGLES values with what separates them from the next; an empty group where the last one is met.
        whole = before + value + behind
        # A string with another one behind it is only a part of a value.
        last = whole + b"(?!%b)" % separator + (b"(?!%b%b)" % (GAP, _QUOTE) if field.storage is None else b"")
        self.run = re.compile(b"(?:%b%b){0,%d}(?:%b())?" % (whole, separator, _SINGLES, last)).match
        self.separator = re.compile(separator).match
        one_value = re.compile(before + b"(" + value + b")" + behind)
        self.values, self.each_value = one_value.findall, one_value.finditer
        # What stands between two values in an ordinary file, and what ends a run of them.
        self.label = b"," if in_list else name + b":"
        self.stops = (b"]",) if in_list else (b"{", b"}")


_form: Final = functools.cache(_Form)


class _Run(NamedTuple):
    """Words that were read from one place on, and how many there were before."""

    before: int
    text: bytes
    start: int
    form: _Form


class ValueColumn:
    """The values of one field of one tensor, as they are met; words become numbers when all are there."""

    def __init__(self, field: ValueField) -> None:
        self._field = field
        self._parts: list[Array] = []
        self._words: list[bytes] = []
        # Where words came from, for messages.
        self._runs: list[_Run] = []

    def read(self, text: bytes, pos: int) -> int:
        """Take the values behind `name:` and in the fields of the same name that follow; the position behind them."""
        if text[pos : pos + 1] != b"[":
            return self._read_run(text, pos, _form(self._field, False))
        opening = pos
        pos = _gap(text, pos + 1).end()  # type: ignore[union-attr]
        if text[pos : pos + 1] != b"]":
            pos = self._read_run(text, pos, _form(self._field, True))
        closing = _list_end(text, pos)
        if closing is None:
            raise TextError(opening, f"the list of {self._field.name} does not end in ']'")
        return closing.end()

    def array(self) -> Array:
        """All values in the order of the file."""
        self._flush()
        return joined(self._parts or [np.empty(0, self._field.storage or "S1")])

    def _read_run(self, text: bytes, pos: int, form: _Form) -> int:
        """Take one run of values; the position behind them.

        Words become numbers late, in parts that differ from path to path: so that every path names the first mistake
        of a file, words are looked at before any mistake behind them is told.
        """
        try:
            pos = self._read_values(text, pos, form)
        except TextError:
            self._flush()
            raise
        if self._field.storage is not None and self._field.storage.kind != "f":
            self._flush()
        return pos

    def _read_values(self, text: bytes, pos: int, form: _Form) -> int:
        singles = _SINGLES
        start = pos
        while True:
            first = pos
            words, pos, more = _general(text, pos, form, singles)
            if not words:
                if first > start and not form.in_list and text[pos : pos + 1] == b"[":
                    return self.read(text, pos)
                word, pos = self._odd_string(text, pos)
                self._words.append(word)
                found = form.separator(text, pos)
                if found is None:
                    return pos
                pos = found.end()
                continue
            self._runs.append(_Run(len(self._words), text, first, form))
            self._words += words
            if not more:
                return pos
            parts, pos = self._bulk(text, start, first, pos, form, words)
            if parts:
                self._flush()
                self._parts += parts
                singles = _SINGLES
            else:
                # Irregular text: try again only after twice as much as was read in vain.
                singles *= 2

    def _bulk(
        self, text: bytes, start: int, first: int, pos: int, form: _Form, words: list[bytes]
    ) -> tuple[list[Array], int]:
        """Values behind `words`, which were read from `first` to `pos` in a run from `start`; where they end."""
        storage = self._field.storage
        natively = value_text(text, None if form.in_list else form.name)
        if natively is not None:
            return natively.hexadecimal(pos, len(words[-1])) if storage is None else natively.numbers(pos, storage)
        limit = min(len(text), pos + max(_WINDOW, 4 * (pos - start)))
        if storage is None:
            part, pos = _hex_rows(text, first, pos, limit, words)
        else:
            part, pos = _numbers(text, pos, limit, form, self._field)
        return [part] if len(part) else [], pos

    def _odd_string(self, text: bytes, pos: int) -> tuple[bytes, int]:
        """One hexadecimal value that is written in pieces, with escapes, or with more or fewer digits than others."""
        if self._field.storage is not None:
            raise TextError(pos, _expectation(self._field))
        try:
            value, end = strings_at(text, pos)
            if value is None or value.strip(HEX_DIGITS):
                raise TextError(pos, _expectation(self._field))
            return shortened(value), end
        except (ValueError, OverflowError) as error:
            raise TextError(pos, f"{self._field.name}: {error}") from None

    def _flush(self) -> None:
        if self._words:
            self._parts.append(self._numbers_of_words())
            self._words = []
            self._runs = []

    def _numbers_of_words(self) -> Array:
        field = self._field
        if field.storage is None:
            return np.array(self._words, "S")
        if field.storage.kind == "f":
            # As protobuf does: to double first, then to float; a double too large for a float is an infinity.
            with np.errstate(over="ignore"):
                return np.array([real(word) for word in self._words], np.float64).astype(field.storage)
        low, high = field.limits
        numbers: list[int] = []
        for word in self._words:
            try:
                number = integer(word)
            except ValueError as error:
                raise TextError(self._place(len(numbers)), f"{field.name}: {error}") from None
            if not low <= number <= high:
                where = self._place(len(numbers))
                raise TextError(where, f"{field.name}: {str(number)[:40]} does not fit {field.storage.name}")
            numbers.append(number)
        return np.array(numbers, field.storage)

    def _place(self, index: int) -> int:
        """Where this word stands."""
        run = next(run for run in reversed(self._runs) if run.before <= index)
        found = islice(run.form.each_value(run.text, run.start), index - run.before, None)
        return next(found).start(1)


def _general(text: bytes, pos: int, form: _Form, most: int) -> tuple[list[bytes], int, bool]:
    """At least `most` values if there are so many, the position behind, and whether another must follow there."""
    words: list[bytes] = []
    while len(words) < most:
        found = form.run(text, pos)
        assert found is not None, "the pattern also matches nothing"
        if found.end() == pos:
            break
        words += form.values(found[0])
        pos = found.end()
        if found.lastindex:
            return words, pos, False
    return words, pos, True


def _expectation(field: ValueField) -> str:
    if field.storage is None:
        return f"{field.name} must be a quoted string of hexadecimal digits"
    return f"{field.name} must be {'a number' if field.storage.kind == 'f' else 'an integer'}"


def real(word: bytes) -> float:
    """The number of a REAL literal without its suffix."""
    try:
        return float(word)
    except ValueError:  # a blank between sign and number
        return float(b"".join(word.split()))


def integer(word: bytes) -> int:
    """The number of an INTEGER literal: decimal, 0x… hexadecimal, or 0… octal; ValueError for anything else."""
    try:
        return int(word, 0)
    except ValueError:
        # A blank behind the sign, or an octal number; what fails here has a digit 8 or thousands of digits.
        word = b"".join(word.split())
        return int(word, 8 if word.lstrip(b"+-").startswith(b"0") else 0)


def _hex_rows(text: bytes, first: int, pos: int, limit: int, words: list[bytes]) -> tuple[Array, int]:
    """Strings that go on at the distance of the last two `words`, as long as everything but their digits repeats."""
    digits = len(words[-1])
    parts = [np.empty(0, f"S{digits}")]
    # A string starts with its quotation mark.
    last = text.rfind(words[-1], first, pos) - 1
    stride = pos - last
    if len(words) < 2 or text[last - stride + 1 : last - stride + 1 + len(words[-2])] != words[-2]:
        return parts[0], pos
    template = np.frombuffer(text, np.uint8, stride, last)
    while (n := min(_ROWS, (limit - pos) // stride)) > 0:
        rows = np.frombuffer(text, np.uint8, n * stride, pos).reshape(n, stride)
        chars = np.ascontiguousarray(rows[:, 1 : 1 + digits])
        same = (rows[:, 1 + digits :] == template[1 + digits :], rows[:, :1] == template[0], _IS_HEX[chars])
        # Which rows differ is asked only where some do: to reduce short rows is slow.
        count = n
        if not all(part.all() for part in same):
            count = min(int(part.all(axis=1).argmin()) for part in same if not part.all())
        parts.append(chars[:count].view(f"S{digits}").reshape(-1))
        pos += count * stride
        if count < n:
            break
    # A gap that the rows did not have may precede the next value.
    return np.concatenate(parts), _gap(text, pos).end()  # type: ignore[union-attr]


def _numbers(text: bytes, pos: int, limit: int, form: _Form, field: ValueField) -> tuple[Array, int]:
    """The numbers of a window up to its last label; empty if there is anything but numbers and labels."""
    storage: Any = field.storage
    for stop in form.stops:
        found = text.find(stop, pos, limit)
        limit = found if found >= 0 else limit
    end = text.rfind(form.label, pos, limit)
    if end > pos:
        body = text[pos:end]
        numbers = _parse(body, form.label, field)
        if numbers is not None and len(numbers) == body.count(form.label) + 1:
            return numbers, _gap(text, end + len(form.label)).end()  # type: ignore[union-attr]
    return np.empty(0, storage), pos


def _parse(body: bytes, label: bytes, field: ValueField) -> Array | None:
    """Numbers between labels by numpy's parser; None where it might read them otherwise than protobuf."""
    storage: Any = field.storage
    whole = storage.kind != "f"
    wide: Any = storage if not whole else np.dtype("<i8") if storage.kind == "i" else np.dtype("<u8")
    if whole and (_has_leading_zero(body) or _has_lone_sign(body) or (storage.kind == "u" and b"-" in body)):
        return None
    with warnings.catch_warnings():
        # Before numpy 2.3 unmatched data is a warning, since then an error.
        warnings.simplefilter("error", DeprecationWarning)
        try:
            numbers: Array = np.fromstring(body, wide, sep=f" {label.decode()} ")
        except (ValueError, DeprecationWarning):
            return None
    if not whole:
        # numpy drops the sign of -nan.
        return None if np.isnan(numbers).any() and b"-nan" in body.lower() else numbers
    # numpy silently stops at the limits of 64 bits; the general path tells what is really there.
    limits = np.iinfo(wide)
    least, most = field.limits
    low, high = max(least, limits.min + (limits.min < 0)), min(most, limits.max - 1)
    return numbers.astype(storage) if numbers.min() >= low and numbers.max() <= high else None


def _has_leading_zero(body: bytes) -> bool:
    """Some number starts with 0 and goes on: octal or hexadecimal."""
    chars = np.frombuffer(body, np.uint8)
    zeros = np.flatnonzero(chars[:-1] == ord("0"))
    before, after = chars[zeros - 1], chars[zeros + 1]
    starts = (before < ord("0")) | (before > ord("9"))
    starts[:1] |= zeros[:1] == 0
    return bool((starts & (after >= ord("0"))).any())


def _has_lone_sign(body: bytes) -> bool:
    """Some sign has no digit behind it: numpy takes it for a zero."""
    chars = np.frombuffer(body, np.uint8)
    signs = np.flatnonzero((chars == ord("-")) | (chars == ord("+")))
    after = chars[np.minimum(signs + 1, len(chars) - 1)]
    return bool(((after < ord("0")) | (after > ord("9"))).any())
