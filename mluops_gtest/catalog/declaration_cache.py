"""What declarations expand to, cached on disk: to expand them takes longer than all else in a short command.

One key per operator: its YAML file and derived.lock, its code, what operators of its root share, and this release.
While all of them are the same, the operator need not be loaded to know its cases. What is damaged or cannot be written
costs time, nothing else.
"""

import contextlib
import functools
import hashlib
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, get_type_hints

import msgspec

from mluops_gtest.base.errors import HarnessError
from mluops_gtest.base.files import DECLARATIONS, MAX_FILE_BYTES, cache_folder, replace_file
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.typed_files import plain_file_bytes
from mluops_gtest.catalog.derived_lock import derived_path
from mluops_gtest.catalog.operators import Operators, code_files, generators_of, python_files
from mluops_gtest.core.case import CaseDraft
from mluops_gtest.version import __version__

_DIGEST_BYTES: Final = 32
# Far above what any YAML file expands to here: 400 bytes a case.
_MAX_BYTES: Final = 1 << 28
_NAMES: Final = CaseDraft.__struct_fields__
# Their values may be of any kind: what is a list on disk was a tuple.
_FREE: Final = ("args", "params", "changed_params")


class DeclaredCases(Value):
    """Every name of an operator, and its declared cases by id, in file order."""

    names: tuple[str, ...]
    drafts: Mapping[str, CaseDraft]


def load_declarations(path: Path, operators: Operators, name: str) -> DeclaredCases:
    """Every case declared in one file, expanded: from the cache, else by the operator."""
    place = cache_folder() / DECLARATIONS / f"{name}-{_digest([str(path).encode()]).hex()[:16]}"
    key = _key(path, operators, name)
    cases = _read(place, key)
    if cases is None:
        from mluops_gtest.catalog import declarations

        operator = operators[name]
        drafts = declarations.load_declarations(path, operator)
        cases = DeclaredCases(operator.names, {draft.id: draft for draft in drafts})
        # A file may have been edited meanwhile, or since the operator was loaded.
        if key and key == _key(path, operators, name) and operators.is_current(name):
            _write(place, key, cases)
    return cases


def _key(path: Path, operators: Operators, name: str) -> bytes:
    """The digest of all that shapes the drafts; empty where that is not known, and nothing is cached."""
    if name not in operators.files:
        return b""
    code = code_files(generators_of(operators.files[name]), name)
    lock = derived_path(path)
    try:
        derived = [plain_file_bytes(lock, _MAX_BYTES)] if os.path.lexists(lock) else []
        contents = [plain_file_bytes(path, MAX_FILE_BYTES), *(Path(file).read_bytes() for file in code), *derived]
    except (OSError, HarnessError):
        # Whoever loads the file tells what is wrong with it.
        return b""
    return _digest([_release(), str(path).encode(), *map(os.fsencode, code), *contents])


@functools.cache
def _release() -> bytes:
    """Our version; in a checkout the files of it that shape drafts may change without a new one."""
    folders = [Path(__file__).parents[1] / name for name in ("authoring", "base", "catalog", "core")]
    states = [(file, os.stat(file).st_mtime_ns) for folder in folders for file in python_files(folder)]
    return f"{__version__} {sys.version} {states}".encode()


def _digest(parts: Iterable[bytes]) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.digest()


def _read(place: Path, key: bytes) -> DeclaredCases | None:
    try:
        data = plain_file_bytes(place, _MAX_BYTES)
        head, body = data[: 2 * _DIGEST_BYTES], data[2 * _DIGEST_BYTES :]
        if head != key + _digest([body]):
            return None
        names, columns = _decoder().decode(body)
    except (OSError, HarnessError, msgspec.DecodeError):
        return None
    return DeclaredCases(names, {draft.id: draft for draft in _drafts_in(columns)})


def _drafts_in(columns: Iterable[tuple[list[Any], list[int]]]) -> Iterator[CaseDraft]:
    """The drafts that these columns hold; values that many have in common are there once."""
    fields = []
    for name, (distinct, places) in zip(_NAMES, columns, strict=True):
        values = list(map(_with_tuples, distinct)) if name in _FREE else distinct
        fields.append(map(values.__getitem__, places))
    return map(CaseDraft, *fields)


def _with_tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


@functools.cache
def _decoder() -> "msgspec.msgpack.Decoder[tuple[Any, ...]]":
    hints: Any = get_type_hints(CaseDraft)
    columns: Any = tuple[tuple(tuple[list[hints[name]], list[int]] for name in _NAMES)]  # type: ignore[misc]
    return msgspec.msgpack.Decoder(tuple[tuple[str, ...], columns])


def _write(place: Path, key: bytes, cases: DeclaredCases) -> None:
    try:
        body = msgspec.msgpack.encode((cases.names, list(_columns(cases.drafts.values()))))
    except (TypeError, ValueError, OverflowError):
        # A value that the format does not have, such as a date, is expanded every time.
        return
    with contextlib.suppress(HarnessError, OSError):
        replace_file(place, [key, _digest([body]), body])


def _columns(drafts: Collection[CaseDraft]) -> Iterator[tuple[list[Any], list[int]]]:
    """Of each field the values that differ, which are few, and which of them each draft has."""
    for name in _NAMES:
        values = [getattr(draft, name) for draft in drafts]
        keys = [msgspec.msgpack.encode(value) for value in values]
        distinct = dict(zip(keys, values, strict=True))
        places = {key: place for place, key in enumerate(distinct)}
        yield list(distinct.values()), [places[key] for key in keys]
