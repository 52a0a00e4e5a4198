"""`mluops-test generate`: cases written into a folder, or compared with what lies there.

Stored baselines recomputed from stored inputs.

Writes cases for the released runner: only schema fields, its ids, its folders.
"""

import contextlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from mluops_gtest.base.errors import ContentError, UndefinedCallError, UnwritableError, UsageError
from mluops_gtest.base.files import TEXT, place_below, replace_file
from mluops_gtest.base.frozen import Value
from mluops_gtest.casefiles.files import stored_bytes
from mluops_gtest.casefiles.lock import (
    LockEntry,
    case_path,
    fold_entry,
    is_stored,
    lock_entry,
    read_locks,
    whole_entry,
    write_locks,
)
from mluops_gtest.casefiles.reader import read_case
from mluops_gtest.casefiles.schema import Schema
from mluops_gtest.casefiles.writer import case_text, write_case
from mluops_gtest.catalog.derived_lock import derived_path
from mluops_gtest.catalog.make import as_declared, make_case
from mluops_gtest.catalog.root import Root
from mluops_gtest.catalog.selection import Catalogue, Session
from mluops_gtest.core.buffers import baseline_of, bind_values, expected_results, owned_rows, row_counts
from mluops_gtest.core.call import Status
from mluops_gtest.core.case import Case, CaseDraft, Expect, Query
from mluops_gtest.core.declaration import CheckVerdict
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.tensor import Array, DType, Tensor, digest_bytes, widened

# What is committed: a file of at most this many bytes. Larger cases are made into the cache on first use.
COMMITTED_LIMIT = 64 * 1024


class Target(Value):
    """Where cases are written: the root's own store keeps small files alone, any other folder keeps all."""

    folder: Path
    suffix: str = TEXT
    committed_only: bool = False

    def path(self, case_id: str) -> Path:
        return case_path(self.folder, case_id, self.suffix)

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
        entries = self._locks[target]
        return entries.get(case_id) and whole_entry(entries[case_id], self._declared(case_id), entries)

    def _difference(self, entry: LockEntry, target: Target, text: bytes | None) -> str:
        """Describes how the regenerated case differs from the lock and the stored file; empty if it does not."""
        locked, path = self._locked(target, entry.id), target.path(entry.id)
        if locked is None:
            return "not in the lock file"
        if locked != entry:
            return f"differs from the lock in: {', '.join(locked.differences(entry))}"
        if target.committed_only:
            if (text is not None) != is_stored(path):
                return f"{path} is missing" if text is not None else f"{path} is stored, but is too large for that"
            return "" if text is None or stored_bytes(path) == text else f"{path} differs from what is generated"
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


def verify_case(case: Case, operator: Operator) -> list[str]:
    """How the stored answer differs from the reference's, in words; empty when it does not."""
    call = bind_values(case, operator)
    answer = operator.answer(call)
    expect = case.expect
    if answer.status != expect.status or (expect.check is not None and answer.check != expect.check):
        return [f"expects {_words(CheckVerdict(expect.status, expect.check))}, the checks say {_words(answer)}"]
    if not answer.computes or not case.baseline_stored:
        return []
    try:
        broken = operator.broken(call)
        if broken is not None:
            raise UndefinedCallError(case.id, operator.name, broken)
        baseline = baseline_of(operator, call)
    except (ValueError, AssertionError, LookupError, TypeError, ArithmeticError, MemoryError) as error:
        # A user's file may hold anything: rows that do not exist, lists of another length.
        return [f"the reference cannot work with the stored inputs: {type(error).__name__}: {error}"]
    found = []
    counts = {**baseline.scalars, **{name: int(baseline.outputs[name].reshape(-1)[0]) for name in operator.counts}}
    for tensor in case.outputs:
        if tensor.data is None:
            found.append(f"{tensor.id}: no stored values")
            continue
        # Behind the rows that the operator owns a file may hold anything.
        rows = owned_rows(operator.output(tensor.id), counts)
        unequal = _unequal(tensor.values, baseline.outputs[tensor.id], tensor.desc.dtype, rows)
        if unequal:
            found.append(f"{tensor.id}: {unequal} of {tensor.desc.count} elements differ")
    stored = expected_results(case, operator)
    found += [
        f"{name}: stored {stored[name]}, recomputed {value}"
        for name, value in baseline.scalars.items()
        if name in stored and stored[name] != value
    ]
    return found


def _unequal(stored: Array, recomputed: Array, dtype: DType, rows: int | None) -> int:
    """Elements of the leading rows whose bits differ; NaNs are equal whatever their payload, which arithmetic leaves
    open."""
    if stored.shape != recomputed.shape:
        return max(stored.size, recomputed.size, 1)
    left, right = (np.ascontiguousarray(array[:rows]).reshape(-1) for array in (stored, recomputed))
    differing = left.view(dtype.bits) != right.view(dtype.bits)
    if dtype.is_real and differing.any():
        differing &= ~(np.isnan(widened(left, dtype)) & np.isnan(widened(right, dtype)))
    return int(np.count_nonzero(differing))


def _words(answer: CheckVerdict) -> str:
    return f"{answer.status.name}{f' ({answer.check})' if answer.check else ''}"


INDEX = "index.json"


def not_exportable(case: Case, operator: Operator | None) -> str:
    """Why the released runner cannot run the case: it compares the values of calls that compute. Empty: it can."""
    if operator is None:
        return f"operator {case.operator!r} is not known here"
    expect = case.expect
    if replace(expect, check=None).is_plain and operator.computes(expect.status, expect.check):
        return _unjudged_rows(case, operator)
    if expect.status is not Status.SUCCESS:
        return f"it expects the status {expect.status.name}" + (f" (check {expect.check})" if expect.check else "")
    if expect.check is not None:
        return f"nothing is computed (check {expect.check})"
    plain = Expect()
    special = [name for name in expect.__struct_fields__ if getattr(expect, name) != getattr(plain, name)]
    return f"it needs a special caller ({', '.join(name for name in special if name != 'degenerate')})"


def _unjudged_rows(case: Case, operator: Operator) -> str:
    """Why the released runner would judge rows that belong to nobody: an output counts those that count."""
    counts = row_counts(operator, case.outputs, {})
    for tensor in case.outputs:
        count = operator.output(tensor.id).rows_owned
        if count in operator.counts and counts.get(count) != tensor.desc.dims[0]:
            return f"the released runner compares all rows of {tensor.id}, also those behind {count}, which are free"
    return ""


@dataclass(slots=True)
class Export:
    """A folder that cases are exported into, and what its index says of them."""

    folder: Path
    suffix: str
    schema: Schema
    written: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[dict[str, Any]] = field(default_factory=list)
    _taken: set[Path] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.folder.is_dir() and any(self.folder.iterdir()):
            raise UsageError(f"{self.folder} is not empty; export needs a new or empty folder, so name another one.")

    def add(self, case: Case, operator: Operator, name: str) -> None:
        """Write the case where the released suite would have it: OPERATOR/test_case/NAME."""
        path = self._path(Path(operator.released_name) / "test_case", name)
        target = place_below(self.folder, path)
        write_case(_released(case, operator), operator, target, self.schema, blobs=True)
        entry = {"id": case.id, "op_name": operator.released_name, "file": path.as_posix(), "tags": list(case.tags)}
        self.written.append(entry)

    def write_index(self, tool_version: str) -> None:
        """The exported cases in order, and the others with the reason."""
        record = {"format": 1, "tool_version": tool_version, "cases": self.written, "left_out": self.left_out}
        text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
        replace_file(self.folder / INDEX, [text.encode()])

    def _path(self, folder: Path, name: str) -> Path:
        path, number = folder / f"{name}{self.suffix}", 1
        # Files of the same name in two folders of the user's.
        while path in self._taken:
            number += 1
            path = folder / f"{name}_{number}{self.suffix}"
        self._taken.add(path)
        return path


def _released(case: Case, operator: Operator) -> Case:
    """The case with the ids of the released suite; criteria are written out, because its runner has no defaults."""
    return replace(
        case,
        expect=Expect(degenerate=case.expect.degenerate),
        inputs=_numbered(case.inputs, "input"),
        outputs=_numbered(case.outputs, "output"),
        criteria=tuple(
            operator.usual_criteria(tensor.id, tensor.desc.dtype, case.facts) if criteria == () else criteria
            for criteria, tensor in zip(case.criteria, case.outputs, strict=True)
        ),
    )


def _numbered(tensors: Iterable[Tensor], role: str) -> tuple[Tensor, ...]:
    return tuple(replace(tensor, id=f"{role}{number}") for number, tensor in enumerate(tensors, 1))


class Generation(Value):
    """Which cases are made, and where each goes."""

    catalogue: Catalogue
    # By case.
    targets: Mapping[str, Target]
    # Of every root.
    stores: tuple[Target, ...]
    # The operators that it is about; None: all.
    operators: frozenset[str] | None
    check: bool
    # How what is derived now differs from each operator's derived.lock.
    underived: tuple[str, ...] = ()

    def produce(self, jobs: int = 1) -> Iterator[Produced]:
        """Make every case and write or compare it, as they finish; the first unwritable one is the last."""
        for item in self._produced(jobs):
            yield item
            if item.unwritable:
                return

    def _produced(self, jobs: int) -> Iterator[Produced]:
        operators = sorted({case_id.partition("/")[0] for case_id in self.targets})
        if jobs <= 1 or len(self.targets) <= 1:
            worker = _Worker(self.catalogue, operators, self.check)
            yield from (worker.produce(*item) for item in self.targets.items())
            return
        # Spawned: a fork would copy the parent's threads' locks; operators are loaded by path in each worker.
        with one_blas_thread():
            start = _start_worker, (self.catalogue.roots, operators, self.check)
            pool = ProcessPoolExecutor(jobs, get_context("spawn"), *start)
            try:
                for future in as_completed([pool.submit(_produce_in_worker, *item) for item in self.targets.items()]):
                    yield future.result()
            finally:
                # After an interrupt nothing more is begun.
                pool.shutdown(cancel_futures=True)

    def differences(self) -> list[str]:
        """What would be derived otherwise, and what is stored or locked although nobody declares it."""
        return [
            *self.underived,
            *self._broken_successors(),
            *(
                f"{case_id}: stored or locked, but not declared"
                for store in self.stores
                for case_id in self._stale(store, self._entries(store))
            ),
        ]

    def _broken_successors(self) -> Iterator[str]:
        """What is wrong with the lists of old ids."""
        for name in sorted(self.catalogue.operators if self.operators is None else self.operators):
            try:
                self.catalogue.replaced(name)
            except ContentError as error:
                yield str(error)

    def lock(self, produced: list[Produced]) -> Iterator[tuple[Target, list[Produced], list[str]]]:
        """Write the lock of each folder: what went there, and the ids that are no longer declared and were removed."""
        for target in dict.fromkeys(self.targets.values()):
            mine = [item for item in produced if self.targets[item.id] == target]
            entries = self._entries(target)
            stale = self._stale(target, entries)
            made = {item.id: item.entry for item in mine if item.entry is not None}
            kept = {case_id: entry for case_id, entry in (entries | made).items() if case_id not in stale}
            if target.committed_only:
                drafts = self.catalogue.drafts_of(*{entry.operator for entry in kept.values()})
                kept = {case_id: fold_entry(entry, drafts[case_id], kept) for case_id, entry in kept.items()}
            write_locks(target.folder, kept.values(), {case_id.partition("/")[0] for case_id in (*made, *stale)})
            for case_id in stale:
                target.path(case_id).unlink(missing_ok=True)
                with contextlib.suppress(OSError):
                    target.path(case_id).parent.rmdir()
            yield target, mine, stale

    def _entries(self, target: Target) -> dict[str, LockEntry]:
        """The lock's lines of these operators, but of none that another root's hides."""
        entries = target.read_locks(self.operators)
        return {case_id: one for case_id, one in entries.items() if not self._is_hidden(target, case_id)}

    def _is_hidden(self, target: Target, case_id: str) -> bool:
        return self.catalogue.hides(target.folder.parent, case_id.partition("/")[0])

    def _stale(self, target: Target, entries: Mapping[str, LockEntry]) -> list[str]:
        """Cases of these operators that are locked or stored in the root but no longer declared."""
        if not target.committed_only:
            return []
        catalogue, operators = self.catalogue, self.operators
        folders = [target.folder] if operators is None else [target.folder / name for name in operators]
        files = (path for folder in folders for path in folder.rglob(f"*{target.suffix}"))
        stored = {path.relative_to(target.folder).with_suffix("").as_posix() for path in files}
        declared = catalogue.drafts if operators is None else catalogue.drafts_of(*operators)
        home = {one.id for one in declared.values() if catalogue.root_of(one.operator).stored == target.folder}
        return sorted(one for one in (stored | set(entries)) - home if not self._is_hidden(target, one))


def plan_generation(session: Session, query: Query, out: Path | None, form: str, *, check: bool) -> Generation:
    """The cases of the query with their targets; UsageError where one cannot be made or written there."""
    catalogue = session.catalogue
    underived = _derive_first(catalogue, query, check=check) if out is None else []
    selection = session.select(query)
    foreign = [case.id for case in selection.cases if not case.is_declared]
    if foreign:
        raise UsageError(f"generate makes declared cases; {foreign[0]} has no declaration; `run` takes it as it is.")
    if out is None and form != "prototxt":
        raise UsageError("The content root stores text files; to write --format pb, add --out DIR.")
    stores = {root: Target(out or root.stored, f".{form}", committed_only=out is None) for root in catalogue.roots}
    targets = {}
    for case in selection.cases:
        root = catalogue.root_of(case.operator)
        if out is None and root.bundled and not check:
            raise UsageError(
                f"{case.id}: generate does not write into the installed package; say where to write: --out DIR."
            )
        targets[case.id] = stores[root]
    folders = tuple(dict.fromkeys(stores.values()))
    return Generation(catalogue, targets, folders, selection.operators, check, tuple(underived))


def _derive_first(catalogue: Catalogue, query: Query, *, check: bool) -> list[str]:
    """Write the derived.lock of each operator that the query may be about, or say how it differs."""
    words = (*query.operators, *(text.partition("/")[0].partition(":")[0] for text in query.select))
    known = [catalogue.operators.get_any(word) for word in words]
    named = {one.name for one in known if one is not None}
    names = sorted(named if named and None not in known else catalogue.operators)
    problems = []
    for name in names:
        root = catalogue.root_of(name)
        path = root.cases / f"{name}.yaml"
        if not path.is_file() or (root.bundled and not check):
            continue
        # To derive cases takes modules of its own.
        if b"standard:" in path.read_bytes() or os.path.lexists(derived_path(path)):
            from mluops_gtest.catalog.derive import update_lock

            problems.append(update_lock(path, catalogue.operators, name, check=check))
    return [problem for problem in problems if problem]
