"""What declarations expand to, kept on disk: to expand them takes longer than all else in a short command.

Drafts depend on the YAML file, on what the operator declares and on our own code. A digest of each is kept with them,
so a draft that is found is the one that would be made. While the files of its code are the same, the operator need not
be loaded to know what it declares. What is damaged or cannot be written costs time, nothing else.
"""

import contextlib
import functools
import hashlib
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final, get_type_hints

import msgspec

from mluops_gtest.base.errors import HarnessError
from mluops_gtest.base.files import DECLARATIONS, MAX_FILE_BYTES, cache_folder, replace_file
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.typed_files import plain_file_bytes
from mluops_gtest.catalog.operators import CodeFile, Operators, installed_code
from mluops_gtest.catalog.templates import signature_of
from mluops_gtest.core.case import CaseDraft
from mluops_gtest.core.operator import Operator
from mluops_gtest.version import __version__

_DIGEST_BYTES: Final = 32
# Far above what any YAML file expands to here: 400 bytes a case.
_MAX_BYTES: Final = 1 << 28
_NAMES: Final = CaseDraft.__struct_fields__
# Their values may be of any kind: what is a list on disk was a tuple.
_FREE: Final = ("args", "params", "changed_params")


class Declared(Value):
    """Every name of an operator, and its declared cases by id, in file order."""

    names: tuple[str, ...]
    drafts: Mapping[str, CaseDraft]


class _Kept(Value):
    """The file's content; while the code is the same, so are the facts."""

    code: tuple[CodeFile, ...]
    facts: bytes
    names: tuple[str, ...]
    columns: tuple[tuple[list[Any], list[int]], ...]

    @property
    def declared(self) -> Declared:
        return _declared(self.names, _drafts_in(self.columns))


def load_declarations(path: Path, operators: Operators, name: str) -> Declared:
    """Every case declared in one file, expanded: as kept, else made and kept."""
    place = cache_folder() / DECLARATIONS / f"{name}-{_digest([str(path).encode()]).hex()[:16]}"
    key = _key(path)
    kept = None if key is None else _read(place, key)
    if kept is not None and kept.code and all(file.is_unchanged for file in kept.code):
        return kept.declared
    operator, code = operators[name], operators.code_of(name)
    facts = _facts_digest(operator)
    if kept is not None and kept.facts == facts:
        declared = kept.declared
    else:
        from mluops_gtest.catalog import declarations

        declared, kept = _declared(operator.names, declarations.load_declarations(path, operator)), None
    # The file may have been edited meanwhile.
    if key is not None and facts and (kept is None or code) and key == _key(path):
        _write(place, key, code, facts, declared)
    return declared


def _declared(names: tuple[str, ...], drafts: Iterable[CaseDraft]) -> Declared:
    return Declared(names, {draft.id: draft for draft in drafts})


def _key(path: Path) -> bytes | None:
    """The digest of what shapes the drafts beside the operator; None where that is not known."""
    code = _code_digest()
    if code is None:
        return None
    try:
        return _digest([code, str(path).encode(), plain_file_bytes(path, MAX_FILE_BYTES)])
    except (OSError, HarnessError):
        # Whoever loads the file tells what is wrong with it.
        return None


@functools.cache
def _code_digest() -> bytes | None:
    """Of our own code and of what it runs on; None where there are no sources to look at."""
    code = installed_code()
    return _digest([f"{__version__} {sys.version} {code}".encode()]) if code else None


def _facts_digest(operator: Operator) -> bytes:
    """Of what the operator declares; empty where a mistake in the annotations of a recipe hides it."""
    try:
        return _digest([repr(_facts(operator)).encode()])
    except (NameError, TypeError, ValueError, AttributeError):
        return b""


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


def _read(place: Path, key: bytes) -> _Kept | None:
    try:
        data = plain_file_bytes(place, _MAX_BYTES)
        head, body = data[: 2 * _DIGEST_BYTES], data[2 * _DIGEST_BYTES :]
        return _Kept(*_decoder().decode(body)) if head == key + _digest([body]) else None
    except (OSError, HarnessError, msgspec.DecodeError):
        return None


def _drafts_in(columns: Iterable[tuple[list[Any], list[int]]]) -> Iterator[CaseDraft]:
    """The drafts that these columns hold; values that many have in common are there once."""
    fields = []
    for name, (distinct, places) in zip(_NAMES, columns, strict=True):
        values = list(map(_with_tuples, distinct)) if name in _FREE else distinct
        fields.append(map(values.__getitem__, places))
    return map(CaseDraft, *fields)


def _with_tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def _columns(drafts: Collection[CaseDraft]) -> Iterator[tuple[list[Any], list[int]]]:
    """Of each field the values that differ, which are few, and which of them each draft has."""
    for name in _NAMES:
        values = [getattr(draft, name) for draft in drafts]
        keys = [msgspec.msgpack.encode(value) for value in values]
        distinct = dict(zip(keys, values, strict=True))
        places = {key: place for place, key in enumerate(distinct)}
        yield list(distinct.values()), [places[key] for key in keys]


@functools.cache
def _decoder() -> "msgspec.msgpack.Decoder[tuple[Any, ...]]":
    hints: Any = get_type_hints(CaseDraft)
    columns: Any = tuple[tuple(tuple[list[hints[name]], list[int]] for name in _NAMES)]  # type: ignore[misc]
    return msgspec.msgpack.Decoder(tuple[tuple[CodeFile, ...], bytes, tuple[str, ...], columns])


def _write(place: Path, key: bytes, code: tuple[CodeFile, ...], facts: bytes, declared: Declared) -> None:
    try:
        columns = list(_columns(declared.drafts.values()))
        body = msgspec.msgpack.encode((code, facts, declared.names, columns))
    except (TypeError, ValueError, OverflowError):
        # A value that the format does not have, such as a date, is expanded every time.
        return
    with contextlib.suppress(HarnessError, OSError):
        replace_file(place, [key, _digest([body]), body])
