"""`mluops-test generate`: cases written into a folder, or compared with what lies there."""

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from mluops_gtest.codec.case_files.reader import read_case
from mluops_gtest.codec.case_files.writer import case_text, write_case
from mluops_gtest.codec.lock import LockEntry, read_locks, write_locks
from mluops_gtest.codec.schema.schema import Schema
from mluops_gtest.content.catalogue import Catalogue
from mluops_gtest.content.root import Root
from mluops_gtest.errors import ContentError, UnwritableError
from mluops_gtest.files.case_suffixes import TEXT
from mluops_gtest.files.writing import replace_file
from mluops_gtest.generate.make import as_declared, lock_entry, make_case
from mluops_gtest.model.case import Case, CaseDraft
from mluops_gtest.model.digest import digest_bytes
from mluops_gtest.model.operator import Operator
from mluops_gtest.value import Value

# What is committed: a file of at most this many bytes. Larger cases are made into the cache on first use.
COMMITTED_LIMIT = 64 * 1024


class Target(Value):
    """Where cases are written: the root's own store keeps small files alone, any other folder keeps all."""

    folder: Path
    suffix: str = TEXT
    committed_only: bool = False

    def path(self, case_id: str) -> Path:
        return self.folder / f"{case_id}{self.suffix}"

    def read_locks(self, operators: Collection[str] | None = None) -> dict[str, LockEntry]:
        """The digests of these operators' cases in this folder, else of all; empty if there is no lock yet."""
        return dict(read_locks(self.folder, operators))


class Produced(Value):
    """One case done: its lock line and the bytes written; or, in words, what is wrong with it."""

    id: str
    entry: LockEntry | None = None
    written: int = 0
    # Why it cannot be made, or how it differs.
    problem: str = ""
    # Why its file cannot be written, which holds for the files of other cases too.
    unwritable: str = ""


def produce(catalogue: Catalogue, targets: Mapping[str, Target], *, check: bool, jobs: int = 1) -> Iterator[Produced]:
    """Each case made and written to its target (or compared), as they finish; the first unwritable one is the last."""
    for item in _produced(catalogue, targets, check=check, jobs=jobs):
        yield item
        if item.unwritable:
            return


def _produced(catalogue: Catalogue, targets: Mapping[str, Target], *, check: bool, jobs: int) -> Iterator[Produced]:
    if jobs <= 1 or len(targets) <= 1:
        worker = _Worker(catalogue, _operators_of(targets), check)
        yield from (worker.produce(*item) for item in targets.items())
        return
    # Spawned: a fork would copy the parent's threads' locks; operators are loaded by path in each worker.
    with one_blas_thread():
        pool = ProcessPoolExecutor(
            jobs, get_context("spawn"), _start_worker, (catalogue.roots, _operators_of(targets), check)
        )
        try:
            for future in as_completed([pool.submit(_produce_in_worker, *item) for item in targets.items()]):
                yield future.result()
        finally:
            # After an interrupt nothing more is begun.
            pool.shutdown(cancel_futures=True)


def _operators_of(case_ids: Iterable[str]) -> list[str]:
    return sorted({case_id.partition("/")[0] for case_id in case_ids})


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Use one BLAS thread per process: threads that compete for the cores make generation ten times slower."""
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update({name: value or "1" for name, value in before.items()})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]


def update_lock(
    catalogue: Catalogue, target: Target, produced: list[Produced], operators: Collection[str] | None = None
) -> list[str]:
    """Write the lock lines of the produced cases; of these operators' cases, else of all, lines and files go where the
    case is no longer declared. Returns those ids."""
    entries = target.read_locks(operators)
    stale = _stale(catalogue, target, entries, operators)
    made = {item.id: item.entry for item in produced if item.entry is not None}
    kept = {case_id: entry for case_id, entry in (entries | made).items() if case_id not in stale}
    write_locks(target.folder, kept.values(), {case_id.partition("/")[0] for case_id in (*made, *stale)})
    for case_id in stale:
        target.path(case_id).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            target.path(case_id).parent.rmdir()
    return stale


def lock_differences(catalogue: Catalogue, target: Target, operators: Collection[str] | None = None) -> list[str]:
    """For --check: cases of these operators, else of all, that are stored or locked but no longer declared."""
    stale = _stale(catalogue, target, target.read_locks(operators), operators)
    return [f"{case_id}: stored or locked, but not declared" for case_id in stale]


def _stale(
    catalogue: Catalogue, target: Target, entries: dict[str, LockEntry], operators: Collection[str] | None
) -> list[str]:
    """Cases that are locked or stored in the root but no longer declared."""
    if not target.committed_only:
        return []
    folders = [target.folder] if operators is None else [target.folder / name for name in operators]
    files = (path for folder in folders for path in folder.rglob(f"*{target.suffix}"))
    stored = {path.relative_to(target.folder).with_suffix("").as_posix() for path in files}
    declared = catalogue.drafts if operators is None else catalogue.drafts_of(*operators)
    home = {case_id for case_id, draft in declared.items() if catalogue.root_of(draft.operator).stored == target.folder}
    return sorted((stored | set(entries)) - home)


class _Worker:
    """Makes cases one after the other; one per process."""

    def __init__(self, catalogue: Catalogue, operators: list[str], check: bool) -> None:
        self._catalogue = catalogue
        self._operators = operators
        self._check = check
        self._schema = Schema.of(catalogue.operators[name] for name in operators)
        self._locks: dict[Target, dict[str, LockEntry]] = {}

    def produce(self, case_id: str, target: Target) -> Produced:
        """Make the case and write or compare it; one that cannot be made does not stop the others."""
        try:
            return self._produce(case_id, target)
        except ContentError as error:
            return Produced(case_id, problem=str(error))
        except OSError as error:
            return Produced(case_id, problem=f"{case_id}: {error}")
        except UnwritableError as error:
            return Produced(case_id, unwritable=str(error))

    def _produce(self, case_id: str, target: Target) -> Produced:
        draft = self._declared(case_id)
        operator = self._catalogue.operators[draft.operator]
        case = make_case(draft, operator)
        text = self._committed(case, operator) if target.committed_only else None
        entry = lock_entry(case, draft.digest, "" if text is None else digest_bytes(text))
        path = target.path(case_id)
        if self._check:
            difference = self._difference(entry, target, text)
            return Produced(case_id, entry, problem=f"{case_id}: {difference}" if difference else "")
        if target.committed_only and text is None:
            path.unlink(missing_ok=True)
            return Produced(case_id, entry)
        if text is None:
            write_case(case, operator, path, self._schema, blobs=True)
        else:
            replace_file(path, [text])
        return Produced(case_id, entry, written=path.stat().st_size)

    def _declared(self, case_id: str) -> CaseDraft:
        draft = self._catalogue.draft(case_id)
        assert draft is not None
        return draft

    def _committed(self, case: Case, operator: Operator) -> bytes | None:
        """The text that is committed; None for a case that is too large."""
        # A byte takes at least one character, so a larger case need not be written to know that it is too large.
        if case.nbytes > COMMITTED_LIMIT:
            return None
        text = case_text(case, operator, self._schema)
        return text if len(text) <= COMMITTED_LIMIT else None

    def _locked(self, target: Target, case_id: str) -> LockEntry | None:
        if target not in self._locks:
            self._locks[target] = target.read_locks(self._operators)
        return self._locks[target].get(case_id)

    def _difference(self, entry: LockEntry, target: Target, text: bytes | None) -> str:
        """Describes how the regenerated case differs from the lock and the stored file; empty if it does not."""
        locked, path = self._locked(target, entry.id), target.path(entry.id)
        if locked is None:
            return "not in the lock file"
        if locked != entry:
            return f"differs from the lock in: {', '.join(locked.differences(entry))}"
        if target.committed_only:
            if (text is not None) != path.exists():
                return f"{path} is missing" if text is not None else f"{path} is stored, but is too large for that"
            return "" if text is None or path.read_bytes() == text else f"{path} differs from what is generated"
        if not path.exists():
            return f"{path} is missing"
        case = read_case(path, self._schema, self._catalogue.operators, case_id=entry.id)
        draft = self._declared(entry.id)
        again = lock_entry(as_declared(case, draft, self._catalogue.operators[draft.operator]), entry.declared)
        return "" if again == entry else f"{path} differs from what is generated"


_worker: _Worker


def _start_worker(roots: tuple[Root, ...], operators: list[str], check: bool) -> None:
    global _worker  # noqa: PLW0603 - the pool offers no other place for a worker's state
    _worker = _Worker(Catalogue(*roots), operators, check)


def _produce_in_worker(case_id: str, target: Target) -> Produced:
    return _worker.produce(case_id, target)
