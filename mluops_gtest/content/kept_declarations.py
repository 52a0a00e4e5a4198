"""What declarations expand to, kept on disk: to expand them takes longer than all else in a short command.

Drafts depend on the YAML file, on what the operator declares and on our own code; the key is a digest of all three, so
a draft that is found is the one that would be made. What is damaged or cannot be written costs time, nothing else.
"""

import contextlib
import functools
import hashlib
import importlib.util
import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final, get_type_hints

import msgspec

from mluops_gtest.content.vocabulary import signature_of
from mluops_gtest.errors import HarnessError
from mluops_gtest.files.cache_folder import DECLARATIONS, cache_folder
from mluops_gtest.files.limits import MAX_FILE_BYTES
from mluops_gtest.files.plain_file import plain_file_bytes
from mluops_gtest.files.writing import replace_file
from mluops_gtest.model.case import CaseDraft
from mluops_gtest.model.operator import Operator
from mluops_gtest.version import __version__

_PACKAGE: Final = Path(__file__).resolve().parents[1]
# What an expansion runs through.
_CODE: Final = ("content", "files", "model")
_DIGEST_BYTES: Final = 32
# Far above what any YAML file expands to here: 400 bytes a case.
_MAX_BYTES: Final = 1 << 28
_NAMES: Final = CaseDraft.__struct_fields__
# Their values may be of any kind: what is a list on disk was a tuple.
_FREE: Final = tuple(_NAMES.index(name) for name in ("args", "params", "changed_params"))
# What many cases of one entry have in common.
_ALIKE: Final = tuple(_NAMES.index(name) for name in ("operator", "tags", "doc", "recipe", "dtype", "note", "where"))
_MAPPINGS: Final = tuple(
    _NAMES.index(name) for name in ("args", "params", "changed_params", "changes", "criteria", "sizes")
)


def load_declarations(path: Path, operator: Operator) -> tuple[CaseDraft, ...]:
    """Every case declared in one file, expanded, in file order: as kept, else made and kept."""
    kept = cache_folder() / DECLARATIONS / f"{operator.name}-{_digest([str(path).encode()]).hex()[:16]}"
    key = _key(path, operator)
    drafts = None if key is None else _read(kept, key)
    if drafts is not None:
        return drafts
    from mluops_gtest.content import declarations

    made = declarations.load_declarations(path, operator)
    # The file may have been edited meanwhile.
    if key is not None and key == _key(path, operator):
        _write(kept, key, made)
    return made


def _key(path: Path, operator: Operator) -> bytes | None:
    """The digest of all that shapes the drafts; None where that is not known."""
    code = _code_digest()
    if code is None:
        return None
    try:
        text, facts = plain_file_bytes(path, MAX_FILE_BYTES), repr(_facts(operator))
    except (OSError, HarnessError, NameError, TypeError, ValueError, AttributeError):
        # Whoever loads the file tells what is wrong with it, or with the annotations of a recipe.
        return None
    return _digest([code, str(path).encode(), text, facts.encode()])


@functools.cache
def _code_digest() -> bytes | None:
    """Of our own code and of what it runs on; None where there are no sources to look at."""
    sources = [path for name in _CODE for path in sorted((_PACKAGE / name).rglob("*.py"))]
    parser = importlib.util.find_spec("yaml")
    if not sources or parser is None or parser.origin is None:
        return None
    # As Python knows compiled modules: a file of the same size and time is the same.
    files = [(path, path.stat()) for path in (*sources, Path(parser.origin))]
    known = [(str(path), status.st_size, status.st_mtime_ns) for path, status in files]
    return _digest([f"{__version__} {sys.version} {known}".encode()])


def _digest(parts: Iterable[bytes]) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.digest()


def _facts(value: Any) -> Any:
    """What an operator declares, in plain values; of its functions only the recipes' signatures matter to a draft."""
    if isinstance(value, Operator):
        recipes = {name: signature_of(recipe) for name, recipe in value.recipes.items()}
        others = [(field.name, _facts(getattr(value, field.name))) for field in fields(value)]
        return repr(recipes), others
    if is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, [(field.name, _facts(getattr(value, field.name))) for field in fields(value)]
    if isinstance(value, Enum):
        return value.name, value.value
    if isinstance(value, Mapping):
        return [(key, _facts(item)) for key, item in value.items()]
    if isinstance(value, tuple | list):
        return [_facts(item) for item in value]
    return None if callable(value) else value


def _read(kept: Path, key: bytes) -> tuple[CaseDraft, ...] | None:
    try:
        data = plain_file_bytes(kept, _MAX_BYTES)
        head, body = data[: 2 * _DIGEST_BYTES], data[2 * _DIGEST_BYTES :]
        if head != key + _digest([body]):
            return None
        shared: dict[Any, Any] = {}
        return tuple(CaseDraft(*_restored(row, shared)) for row in _decoder().decode(body))
    except (OSError, HarnessError, msgspec.DecodeError):
        return None


def _restored(row: tuple[Any, ...], shared: dict[Any, Any]) -> list[Any]:
    """The values of a draft; `shared` has those that many drafts have in common, so that they are kept once."""
    values = list(row)
    for place in _FREE:
        items = values[place].items()
        values[place] = {name: tuple(item) if isinstance(item, list) else item for name, item in items}
    for place in _ALIKE:
        values[place] = shared.setdefault(values[place], values[place])
    for place in _MAPPINGS:
        # Most often that of the draft before, in the same order.
        before = shared.get(place)
        if values[place] == before and list(values[place]) == list(before):
            values[place] = before
        shared[place] = values[place]
    return values


@functools.cache
def _decoder() -> "msgspec.msgpack.Decoder[list[tuple[Any, ...]]]":
    hints = get_type_hints(CaseDraft)
    row: Any = tuple[tuple(hints[name] for name in _NAMES)]  # type: ignore[misc]
    return msgspec.msgpack.Decoder(list[row])


def _write(kept: Path, key: bytes, drafts: tuple[CaseDraft, ...]) -> None:
    try:
        body = msgspec.msgpack.encode([[getattr(draft, name) for name in _NAMES] for draft in drafts])
    except (TypeError, ValueError, OverflowError):
        # A value that the format does not have, such as a date, is expanded every time.
        return
    with contextlib.suppress(HarnessError, OSError):
        replace_file(kept, [key, _digest([body]), body])
