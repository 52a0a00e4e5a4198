"""The lock file: one line per declared case with the digests of its values, so that large values need not be stored."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from mluops_gtest.codec.writing import replace_file
from mluops_gtest.errors import ContentError
from mluops_gtest.model.tensor import Tensor

# Hexadecimal digits of SHA-256 that are kept: 128 bits.
_DIGITS: Final = 32
_TYPES: Final = {
    "id": str,
    "declared": str,
    "stored": str,
    "inputs": str,
    "baseline": str,
    "tensors": dict,
    "params": dict,
}
# In lines that have it; locks of earlier versions have none.
_OPTIONAL: Final = {"degenerate": str}


@dataclass(frozen=True, slots=True)
class LockEntry:
    """What is recorded of one case: digests of declaration, file, inputs and baseline; descriptors; parameters."""

    id: str
    declared: str
    # Of the bytes of the committed file; empty for a case that is too large to be committed.
    stored: str
    inputs: str
    baseline: str
    # "inputs" and "outputs": one {"id", "dtype", "layout", "dims"[, "strides"]} per tensor.
    tensors: Mapping[str, list[dict[str, Any]]]
    params: Mapping[str, Any]
    # Why the baseline is constant by design; empty where it is not.
    degenerate: str = ""

    def differences(self, other: "LockEntry") -> list[str]:
        """The names of the fields in which two entries differ."""
        return [name for name in self.__dataclass_fields__ if getattr(self, name) != getattr(other, name)]


def read_lock(path: Path) -> dict[str, LockEntry]:
    """All entries by id; a broken line is an error that names it."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ContentError(f"{path}: cannot be read: {error.strerror or error}.") from error
    entries: dict[str, LockEntry] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = _entry(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise ContentError(
                f"{path}:{number}: not a line of the lock: {error}. It is written by `mluops-test generate`; "
                "restore it or generate again."
            ) from error
        if entry.id in entries:
            raise ContentError(f"{path}:{number}: {entry.id} is locked twice. Keep one line, or generate again.")
        entries[entry.id] = entry
    return entries


def _entry(record: Any) -> LockEntry:
    if not isinstance(record, dict) or record.keys() - _OPTIONAL.keys() != _TYPES.keys():
        raise ValueError(f"it must be an object with {', '.join(_TYPES)}")
    for name, kind in (_TYPES | _OPTIONAL).items():
        if name in record and not isinstance(record[name], kind):
            raise ValueError(f"{name!r} must be {'a string' if kind is str else 'an object'}")
    return LockEntry(**record)


def write_lock(path: Path, entries: Iterable[LockEntry]) -> None:
    """Replace the file; lines are sorted by id, so that the same cases give the same bytes."""
    ordered = sorted(entries, key=lambda entry: entry.id)
    replace_file(path, (json.dumps(_record(entry), separators=(",", ":")).encode() + b"\n" for entry in ordered))


def _record(entry: LockEntry) -> dict[str, Any]:
    record = {name: getattr(entry, name) for name in _TYPES}
    return record | {name: getattr(entry, name) for name in _OPTIONAL if getattr(entry, name)}


def digest_bytes(data: bytes | memoryview) -> str:
    """SHA-256 of a file's bytes, shortened alike."""
    return hashlib.sha256(data).hexdigest()[:_DIGITS]


def digest_tensors(tensors: Iterable[Tensor]) -> str:
    """SHA-256 of id, type, dims, strides and bytes of these tensors in order, shortened to 32 digits."""
    digest = hashlib.sha256()
    for tensor in tensors:
        desc = tensor.desc
        head = [tensor.id, desc.dtype.value, desc.dims, desc.strides, tensor.data is not None]
        digest.update(json.dumps(head).encode() + b"\n")
        if tensor.data is not None:
            digest.update(np.ascontiguousarray(tensor.data).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()[:_DIGITS]
