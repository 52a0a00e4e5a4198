"""Locks, one per operator: a line per declared case with digests of its values, so that large ones need no file.

Of a derived case what follows from the line of its base is left out.

Where stored cases are: files beside the lock, in a wheel one file.
"""

import json
import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NotRequired, TypedDict

import msgspec
from msgspec.structs import replace

from mluops_gtest.base.errors import CaseFileError, ContentError, repr_short
from mluops_gtest.base.files import TEXT, replace_file
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.typed_files import MAX_INTEGER, Source, convert, decode_json, keep_plain, read_bytes
from mluops_gtest.core.call import Params
from mluops_gtest.core.case import Case, CaseDraft, Change
from mluops_gtest.core.tensor import DType, Layout, Tensor, TensorDesc, digest_tensors

if TYPE_CHECKING:
    from zipfile import ZipFile

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


class LockEntry(Value, forbid_unknown_fields=True):
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
        return self.id.partition("/")[0]

    @property
    def is_folded(self) -> bool:
        """What follows from the line of the case's base is left out."""
        return not self.inputs

    def folded(self, params: Mapping[str, Any]) -> "LockEntry":
        """The line with the digests of declaration and file alone, and parameters that do not follow."""
        return _FoldedLine("", self.declared, self.stored, params).entry(self.id)

    def differences(self, other: "LockEntry") -> list[str]:
        """The names of the fields in which two entries differ."""
        return [name for name in self.__struct_fields__ if getattr(self, name) != getattr(other, name)]


_NAMES: Final = LockEntry.__struct_fields__


def lock_path(folder: Path, operator: str) -> Path:
    """The lock of an operator's cases, beside their files in this folder of stored cases."""
    return folder / operator / LOCK_NAME


def case_path(folder: Path, case_id: str, suffix: str = TEXT) -> Path:
    """The file of a case in this folder of stored cases, beside the lock of its operator."""
    return folder / f"{case_id}{suffix}"


# The stored cases of an operator as wheels carry them: thousands of small files take twice the space.
PACK: Final = "cases.zip"


def is_stored(path: Path) -> bool:
    """There is a stored case for this path: a file of its own, or one in the pack beside it."""
    pack = _open_pack(path.parent)
    return path.exists() or (pack is not None and path.name in pack.NameToInfo)


def packed_bytes(path: Path) -> bytes | None:
    """The case in the pack; None where it has a file of its own, or none at all."""
    pack = _open_pack(path.parent)
    if pack is None or path.name not in pack.NameToInfo or path.exists():
        return None
    try:
        return pack.read(path.name)
    except Exception as error:
        raise _damaged(path.parent, error) from error


@cache
def _open_pack(folder: Path) -> "ZipFile | None":
    path = folder / PACK
    if not path.is_file():
        return None
    from zipfile import ZipFile  # late: only an installed wheel has packs

    try:
        return ZipFile(path)
    except Exception as error:
        raise _damaged(folder, error) from error


def _damaged(folder: Path, error: Exception) -> CaseFileError:
    # What a damaged archive raises is no closed list.
    return CaseFileError(f"{folder / PACK}: cannot be read: {error}. Install the package again.")


# Made here: of two threads that make one of the same type at once, the second decodes with what the first has so far.
_DECODER: Final = msgspec.json.Decoder(LockEntry)

_Integer = Annotated[int, msgspec.Meta(ge=-MAX_INTEGER, le=MAX_INTEGER)]
_Length = Annotated[int, msgspec.Meta(ge=0, le=MAX_INTEGER)]
_Plain = _Integer | float | str | bool


class _SoundTensor(msgspec.Struct, gc=False):
    id: str
    dtype: DType
    layout: str
    dims: list[_Length]
    strides: tuple[int, ...] = ()


class _SoundTensors(msgspec.Struct, gc=False):
    inputs: list[_SoundTensor]
    outputs: list[_SoundTensor]


class _SoundLine(LockEntry):
    """A line as we write it; what does not fit goes the long way, which tells why."""

    tensors: _SoundTensors  # type: ignore[assignment]
    params: dict[str, _Plain | list[_Plain]]


_CHECKER: Final = msgspec.json.Decoder(_SoundLine)


class _FoldedLine(Value, array_like=True, forbid_unknown_fields=True):
    """A line of a case whose other values follow from the line of its base, and from what it changes."""

    # Without the operator, whose folder the lock is in.
    name: str
    declared: str
    stored: str
    # Parameters that do not follow; None for one that the case does not have.
    params: Mapping[str, _Plain | list[_Plain] | None] = {}

    def entry(self, case_id: str) -> LockEntry:
        """The entry with nothing of what follows."""
        return LockEntry(case_id, self.declared, self.stored, "", "", {"inputs": [], "outputs": []}, self.params)


_FOLDED: Final = msgspec.json.Decoder(_FoldedLine)
_FOLDED_START: Final = b"["


class LockEntries(Mapping[str, LockEntry]):
    """Entries by id: kept as the lines that they are, each of them sound, and decoded when asked for."""

    def __init__(self) -> None:
        self._lines: dict[str, bytes] = {}

    def __getitem__(self, case: str) -> LockEntry:
        line = self._lines[case]
        if line.startswith(_FOLDED_START):
            return _FOLDED.decode(line).entry(case)
        try:
            return _DECODER.decode(line)
        except msgspec.MsgspecError:
            return convert(decode_json(line, _NOWHERE), LockEntry, _NOWHERE)

    def __contains__(self, case: object) -> bool:
        return case in self._lines

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, case: str, line: bytes) -> None:
        """One more, or another in its place."""
        self._lines[case] = line

    def update(self, others: "LockEntries") -> None:
        """All of these, too."""
        self._lines |= others._lines


# Of lines that were sound before.
_NOWHERE: Final = Source("", "")


def read_locks(folder: Path, operators: Collection[str] | None = None) -> LockEntries:
    """All entries of these operators, else of all, whose cases are stored in this folder."""
    entries = LockEntries()
    paths = folder.glob(f"*/{LOCK_NAME}") if operators is None else (lock_path(folder, name) for name in operators)
    for path in sorted(path for path in paths if os.path.lexists(path)):
        found, operator = read_lock(path), path.parent.name
        for case_id in found:
            if case_id.partition("/")[0] != operator:
                raise ContentError(
                    f"{path}: {case_id} is not a case of {operator}. Remove that line; "
                    "`mluops-test generate` writes the lock of each operator into its own folder."
                )
        entries.update(found)
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


def plain_json(value: Any) -> Any:
    """A parameter as JSON has it: a word stands for a number that is not finite, a NaN of which would equal nothing."""
    if isinstance(value, tuple):
        return [plain_json(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def read_lock(path: Path) -> LockEntries:
    """All entries by id; a broken line is an error that names it."""
    entries, decode = LockEntries(), _CHECKER.decode
    for number, line in enumerate(read_bytes(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            is_folded = line.startswith(_FOLDED_START)
            case = f"{path.parent.name}/{_FOLDED.decode(line).name}" if is_folded else decode(line).id
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            remedy = "`mluops-test generate` writes the lock; restore it or generate again."
            case = _checked(line, Source(f"{path}:{number}", remedy)).id
        if case in entries:
            raise ContentError(f"{path}:{number}: {case} is locked twice. Keep one line, or generate again.")
        entries.add(case, line)
    return entries


def _checked(line: bytes, source: Source) -> LockEntry:
    record = decode_json(line, source)
    if isinstance(record, dict) and not record.keys() <= set(_NAMES):
        raise source.error(
            f"unknown key {repr_short(min(record.keys() - set(_NAMES)))}; allowed are {', '.join(_NAMES)}"
        )
    entry = convert(record, LockEntry, source)
    keep_plain(entry.params, source, ".params")
    for tensor in (*entry.tensors["inputs"], *entry.tensors["outputs"]):
        if not all(0 <= length <= MAX_INTEGER for length in tensor["dims"]) or tensor["dtype"] not in _DTYPES:
            raise source.error(f"{repr_short(tensor)} is not a tensor", ".tensors")
    return entry


def write_lock(path: Path, entries: Iterable[LockEntry]) -> None:
    """Replace the file; lines are sorted by id, so that the same cases give the same bytes."""
    ordered = sorted(entries, key=lambda entry: entry.id)
    replace_file(path, (json.dumps(_line(entry), separators=(",", ":")).encode() + b"\n" for entry in ordered))


def _line(entry: LockEntry) -> list[Any] | dict[str, Any]:
    if entry.is_folded:
        return [entry.id.partition("/")[2], entry.declared, entry.stored, *([entry.params] if entry.params else [])]
    return {name: getattr(entry, name) for name in _NAMES if name != "degenerate" or entry.degenerate}


def lock_entry(case: Case, declared: str, stored: str = "") -> LockEntry:
    """What the lock file records of a case, with the digests of its declaration and of its committed file."""
    return LockEntry(
        id=case.id,
        declared=declared,
        stored=stored,
        inputs=digest_tensors(case.inputs),
        baseline=digest_tensors(case.outputs),
        tensors={"inputs": _described(case.inputs), "outputs": _described(case.outputs)},
        params=_plain(case.params),
        degenerate=case.expect.degenerate or "",
    )


def unfold_entry(entry: LockEntry, draft: CaseDraft, lock: Mapping[str, LockEntry]) -> LockEntry:
    """The line with descriptors and parameters as they follow from the line of the case's base and what it changes."""
    base = lock.get(draft.base)
    if not entry.is_folded or base is None:
        return entry
    tensors: LockedTensors = {
        "inputs": [_changed_line(one, draft.changes.get(one["id"])) for one in base.tensors["inputs"]],
        "outputs": [_changed_line(one, draft.changes.get(one["id"])) for one in base.tensors["outputs"]],
    }
    params = {**base.params, **_plain(draft.changed_params), **entry.params}
    return replace(entry, tensors=tensors, params={name: one for name, one in params.items() if one is not None})


def whole_entry(entry: LockEntry, draft: CaseDraft, lock: Mapping[str, LockEntry]) -> LockEntry:
    """The unfolded line with the digests of tensors without values."""
    if not entry.is_folded:
        return entry
    entry = unfold_entry(entry, draft, lock)
    inputs, outputs = (digest_tensors(map(_bare, entry.tensors[side])) for side in ("inputs", "outputs"))
    return replace(entry, inputs=inputs, baseline=outputs)


def fold_entry(entry: LockEntry, draft: CaseDraft, lock: Mapping[str, LockEntry]) -> LockEntry:
    """The line without what follows from that of the case's base; the same line where something does not."""
    follows = unfold_entry(entry.folded({}), draft, lock).params
    folded = entry.folded({name: entry.params.get(name) for name in follows if follows[name] != entry.params.get(name)})
    return folded if entry.stored and whole_entry(folded, draft, lock) == entry else entry


def _changed_line(one: LockedTensor, change: Change | None) -> LockedTensor:
    if change is None:
        return one
    dims = one["dims"] if change.dims is None else list(change.dims)
    line: LockedTensor = {**one, "dtype": change.dtype or one["dtype"], "layout": change.layout or one["layout"]}
    line["dims"] = dims
    if change.strides is not None:
        line["strides"] = list(change.strides)
    return line


def _bare(one: LockedTensor) -> Tensor:
    strides = tuple(one["strides"]) if "strides" in one else None
    desc = TensorDesc(DType.named(one["dtype"]), Layout.named(one["layout"]), tuple(one["dims"]), strides)
    return Tensor(one["id"], desc).without_values()


def bare_case(entry: LockEntry, draft: CaseDraft) -> Case:
    """What an unfolded line and the declaration say of the case, without values and criteria."""
    inputs, outputs = (tuple(map(_bare, entry.tensors[side])) for side in ("inputs", "outputs"))
    params = {name: tuple(value) if isinstance(value, list) else value for name, value in entry.params.items()}
    return Case(draft.id, draft.operator, inputs, outputs, params, (), draft.expect, tags=draft.tags, doc=draft.doc)


def same_values(case: Case, locked: LockEntry) -> bool:
    """Inputs and parameters are those of the lock's line."""
    return _plain(case.params) == locked.params and digest_tensors(case.inputs) == locked.inputs


def _plain(params: Params) -> dict[str, Any]:
    return {name: plain_json(value) for name, value in params.items()}


def _described(tensors: Iterable[Tensor]) -> list[LockedTensor]:
    described = []
    for tensor in tensors:
        desc = tensor.desc
        line: LockedTensor = {
            "id": tensor.id,
            "dtype": desc.dtype.value,
            "layout": desc.layout.value,
            "dims": list(desc.dims),
        }
        if desc.strides is not None:
            line["strides"] = list(desc.strides)
        described.append(line)
    return described
