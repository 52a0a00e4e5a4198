"""Locks, one per operator: a line per declared case with digests of its values, so that large ones need no file."""

import json
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, NotRequired, TypedDict

from mluops_gtest.errors import ContentError, shown
from mluops_gtest.files.typed import MAX_INTEGER, Source, convert, decode_json, file_bytes, keep_plain
from mluops_gtest.files.writing import replace_file
from mluops_gtest.model.dtypes import DType

LOCK_NAME: Final = "baselines.lock"
# Hexadecimal digits of SHA-256 that are kept: 128 bits.
_DIGITS: Final = 32
_DTYPES: Final = frozenset(dtype.value for dtype in DType)


class LockedTensor(TypedDict):
    """The descriptor of one tensor."""

    id: str
    dtype: str
    layout: str
    dims: list[int]
    strides: NotRequired[list[int]]


class LockedTensors(TypedDict):
    """The descriptors of a case's tensors."""

    inputs: list[LockedTensor]
    outputs: list[LockedTensor]


@dataclass(frozen=True, slots=True)
class LockEntry:
    """What is recorded about one case: digests of declaration, file, inputs and baseline; descriptors; parameters."""

    id: str
    declared: str
    # Digest of the committed file; empty for a case that is too large to commit.
    stored: str
    inputs: str
    baseline: str
    tensors: LockedTensors
    params: Mapping[str, Any]
    # Why the baseline is constant by design; empty where it is not, and in locks of earlier versions.
    degenerate: str = ""

    @property
    def operator(self) -> str:
        """The operator of the case."""
        return self.id.partition("/")[0]

    def differences(self, other: "LockEntry") -> list[str]:
        """The names of the fields in which two entries differ."""
        return [name for name in self.__dataclass_fields__ if getattr(self, name) != getattr(other, name)]


_NAMES: Final = tuple(field.name for field in fields(LockEntry))


def lock_path(folder: Path, operator: str) -> Path:
    """The lock of an operator's cases, beside their files in this folder of stored cases."""
    return folder / operator / LOCK_NAME


def read_locks(folder: Path, operators: Collection[str] | None = None) -> dict[str, LockEntry]:
    """All entries of these operators, else of all, whose cases are stored in this folder."""
    entries: dict[str, LockEntry] = {}
    paths = folder.glob(f"*/{LOCK_NAME}") if operators is None else (lock_path(folder, name) for name in operators)
    for path in sorted(path for path in paths if os.path.lexists(path)):
        found, operator = read_lock(path), path.parent.name
        for case_id in found:
            if found[case_id].operator != operator:
                raise ContentError(
                    f"{path}: {case_id} is not a case of {operator}. Remove that line; "
                    "`mluops-test generate` writes the lock of each operator into its own folder."
                )
        entries |= found
    return entries


def write_locks(folder: Path, entries: Iterable[LockEntry], operators: Collection[str]) -> None:
    """Replace the locks of these operators; an operator without entries has no lock."""
    by_operator: dict[str, list[LockEntry]] = {operator: [] for operator in operators}
    for entry in entries:
        if entry.operator in by_operator:
            by_operator[entry.operator].append(entry)
    for operator, own in by_operator.items():
        path = lock_path(folder, operator)
        if own:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_lock(path, own)
        else:
            path.unlink(missing_ok=True)


def read_lock(path: Path) -> dict[str, LockEntry]:
    """All entries by id; a broken line is an error that names it."""
    try:
        lines = file_bytes(path).splitlines()
    except OSError as error:
        raise ContentError(f"{path}: cannot be read: {error.strerror or error}.") from error
    entries: dict[str, LockEntry] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        source = Source(f"{path}:{number}", "`mluops-test generate` writes the lock; restore it or generate again.")
        entry = _entry(decode_json(line, source), source)
        if entry.id in entries:
            raise ContentError(f"{path}:{number}: {entry.id} is locked twice. Keep one line, or generate again.")
        entries[entry.id] = entry
    return entries


def _entry(record: Any, source: Source) -> LockEntry:
    entry = convert(record, LockEntry, source)
    if not record.keys() <= set(_NAMES):
        raise source.error(f"unknown key {shown(min(record.keys() - set(_NAMES)))}; allowed are {', '.join(_NAMES)}")
    keep_plain(entry.params, source, ".params")
    for tensor in (*entry.tensors["inputs"], *entry.tensors["outputs"]):
        if not all(0 <= length <= MAX_INTEGER for length in tensor["dims"]) or tensor["dtype"] not in _DTYPES:
            raise source.error(f"{shown(tensor)} is not a tensor", ".tensors")
    return entry


def write_lock(path: Path, entries: Iterable[LockEntry]) -> None:
    """Replace the file; lines are sorted by id, so that the same cases give the same bytes."""
    ordered = sorted(entries, key=lambda entry: entry.id)
    replace_file(path, (json.dumps(_record(entry), separators=(",", ":")).encode() + b"\n" for entry in ordered))


def _record(entry: LockEntry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in _NAMES if name != "degenerate" or entry.degenerate}
