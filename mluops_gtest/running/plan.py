"""What a run is to do: options that go together, and cases selected, cut into shards and ordered by what they cost.

The costs are nanoseconds, guessed by the bytes that cases make and move, better by times that a run recorded.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from pathlib import Path
from typing import Final

from msgspec import field
from msgspec.structs import replace

from mluops_gtest.backends.registry import has_host_memory
from mluops_gtest.base.errors import ContentError, NothingSelectedError, UsageError
from mluops_gtest.base.frozen import Value
from mluops_gtest.casefiles.lock import LockEntry, unfold_entry
from mluops_gtest.catalog.selection import Selected, Session
from mluops_gtest.catalog.source import StoredCases
from mluops_gtest.core.buffers import gets_buffer
from mluops_gtest.core.case import Expect, Query
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult
from mluops_gtest.core.tensor import DType, Layout, TensorDesc
from mluops_gtest.results.folder import read_report
from mluops_gtest.running.options import OPTIONS, RunOptions, Stress

# Around every call: load, bind, poison, guard, judge, write. Measured on a desktop, as is the next one.
CASE_NS: Final = 8_000_000
# Made or read, copied, poisoned and compared.
BYTE_NS: Final = 8


class RecordedTimes(Value):
    """Seconds inside the backend, by case; of a case that was not run nothing is known."""

    seconds: Mapping[str, float] = field(default_factory=dict)

    @staticmethod
    def read(path: Path) -> "RecordedTimes":
        """The times in a results folder or a report.json."""
        ran = [result for result in read_report(path).results if result.outcome is not Outcome.NOT_RUN]
        return RecordedTimes({result.case: result.seconds for result in ran})

    @property
    def digest(self) -> str:
        """The same for the same times: parts of one run must be cut by the same ones."""
        return hashlib.sha256(json.dumps(sorted(self.seconds.items())).encode()).hexdigest()[:16]


def moved_bytes(entry: LockEntry, expect: Expect) -> int:
    """The bytes of all tensors that get a buffer; a descriptor alone costs nothing, however many elements it names."""
    descriptors = [
        TensorDesc(DType.named(tensor["dtype"]), Layout.ARRAY, tuple(tensor["dims"]))
        for tensor in (*entry.tensors["inputs"], *entry.tensors["outputs"])
    ]
    # The lock does not tell which tensors of a refused call have values; those that do are small.
    return sum(desc.nbytes for desc in descriptors if gets_buffer(expect, desc, has_values=False))


def costs_of(sizes: Mapping[str, int], times: RecordedTimes) -> dict[str, int]:
    """The cost of each case by its bytes, plus its recorded time; an unknown one is guessed by those that are known."""
    guesses = {case: CASE_NS + size * BYTE_NS for case, size in sizes.items()}
    known = {case: round(times.seconds[case] * 1e9) for case in sizes if case in times.seconds}
    # Whole numbers: every machine cuts the same parts.
    spent, guessed = sum(known.values()), sum(guesses[case] for case in known) or 1
    return {case: guess + known.get(case, guess * spent // guessed) for case, guess in guesses.items()}


def case_sizes(lock: Mapping[str, LockEntry], cases: Iterable[Selected]) -> dict[str, int]:
    """The bytes that each case makes and moves: for a user's file its size, for a case never generated 0."""
    sizes = {}
    for case in cases:
        if case.path is not None:
            sizes[case.id] = _file_size(case.path)
        elif case.draft is not None and case.id in lock:
            sizes[case.id] = moved_bytes(unfold_entry(lock[case.id], case.draft, lock), case.draft.expect)
        else:
            sizes[case.id] = 0
    return sizes


def _file_size(path: Path) -> int:
    """The size; 0 if the file cannot be read, which is reported when the case is loaded."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


class Shard(Value):
    """Part `index` (from 1) of `count`."""

    index: int
    count: int

    @staticmethod
    def parse(text: str) -> "Shard":
        """`2/5`."""
        index, slash, count = text.partition("/")
        if not (slash and index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
            raise UsageError(f"--shard {text}: write I/N with 1 ≤ I ≤ N, e.g. --shard 2/5.")
        return Shard(int(index), int(count))


def shard_of(ids: Sequence[str], costs: Mapping[str, int], shard: Shard) -> set[str]:
    """The ids of this shard: the longest first, ties by id, each to the shard with the least load so far."""
    loads = [0] * shard.count
    chosen = set()
    for case_id in sorted(ids, key=lambda one: (-costs[one], one)):
        lightest = loads.index(min(loads))
        loads[lightest] += costs[case_id]
        if lightest == shard.index - 1:
            chosen.add(case_id)
    return chosen


def smallest_first(ids: Sequence[str], costs: Mapping[str, int]) -> list[str]:
    """The ids by their costs; among equals the order stays."""
    return sorted(ids, key=lambda one: costs[one])


def typed_word(name: str) -> str:
    """An option of a run as the command line has it: its first word."""
    return OPTIONS[name].flags[0].partition("/")[0]


def refuse(options: RunOptions, typed: Set[str] = frozenset(), *, in_python: bool = False) -> None:
    """Refuse options that do not go together, before anything starts; `typed` are those that the user wrote down.

    A Python program meets them by the names of its arguments.
    """
    word: Callable[[str], str] = str if in_python else typed_word
    if in_python:
        _refuse_small(options)
    unused = _words_of("perf", options.changed() | typed, word)
    if unused and not options.perf:
        raise UsageError(f"{', '.join(unused)}: only timed cases use this; add {word('perf')}.")
    _refuse_together(options, options.changed() | typed, word)
    _refuse_on_cluster(options, word)
    needed = " and ".join(_words_of("workers", options.changed(), word))
    if needed and not options.isolated:
        if in_python:
            raise UsageError(
                f"{needed}: this needs worker processes, and {options.backend!r} runs in this one. Say isolate=True "
                "with a backend that `--backend` could name."
            )
        raise UsageError(f"{needed} needs worker processes; backend {options.backend!r} runs inline: add --isolate.")
    if options.guard_pages:
        _refuse_guard_pages(options)


def _words_of(need: str, among: Set[str], word: Callable[[str], str]) -> list[str]:
    """Those of the options that are of no use without that."""
    return [word(name) for name, one in OPTIONS.items() if one.needs == need and name in among]


def _refuse_together(options: RunOptions, given: Set[str], word: Callable[[str], str]) -> None:
    if options.stress is not None:
        Stress.parse(options.stress)
    for name in options.changed():
        if beside := [word(other) for other in OPTIONS[name].conflicts if other in options.changed()]:
            raise UsageError(f"{word(name)} {OPTIONS[name].why}: leave out {' and '.join(beside)}.")
    if options.overwrite and options.out is None:
        raise UsageError("--overwrite replaces the folder of --out; name it, e.g. --out results --overwrite.")
    jobs, devices, perf = word("jobs"), word("devices"), word("perf")
    if {"jobs", "devices"} <= given:
        raise UsageError(f"Use either {jobs} or {devices}: with {devices} each device has one worker.")
    if options.perf and options.jobs > 1:
        raise UsageError(
            f"{perf} times one call at a time: leave out {jobs}. {devices} works, since each device has its own worker."
        )
    if options.times is not None and not given & {"shard", "stop_at_first", "failed"}:
        raise UsageError("--times only helps --shard I/N, -x and --failed; add one of them or leave out --times.")


def _refuse_small(options: RunOptions) -> None:
    """Refuse numbers that the command line does not read."""
    for name, one, value in options.single_values():
        if one.least is not None and value < one.least:
            raise UsageError(f"{name}={value} is too small; it must be at least {one.least}.")
        if one.above is not None and value <= one.above:
            raise UsageError(f"{name}={value} is too small; it must be above {one.above}.")


def _refuse_on_cluster(options: RunOptions, word: Callable[[str], str]) -> None:
    """Refuse what a cluster cannot do, and what only a cluster can."""
    for name in options.changed():
        one = OPTIONS[name]
        if options.cluster is None and one.needs == "cluster":
            raise UsageError(f"{word(name)} {one.why}: add --cluster ADDRESS.")
        if options.cluster is not None and one.off_cluster:
            # How often a case is repeated can be said to any worker, how long all together cannot.
            if name == "stress" and str(options.stress).endswith("x"):
                continue
            seconds = " SECONDS" if name == "stress" else ""
            raise UsageError(f"{word(name)}{seconds} does not go with --cluster: {one.off_cluster}.")
    for file in options.ship:
        if file not in options.backend:
            raise UsageError(f"--ship {file}: --backend {options.backend} does not name that file.")


def _refuse_guard_pages(options: RunOptions) -> None:
    """Only host memory that a worker maps can be guarded, and calls that are timed must not pay for it."""
    if options.perf:
        raise UsageError("--guard-pages changes the memory of the calls that --perf times: leave out one of them.")
    if sys.platform != "linux":
        raise UsageError("--guard-pages needs Linux.")
    if not has_host_memory(options.backend, options.runtime):
        runtime = "" if options.runtime is None else f" with --runtime {options.runtime}"
        raise UsageError(
            f"--guard-pages works on host memory, but backend {options.backend!r}{runtime} has its own memory; use it "
            "with Python objects, numpy and reference with --isolate, and c:LIBRARY without a runtime."
        )


class RunPlan(Value):
    """A run that can begin: its options, and its cases in the order in which they run."""

    options: RunOptions
    session: Session
    cases: tuple[Selected, ...]
    # Declared cases that were not selected.
    left_out: int
    times: RecordedTimes | None = None
    # What an interrupted run has done; None for a new run.
    done: dict[str, CaseResult] | None = None

    @property
    def todo(self) -> tuple[Selected, ...]:
        """The cases that have no result yet."""
        return tuple(case for case in self.cases if case.id not in (self.done or {}))

    def source(self, on_generate: Callable[[str], None] | None = None) -> StoredCases:
        """Where the cases come from; `on_generate` hears of each that must be made first."""
        options = self.options
        return self.session.source(
            self.cases,
            strict=options.strict,
            allow_outside_paths=options.allow_outside_paths,
            on_generate=on_generate,
            reseed=options.reseed,
        )

    def costs(self, source: StoredCases) -> dict[str, int]:
        """What the cases to do cost; unknown if the lock is broken, which every case reports itself."""
        try:
            return costs_of(case_sizes(source.lock, self.todo), self.times or RecordedTimes())
        except ContentError:
            return {}


def plan_run(options: RunOptions, session: Session, warn: Callable[[str], None]) -> RunPlan:
    """The selected cases of the shard; NothingSelectedError where there are none, unless a shard may be empty."""
    query = options.selection
    if options.failed is not None:
        query = _only_failed(session, query, Path(options.failed), warn)
    elif options.stress is not None and query.is_default:
        # The cases in which threads must collide.
        query = replace(query, tags=("race",))
    by_size = options.stop_at_first or options.failed is not None
    times = None if options.times is None else RecordedTimes.read(Path(options.times))
    options = replace(options, selection=query, times=None if times is None else times.digest)
    chosen = session.select(query)
    for note in dict.fromkeys(case.note for case in chosen.cases if case.note):
        warn(note)
    if options.shard is None and not by_size:
        return RunPlan(options, session, chosen.cases, chosen.left_out, times)
    cases = {case.id: case for case in chosen.cases}
    if times is not None and not times.seconds.keys() & cases:
        warn("--times has none of the selected cases; shards are balanced by the size of the cases instead.")
    costs = costs_of(case_sizes(session.source(chosen.cases).lock, chosen.cases), times or RecordedTimes())
    ids = list(cases)
    if options.shard is not None:
        mine = shard_of(ids, costs, Shard.parse(options.shard))
        ids = [case_id for case_id in ids if case_id in mine]
    if not ids and not options.allow_empty_shard:
        raise NothingSelectedError("This shard has no cases; use fewer shards, or add --allow-empty-shard.")
    ids = smallest_first(ids, costs) if by_size else ids
    return RunPlan(options, session, tuple(cases[case_id] for case_id in ids), chosen.left_out, times)


def _only_failed(session: Session, query: Query, path: Path, warn: Callable[[str], None]) -> Query:
    """The query narrowed down to what did not pass in the results at `path`; it names every such case."""
    old = [result.case for result in read_report(path).results if result.outcome.blocks]
    failed = [one for case in old for one in session.catalogue.successors(case) or (case,)]
    if not failed:
        raise NothingSelectedError(f"--failed {path}: nothing failed there, so there is nothing to run again.")
    gone = [case for case in failed if session.catalogue.draft(case) is None and not Path(case).is_file()]
    if gone:
        warn(f"--failed {path}: {len(gone)} case(s) no longer exist and are left out, e.g. {gone[0]}.")
    remaining = set(failed).difference(gone)
    if query.select:
        remaining &= {case.id for case in session.select(query).cases}
    if not remaining:
        raise NothingSelectedError(f"--failed {path}: none of the {len(failed)} cases that failed there is selected.")
    return replace(query, select=tuple(case for case in failed if case in remaining))
