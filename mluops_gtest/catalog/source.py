"""Where cases come from when a command needs one: the stored file, the cache, or made on first use.

A list needs the locks alone, so what reads, makes and caches cases is imported where it is used.

Declared cases with other random values: made on use, the larger ones cached by seed, committed files untouched.

What arithmetic allows large cases: computed once and kept beside the case in the cache. The folder of a cached case is
named after its declaration and its values, the file after all code that shapes a bound: neither a change of the case
nor one of the operator ever meets an old bound. What is damaged is computed again.
"""

import contextlib
import functools
import hashlib
import json
import math
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from mluops_gtest.authoring.random import Draw
from mluops_gtest.base.errors import CaseFileError, ContentError, DeclarationError, OperatorError, UnwritableError
from mluops_gtest.base.files import cache_folder, let_go, mapped, pieces, replace_file, replace_text
from mluops_gtest.base.frozen import Value
from mluops_gtest.casefiles.lock import (
    LockEntries,
    LockEntry,
    case_path,
    is_stored,
    lock_entry,
    lock_path,
    read_locks,
    same_values,
    whole_entry,
)
from mluops_gtest.catalog.cache import (
    CASE_FILE,
    MADE_FILE,
    RESEEDED,
    bound_file,
    bound_files,
    discard,
    keep_newest,
    mark_used,
    publish,
)
from mluops_gtest.catalog.make import as_declared, make_case
from mluops_gtest.catalog.operators import code_files, python_files
from mluops_gtest.catalog.selection import Catalogue, Selected
from mluops_gtest.core.buffers import bind_values, bounds_of, mistake_in
from mluops_gtest.core.case import Case, CaseDraft, Reseed, Reseeded
from mluops_gtest.core.declaration import Bound
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.tensor import digest_bytes, digest_tensors

if TYPE_CHECKING:
    from mluops_gtest.casefiles.schema import Schema


@dataclass(slots=True)
class SourceTimes:
    """Seconds spent so far, for the breakdown of a run."""

    generate: float = 0.0
    load: float = 0.0


class StoredCases:
    """The cases of a selection, complete; implements model.case.CaseSource."""

    def __init__(
        self,
        catalogue: Catalogue,
        selected: tuple[Selected, ...],
        *,
        strict: bool = False,
        allow_outside_paths: bool = False,
        on_generate: Callable[[str], None] | None = None,
        reseed: int | None = None,
    ) -> None:
        self._catalogue = catalogue
        # Asked for every case.
        self._store = functools.cache(lambda operator: catalogue.root_of(operator).stored)
        self._selected = {case.id: case for case in selected}
        self._operators = sorted({case.operator for case in selected if case.draft is not None})
        self._strict = strict
        self._allow_outside_paths = allow_outside_paths
        self._on_generate = on_generate
        self._reseed = reseed
        self.times = SourceTimes()
        # Slots of a run are threads: what another one makes meanwhile is no part of a load.
        self._of_thread = threading.local()

    @cached_property
    def schema(self) -> "Schema":
        """The schema of the selected cases' operators; a file of the user's may be of any."""
        from mluops_gtest.casefiles.schema import Schema

        known = self._catalogue.operators
        if any(case.draft is None for case in self._selected.values()):
            return Schema.of(known.values())
        return Schema.of(known[name] for name in self._operators)

    @cached_property
    def lock(self) -> LockEntries:
        """The lines of the lock files of all roots for the operators of the selected cases."""
        entries = LockEntries()
        places: dict[str, Path] = {}
        for folder in [root.stored for root in self._catalogue.roots]:
            found = read_locks(
                folder, [one for one in self._operators if not self._catalogue.hides(folder.parent, one)]
            )
            for entry in [found[case_id] for case_id in sorted(entries.keys() & found)]:
                raise ContentError(
                    f"{lock_path(places[entry.id], entry.operator)} and {lock_path(folder, entry.operator)} both have "
                    f"a line of {entry.id}. Each case lives in one root: "
                    "`mluops-test generate --all --root DIR` with the other root alone removes its line."
                )
            entries.update(found)
            places |= dict.fromkeys(found, folder)
        return entries

    def entry_of(self, draft: CaseDraft) -> LockEntry | None:
        """The lock's whole line of a declared case; None where there is none."""
        entry = self.lock.get(draft.id)
        return entry if entry is None or not entry.is_folded else whole_entry(entry, draft, self.lock)

    def load(self, case_id: str) -> Case:
        """The complete case: a user's file, a stored file, or a large one by way of the cache."""
        start, self._of_thread.generated = time.perf_counter(), 0.0
        try:
            return self._load(self._selected[case_id])
        except OSError as error:
            raise ContentError(f"{case_id}: cannot be read: {error.strerror or error}.") from error
        finally:
            self.times.load += time.perf_counter() - start - self._of_thread.generated

    def _count_generated(self, seconds: float) -> None:
        self.times.generate += seconds
        self._of_thread.generated += seconds

    def _load(self, selected: Selected) -> Case:
        if selected.draft is None:
            assert selected.path is not None
            return self._file(selected.path, selected.id)
        draft = selected.draft
        if draft.is_typed:
            operator = self._catalogue.operators[draft.operator]
            made = self._catalogue.typed_cases.pop(draft.id, None)
            if self._reseed is not None:
                made = make_reseeded(draft, operator, self._reseed)
            return self._declared(made or make_case(draft, operator), draft)
        if self._reseed is not None:
            return self._declared(self._reseeded(draft), draft)
        entry = self.entry_of(draft)
        if entry is None or entry.declared != draft.digest:
            what = "is not in the lock file" if entry is None else "has changed since it was generated"
            raise ContentError(
                f"{draft.where}: case {draft.id} {what}. "
                f"Run `mluops-test generate {draft.id}` and look at the difference."
            )
        stored = case_path(self._store(draft.operator), draft.id)
        if entry.stored or is_stored(stored):
            return self._stored(stored, draft, entry)
        return self._declared(self._large(draft, entry), draft)

    def _declared(self, case: Case, draft: CaseDraft) -> Case:
        return as_declared(case, draft, self._catalogue.operators[draft.operator])

    def _file(self, path: Path, case_id: str) -> Case:
        """A user's file keeps its own values under every seed."""
        case = self._read(path, case_id)
        return case if self._reseed is None else replace(case, reseeded=Reseeded(self._reseed, fixed=True))

    def _reseeded(self, draft: CaseDraft) -> Case:
        """The declared case with other values; what is committed is neither read nor needed."""
        number = self._reseed
        assert number is not None
        entry = self.entry_of(draft)
        locked = entry if entry is not None and entry.declared == draft.digest else None
        code = code_digest(self._catalogue.root_of(draft.operator).generators, draft.operator)
        folder = _seeds() / str(number) / draft.operator / f"{draft.id.partition('/')[2]}-{draft.digest}-{code}"

        def read() -> Case | None:
            made = json.loads((folder / MADE_FILE).read_text(encoding="utf-8"))
            case = self._read(folder / CASE_FILE, draft.id)
            return replace(case, reseeded=Reseeded(**made["reseeded"])) if _digests(case) == made["digests"] else None

        def make(operator: Operator) -> Case:
            return make_reseeded(draft, operator, number, locked)

        return self._cached(draft, folder, read, make)

    def _stored(self, path: Path, draft: CaseDraft, entry: LockEntry) -> Case:
        from mluops_gtest.casefiles.files import stored_bytes

        again = f"restore it, or run `mluops-test generate {draft.id}`."
        try:
            data = stored_bytes(path)
        except CaseFileError:
            if is_stored(path):
                raise
            raise ContentError(
                f"{path}: the file of {draft.id} is missing, although the lock has it: {again}"
            ) from None
        digest = digest_bytes(data)
        if digest != entry.stored:
            raise ContentError(
                f"{path}: the file of {draft.id} differs from the lock. Stored cases are never edited: {again}"
            )
        case = self._declared(self._read(path, draft.id, data), draft)
        # The file is what it was: where it disagrees with the rest of its line, the line was edited.
        differing = lock_entry(case, entry.declared, digest).differences(entry)
        if differing:
            raise ContentError(
                f"{lock_path(path.parent.parent, draft.operator)}: the line of {draft.id} differs from its file in "
                f"{', '.join(differing)}. The lock is never edited: {again}"
            )
        return case

    def _read(self, path: Path, case_id: str, data: memoryview | None = None) -> Case:
        """The case in a file, whose bytes may have been read already."""
        from mluops_gtest.casefiles.reader import read_case

        return read_case(
            path,
            self.schema,
            self._catalogue.operators,
            data,
            case_id=case_id,
            strict=self._strict,
            allow_outside_paths=self._allow_outside_paths,
        )

    def _large(self, draft: CaseDraft, entry: LockEntry) -> Case:
        """A case that is too large to be committed; its values are those that the lock knows."""
        name = f"{draft.id.partition('/')[2]}-{entry.declared}-{entry.inputs[:8]}{entry.baseline[:8]}"
        folder = cache_folder() / draft.operator / name

        def differences(case: Case) -> list[str]:
            pairs = zip(("inputs", "baseline"), _digests(case), (entry.inputs, entry.baseline), strict=True)
            return [words for words, digest, locked in pairs if digest != locked]

        def read() -> Case | None:
            case = self._read(folder / CASE_FILE, draft.id)
            return None if differences(case) else case

        def make(operator: Operator) -> Case:
            case = make_case(draft, operator)
            if differing := differences(case):
                raise ContentError(
                    f"{draft.where}: the {' and '.join(differing)} of {draft.id} as generated here differ from the "
                    "lock. If the recipe or the reference was changed on purpose, "
                    f"run `mluops-test generate {draft.id}`."
                )
            return case

        return self._cached(draft, folder, read, make)

    def _cached(
        self, draft: CaseDraft, folder: Path, read: Callable[[], Case | None], make: Callable[[Operator], Case]
    ) -> Case:
        """The case in a folder of the cache; where it is not there, or damaged, it is made and put there."""
        if folder.is_dir():
            # Damaged in the cache, not in the user's content.
            with contextlib.suppress(OSError, ValueError, LookupError, TypeError, CaseFileError):
                case = read()
                if case is not None:
                    mark_used(folder)
                    return case
            discard(folder)
        if self._on_generate is not None:
            self._on_generate(draft.id)
        start = time.perf_counter()
        try:
            case = make(self._catalogue.operators[draft.operator])
            return case if case.reseeded is not None and case.nbytes < _CACHED_FROM else self._published(case, folder)
        finally:
            self._count_generated(time.perf_counter() - start)

    def _published(self, case: Case, folder: Path) -> Case:
        from mluops_gtest.casefiles.writer import write_case

        def fill(aside: Path) -> None:
            write_case(case, self._catalogue.operators[case.operator], aside / CASE_FILE, self.schema, blobs=True)
            if case.reseeded is not None:
                made = {"digests": _digests(case), "reseeded": asdict(case.reseeded)}
                replace_text(aside / MADE_FILE, json.dumps(made))

        try:
            publish(folder, fill)
            if case.reseeded is not None:
                keep_newest(_seeds(), _SEEDS_KEPT, used=str(case.reseeded.number))
            # Read back, so that the tensors are views of the file and the generator's memory is free again.
            return replace(self._read(folder / CASE_FILE, case.id), reseeded=case.reseeded)
        except (OSError, ContentError, UnwritableError) as error:
            return replace(case, notes=(*case.notes, f"could not be cached in {folder.parent}: {error}"))


def _digests(case: Case) -> list[str]:
    return [digest_tensors(case.inputs), digest_tensors(case.outputs)]


# Draws that may miss a case's conditions before the case counts as broken. Few cases ever need a second one.
ATTEMPTS = 32
# Bytes of tensors from which a case is kept on disk: below that, making it again is as fast as reading it.
_CACHED_FROM = 1 << 16
# Seeds whose cases stay on disk. A new one every night must not fill it.
_SEEDS_KEPT = 4


def make_reseeded(draft: CaseDraft, operator: Operator, number: int, locked: LockEntry | None = None) -> Case:
    """The case with the values of --reseed `number`; values that miss its conditions are drawn again.

    `locked` is the lock's line of the declared case, by which a case is known whose values did not change.
    """
    for attempt in range(ATTEMPTS):
        draw = Draw(draft.seed, Reseed(number, attempt))
        try:
            case = make_case(draft, operator, draw)
        except ContentError as error:
            if not draw.used or isinstance(error, OperatorError) or isinstance(error.__cause__, MemoryError):
                raise
            refusal = error
        else:
            fixed = not draw.used or (locked is not None and same_values(case, locked))
            return replace(case, reseeded=Reseeded(number, attempt, fixed))
    raise DeclarationError(
        f"{draft.where}: case {draft.id}: none of {ATTEMPTS} draws under --reseed {number} meets its conditions; "
        f"the last one: {refusal} Let the recipe draw so that they hold with (nearly) every seed."
    ) from refusal


def _seeds() -> Path:
    return cache_folder() / RESEEDED


@functools.cache
def code_digest(generators: Path, operator: str) -> str:
    """A digest of all code that shapes an operator's cases: no lock covers them, so any change makes them again."""
    package = Path(__file__).parents[1]
    ours = [path for name in ("authoring", "catalog", "core") for path in python_files(package / name)]
    digest = hashlib.sha256()
    for path in map(Path, (*ours, *code_files(generators, operator))):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


Arrays = Mapping[str, npt.NDArray[Any]]
_ALIGNMENT: Final = 64
# Eight digits, the checksum of the rest of the head.
_DIGITS: Final = 8


def array_file(arrays: Arrays) -> Iterator[bytes | memoryview]:
    """The bytes of the file, in pieces."""
    flat = {name: np.ascontiguousarray(array).reshape(-1).view(np.uint8) for name, array in arrays.items()}
    head = json.dumps({name: [a.dtype.str, a.shape, _checksum(flat[name])] for name, a in arrays.items()}).encode()
    head = b"%08x%s\n" % (zlib.crc32(head), head)
    yield head + bytes(-len(head) % _ALIGNMENT)
    for values in flat.values():
        yield values.data
        yield bytes(-values.size % _ALIGNMENT)


def read_array_file(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays, views of the mapped file; ValueError where it is not as it was written."""
    with path.open("rb") as file:
        data = np.frombuffer(mapped(file.fileno()), np.uint8)
        head = file.readline()
    if int(head[:_DIGITS], 16) != zlib.crc32(head[_DIGITS:-1]):
        raise ValueError(f"{path}: the head is damaged")
    arrays, start = {}, len(head) + -len(head) % _ALIGNMENT
    for name, (dtype, dims, checksum) in json.loads(head[_DIGITS:]).items():
        values = data[start : start + np.dtype(dtype).itemsize * math.prod(dims)]
        if _checksum(values) != checksum:
            raise ValueError(f"{path}: the values of {name} are damaged")
        arrays[name] = values.view(dtype).reshape(dims)
        start += values.size + -values.size % _ALIGNMENT
    return arrays


def _checksum(values: npt.NDArray[np.uint8]) -> int:
    checksum = 0
    for _, piece in pieces(values):
        checksum = zlib.crc32(piece.data, checksum)
    return checksum


_PARTS: Final = Bound.__struct_fields__


class BoundCache(Value):
    """The bounds of a case: of one in the cache from beside it, where they are there; else from its inputs."""

    # The folder with an operator's code.
    generators_of: Callable[[str], Path]

    def __call__(self, case: Case, operator: Operator) -> Mapping[str, Bound]:
        """The bound of every output that has one."""
        call = bind_values(case, operator)
        path = self._path(case)
        if path is not None:
            kept = _read_bounds(path)
            if kept is not None and mistake_in(operator, call, kept) is None:
                return kept
        bounds = bounds_of(operator, call)
        for tensor in case.inputs:
            if tensor.data is not None:
                let_go(tensor.data)
        if path is not None and any(np.ndim(getattr(bound, part)) for bound in bounds.values() for part in _PARTS):
            _write_bounds(path, bounds)
            # As they are kept, so that their memory is free again.
            return _read_bounds(path) or bounds
        return bounds

    def _path(self, case: Case) -> Path | None:
        """Where the bounds of a cached case lie; None for any other case."""
        if case.path is None or case.path.name != CASE_FILE or not case.path.is_relative_to(cache_folder()):
            return None
        return case.path.parent / bound_file(code_digest(self.generators_of(case.operator), case.operator))


def _read_bounds(path: Path) -> dict[str, Bound] | None:
    """The bounds as they were kept, in the mapped file; None where there are none, or the disk damaged them."""
    parts: dict[str, dict[str, Any]] = {}
    try:
        for name, values in read_array_file(path).items():
            output, _, part = name.rpartition(".")
            parts.setdefault(output, {})[part] = values if values.ndim else values.item()
        return {output: Bound(**values) for output, values in parts.items()}
    except (OSError, ValueError, TypeError):
        return None


def _write_bounds(path: Path, bounds: Mapping[str, Bound]) -> None:
    """Write them whole, and remove those of other code; what cannot be written costs time and nothing else."""
    arrays = {
        f"{output}.{part}": np.asarray(getattr(bound, part)) for output, bound in bounds.items() for part in _PARTS
    }
    try:
        replace_file(path, array_file(arrays), make_folder=False)
        for old in bound_files(path.parent):
            if old != path:
                old.unlink(missing_ok=True)
    except (OSError, UnwritableError):
        return
