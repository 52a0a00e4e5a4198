"""Reads values back from files and checks their types; errors name file, place, expected and found value."""

import contextlib
import json
import math
import os
import re
import stat
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from mluops_gtest.base.errors import ContentError, repr_short
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.text import map_texts


@contextlib.contextmanager
def open_plain_file(path: Path) -> Iterator[BinaryIO]:
    """A regular file, opened for reading; the caller handles OSError."""
    # To open a pipe would otherwise wait for its writer.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise ContentError(f"{path}: not a plain file; name a regular file.")
        yield file


def plain_file_bytes(path: Path, most: int) -> bytes:
    """The content of a regular file up to a size limit; the caller handles OSError."""
    with open_plain_file(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ContentError(f"{path}: larger than {most >> 20} MiB, too large for such a file.")
    return data


T = TypeVar("T")

# A report of half a million results; what is larger was not written by us, and would fill the memory.
MAX_BYTES: Final = 1 << 29
# SQLite, statistics and the C interface count no further.
MAX_INTEGER: Final = 2**63 - 1
Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_INTEGER)]
# Values that are kept as they are (what a backend or a machine says of itself) may not be nested deeper than this.
MAX_LEVELS: Final = 16

_MESSAGE: Final = re.compile(r"(?P<what>.*?)(?: - at `(?P<at>[^`]*)`)?", re.DOTALL)
_EXPECTED: Final = re.compile(r"Expected `(?P<types>[^`]*)`(?P<more> of length .*?| [<>]= \S+)?(?:, got .*)?")
_MISSING: Final = re.compile(r"Object missing required field `(?P<name>[^`]*)`")
_STEP: Final = re.compile(r"\.(?P<name>\w+)|\[(?P<index>\d+|\.\.\.)\]")
_BYTE: Final = re.compile(r"\s*\(byte (\d+)\)")
_WORDS: Final = {
    "object": "an object",
    "array": "a list",
    "str": "a text",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
}


class Source(Value):
    """Where values come from, for messages: the file, the place of the value in it, and what the user can do."""

    file: str
    remedy: str
    at: str = "$"

    def error(self, what: str, at: str = "") -> ContentError:
        """The message about the value, or about the part of it at `at`, e.g. `.seconds`."""
        place = f"{self.at}{at}"
        where = "" if place == "$" else f" {place}:"
        return ContentError(f"{self.file}:{where} {what}. {self.remedy}")


def file_bytes(path: Path) -> bytes:
    """The content of a regular file up to a size limit; the caller handles OSError."""
    return plain_file_bytes(path, MAX_BYTES)


def read_bytes(path: Path) -> bytes:
    """The content of a regular file up to a size limit; ContentError where it cannot be read."""
    try:
        return file_bytes(path)
    except OSError as error:
        raise ContentError(f"{path}: cannot be read: {error.strerror or error}.") from error


def plain_json(value: Any) -> Any:
    """A parameter as JSON has it: a word stands for a number that is not finite, a NaN of which would equal nothing."""
    if isinstance(value, tuple):
        return [plain_json(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def decode_json(data: bytes, source: Source) -> Any:
    """The JSON document as plain values; what is wrong with it is told with line and column."""
    try:
        return msgspec.json.decode(data)
    except UnicodeDecodeError:
        what, offset = "not valid UTF-8", _broken_utf8(data)
    except RecursionError:
        raise source.error("nested too deeply") from None
    except msgspec.ValidationError as error:
        raise source.error(f"{_uncapitalise(str(error))}, which is too large") from None
    except msgspec.DecodeError as error:
        text = str(error)
        found = _BYTE.search(text)
        offset = int(found[1]) if found else len(data)
        if found is None:
            what = "not valid JSON: the file ends too early"
        else:
            what = f"not valid JSON: {_BYTE.sub('', text).removeprefix('JSON is malformed: ')}"
    line, column = data.count(b"\n", 0, offset) + 1, offset - data.rfind(b"\n", 0, offset)
    raise source.error(f"{what} (line {line}, column {column})")


def _broken_utf8(data: bytes) -> int:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.start
    return 0


def json_bytes(value: Any, indent: int = 0) -> bytes:
    """Plain values as JSON that `decode_json` reads; half a surrogate pair becomes U+FFFD."""
    try:
        data = msgspec.json.encode(value)
    except UnicodeEncodeError:
        data = msgspec.json.encode(map_texts(value, _without_surrogates))
    return msgspec.json.format(data, indent=indent) if indent else data


def _without_surrogates(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def refuse_doubled_keys(data: bytes, source: Source) -> None:
    """A key that occurs twice, e.g. after a bad merge, is an error; `data` is known to be valid JSON."""

    def once(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise source.error(f"{repr_short(twice)} occurs twice")

    json.loads(data, object_pairs_hook=once)


def convert(value: Any, wanted: type[T], source: Source) -> T:
    """The plain value as that type: dataclasses from objects, tuples from lists, enums by their words."""
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        raise _content_error(error, value, wanted, source) from None


def keep_plain(value: Any, source: Source, at: str = "", levels: int = MAX_LEVELS) -> None:
    """Refuse untyped values that are nested too deeply or hold too large integers."""
    if _is_plain(value, levels):
        return
    if type(value) is int and abs(value) > MAX_INTEGER:
        raise source.error(f"{repr_short(value)} is too large", at)
    if isinstance(value, (dict, list)):
        if not levels:
            raise source.error("nested too deeply", at)
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            keep_plain(item, source, f"{at}.{key}" if isinstance(value, dict) else f"{at}[{key}]", levels - 1)


def _is_plain(value: Any, levels: int) -> bool:
    """The same as a question: places are named only where something is refused."""
    if type(value) is int:
        return -MAX_INTEGER <= value <= MAX_INTEGER
    if isinstance(value, (dict, list)):
        items = value.values() if isinstance(value, dict) else value
        return levels > 0 and all(_is_plain(item, levels - 1) for item in items)
    return True


def _content_error(error: msgspec.ValidationError, value: Any, wanted: Any, source: Source) -> ContentError:
    message = _MESSAGE.fullmatch(str(error))
    assert message is not None, "every text matches"
    at = (message["at"] or "$")[1:]
    steps = [step["name"] or step["index"] for step in _STEP.finditer(at)]
    missing = _MISSING.fullmatch(message["what"])
    if missing:
        return source.error(f"the key {missing['name']!r} is missing", at)
    expected = _expected(message["what"], _type_at(wanted, steps))
    if not expected:
        return source.error(_uncapitalise(message["what"]), at)
    known, found = _value_at(value, steps)
    return source.error(f"expected {expected}" + (f", got {repr_short(found)}" if known else ""), at)


def _expected(what: str, wanted: Any) -> str:
    """What was expected there, in words; empty for a message of another kind."""
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return "one of " + ", ".join(str(m.value) if isinstance(m.value, str) else m.name for m in wanted)
    found = _EXPECTED.fullmatch(what)
    if not found:
        return ""
    return " or ".join(_WORDS.get(word, word) for word in found["types"].split(" | ")) + (found["more"] or "")


def _type_at(wanted: Any, steps: Iterable[str]) -> Any:
    """The type that is asked for at that place; None where it cannot be told."""
    for step in steps:
        if isinstance(wanted, type) and not get_args(wanted):
            wanted = get_type_hints(wanted).get(step)
        else:
            items = [item for item in get_args(wanted) if item is not Ellipsis]
            fixed = get_origin(wanted) is tuple and len(items) > 1
            wanted = (items[int(step)] if fixed else items[-1]) if items else None
        wanted = _without_none(wanted)
    return wanted


def _without_none(wanted: Any) -> Any:
    if get_origin(wanted) in (Union, types.UnionType):
        items = [item for item in get_args(wanted) if item is not type(None)]
        return items[0] if len(items) == 1 else None
    return wanted


def _value_at(value: Any, steps: Iterable[str]) -> tuple[bool, Any]:
    """The value at that place, if the place is known in full."""
    for step in steps:
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, Sequence) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return False, None
    return True, value


def _uncapitalise(text: str) -> str:
    return text[:1].lower() + text[1:].removesuffix(".")
