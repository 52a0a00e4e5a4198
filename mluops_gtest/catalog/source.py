"""Where cases come from when a command needs one: the stored file, the cache, or made on first use.

A list needs the locks alone, so what reads, makes and caches cases is imported where it is used.

Declared cases with other random values: made on use, the larger ones cached by seed, committed files untouched.
"""

import functools
import hashlib
import json
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mluops_gtest.authoring.random import Draw
from mluops_gtest.base.errors import CaseFileError, ContentError, DeclarationError, OperatorError, UnwritableError
from mluops_gtest.base.files import cache_folder, replace_text
from mluops_gtest.base.frozen import Value
from mluops_gtest.casefiles.lock import LockEntries, LockEntry, lock_path, read_locks
from mluops_gtest.catalog.cache import CASE_FILE, MADE_FILE, RESEEDED, discard, keep_newest, mark_used, publish
from mluops_gtest.catalog.make import as_declared, lock_entry, make_case, same_values
from mluops_gtest.catalog.operators import code_files, python_files
from mluops_gtest.catalog.selection import Catalogue, Selected
from mluops_gtest.core.case import Case, CaseDraft, Reseed, Reseeded
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
            found = read_locks(folder, self._operators)
            for entry in [found[case_id] for case_id in sorted(entries.keys() & found)]:
                raise ContentError(
                    f"{lock_path(places[entry.id], entry.operator)} and {lock_path(folder, entry.operator)} both have "
                    f"a line of {entry.id}. Each case lives in one root: "
                    "`mluops-test generate --all --root DIR` with the other root alone removes its line."
                )
            entries.update(found)
            places |= dict.fromkeys(found, folder)
        return entries

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
        if self._reseed is not None:
            return self._declared(self._reseeded(draft), draft)
        entry = self.lock.get(draft.id)
        if entry is None or entry.declared != draft.digest:
            what = "is not in the lock file" if entry is None else "has changed since it was generated"
            raise ContentError(
                f"{draft.where}: case {draft.id} {what}. "
                f"Run `mluops-test generate {draft.id}` and look at the difference."
            )
        stored = self._catalogue.stored_path(draft.id)
        if entry.stored or stored.exists():
            return self._stored(stored, draft, entry)
        return self._declared(self._cached(draft, entry), draft)

    def _declared(self, case: Case, draft: CaseDraft) -> Case:
        return as_declared(case, draft, self._catalogue.operators[draft.operator])

    def _file(self, path: Path, case_id: str) -> Case:
        """A user's file keeps its own values under every seed."""
        case = self._read(path, case_id)
        return case if self._reseed is None else replace(case, reseeded=Reseeded(self._reseed, fixed=True))

    def _reseeded(self, draft: CaseDraft) -> Case:
        """The declared case with other values; what is committed is neither read nor needed."""
        start = time.perf_counter()
        making = False

        def begin() -> None:
            nonlocal making
            making = True
            self._tell(draft.id)

        entry = self.lock.get(draft.id)
        locked = entry if entry is not None and entry.declared == draft.digest else None
        try:
            return self._other_values.load(draft, self._catalogue.operators[draft.operator], locked, begin)
        finally:
            if making:
                self._count_generated(time.perf_counter() - start)

    @cached_property
    def _other_values(self) -> "ReseededCases":
        from mluops_gtest.casefiles.writer import write_case

        assert self._reseed is not None

        def write(case: Case, path: Path) -> None:
            write_case(case, self._catalogue.operators[case.operator], path, self.schema, blobs=True)

        return ReseededCases(
            self._reseed, lambda operator: self._catalogue.root_of(operator).generators, CaseFiles(write, self._read)
        )

    def _tell(self, case_id: str) -> None:
        if self._on_generate is not None:
            self._on_generate(case_id)

    def _stored(self, path: Path, draft: CaseDraft, entry: LockEntry) -> Case:
        from mluops_gtest.casefiles.files import file_bytes

        again = f"restore it, or run `mluops-test generate {draft.id}`."
        try:
            data = file_bytes(path)
        except CaseFileError:
            if path.exists():
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

    def _cached(self, draft: CaseDraft, entry: LockEntry) -> Case:
        from mluops_gtest.catalog.cache import CASE_FILE, discard, mark_used

        name = draft.id.partition("/")[2]
        folder = cache_folder() / draft.operator / f"{name}-{entry.declared}-{entry.inputs[:8]}{entry.baseline[:8]}"
        if folder.is_dir():
            try:
                case = self._read(folder / CASE_FILE, draft.id)
                if _differences(case, entry) == []:
                    mark_used(folder)
                    return case
            except CaseFileError:
                pass
            # Damaged in the cache, not in the user's content: make it again.
            discard(folder)
        start = time.perf_counter()
        try:
            return self._make_into_cache(draft, entry, folder)
        finally:
            self._count_generated(time.perf_counter() - start)

    def _make_into_cache(self, draft: CaseDraft, entry: LockEntry, folder: Path) -> Case:
        from mluops_gtest.casefiles.writer import write_case
        from mluops_gtest.catalog.cache import CASE_FILE, publish
        from mluops_gtest.catalog.make import make_case

        self._tell(draft.id)
        operator = self._catalogue.operators[draft.operator]
        case = make_case(draft, operator)
        differing = _differences(case, entry)
        if differing:
            raise ContentError(
                f"{draft.where}: the {' and '.join(differing)} of {draft.id} as generated here differ from the lock. "
                f"If the recipe or the reference was changed on purpose, run `mluops-test generate {draft.id}`."
            )

        def fill(aside: Path) -> None:
            write_case(case, operator, aside / CASE_FILE, self.schema, blobs=True)

        try:
            publish(folder, fill)
            # Read back, so that the tensors are views of the file and the generator's memory is free again.
            return self._read(folder / CASE_FILE, draft.id)
        except (OSError, ContentError, UnwritableError) as error:
            return replace(case, notes=(*case.notes, f"could not be cached in {folder.parent}: {error}"))


def _differences(case: Case, entry: LockEntry) -> list[str]:
    return [
        words
        for words, tensors, locked in (
            ("inputs", case.inputs, entry.inputs),
            ("baseline", case.outputs, entry.baseline),
        )
        if digest_tensors(tensors) != locked
    ]


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


class CaseFiles(Value):
    """How the cache writes a case into a file and reads it back."""

    write: Callable[[Case, Path], None]
    read: Callable[[Path, str], Case]


class ReseededCases(Value):
    """The declared cases under one --reseed number."""

    number: int
    # The folder with an operator's code.
    generators_of: Callable[[str], Path]
    files: CaseFiles

    def load(self, draft: CaseDraft, operator: Operator, locked: LockEntry | None, begin: Callable[[], None]) -> Case:
        """The complete case, from the cache or made; `begin` is told before one is made."""
        folder = self._folder(draft)
        if folder.is_dir():
            case = self._cached(folder, draft)
            if case is not None:
                mark_used(folder)
                return case
            discard(folder)
        begin()
        case = make_reseeded(draft, operator, self.number, locked)
        if case.nbytes < _CACHED_FROM:
            return case
        return self._published(case, folder)

    def _folder(self, draft: CaseDraft) -> Path:
        name = draft.id.partition("/")[2]
        code = code_digest(self.generators_of(draft.operator), draft.operator)
        return _seeds() / str(self.number) / draft.operator / f"{name}-{draft.digest}-{code}"

    def _cached(self, folder: Path, draft: CaseDraft) -> Case | None:
        """The case as it was published; None where the disk damaged it."""
        try:
            made = json.loads((folder / MADE_FILE).read_text(encoding="utf-8"))
            case = self.files.read(folder / CASE_FILE, draft.id)
            intact = [digest_tensors(case.inputs), digest_tensors(case.outputs)] == made["digests"]
            return replace(case, reseeded=Reseeded(**made["reseeded"])) if intact else None
        except (OSError, ValueError, LookupError, TypeError, CaseFileError):
            return None

    def _published(self, case: Case, folder: Path) -> Case:
        assert case.reseeded is not None
        digests = [digest_tensors(case.inputs), digest_tensors(case.outputs)]
        made = json.dumps({"digests": digests, "reseeded": asdict(case.reseeded)})

        def fill(aside: Path) -> None:
            self.files.write(case, aside / CASE_FILE)
            replace_text(aside / MADE_FILE, made)

        try:
            publish(folder, fill)
            keep_newest(_seeds(), _SEEDS_KEPT, used=str(self.number))
            # Read back, so that the tensors are views of the file and the generator's memory is free again.
            return replace(self.files.read(folder / CASE_FILE, case.id), reseeded=case.reseeded)
        except (OSError, ContentError, UnwritableError) as error:
            return replace(case, notes=(*case.notes, f"could not be cached in {folder.parent}: {error}"))


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
