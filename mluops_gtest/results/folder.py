"""A results folder: the names of its files, the files read back, all shards merged, and the lock of who writes there.

Results are read one by one, so that any number fits into memory.
"""

import contextlib
import errno
import itertools
import os
import sys
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from mluops_gtest.base.errors import ContentError, UnwritableError, UsageError
from mluops_gtest.base.gc_tuning import no_garbage_collection
from mluops_gtest.base.text import merged_labels
from mluops_gtest.base.typed_files import MAX_BYTES, Source, convert, decode_json, file_bytes, open_plain_file
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import PickedResults, RunReport, TalliedResults, Tally
from mluops_gtest.core.result import CaseResult
from mluops_gtest.results.records import read_result, report_from_json, with_results

RUN = "run.json"
RESULTS = "results.jsonl"
REPORT = "report.json"
CAUSES = "causes.json"
LOCK = ".lock"
OUTPUTS = "outputs"
# The lines of a report before and behind those of its results.
BEFORE_RESULTS = b' "results": [\n'
AFTER_RESULTS = b"]\n"
# The size of a file from which on its results stay there.
LARGE_BYTES = 1 << 26
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_RUN_FILES = (RUN, RESULTS, REPORT)
# Where a run without --out has its folder.
RUNS = Path("mluops-results")


class StoredResults(TalliedResults):
    """Some lines of a file of results, in some order, read when they are asked for."""

    def __init__(self, lines: "array[int]", line: Callable[[int], bytes], source: Source, tally: Tally) -> None:
        """`line` gives a line of the file by its number; all were checked when they were read or written first."""
        self._lines, self._line, self._source = lines, line, source
        self.tally = tally

    def __len__(self) -> int:
        return len(self._lines)

    def read(self, place: int) -> CaseResult:
        """The result in the line that is at that place."""
        return read_result(self._line(self._lines[place]), self._source, check=False)


def read_request(folder: Path, option: str = "--resume") -> dict[str, Any]:
    """What a run was asked to do, as plain values; `option` is what named the folder."""
    path = folder / RUN
    try:
        data = file_bytes(path)
    except OSError as error:
        raise UsageError(f"{option} {folder}: no {RUN} there ({error.strerror}); name a results folder.") from error
    return convert(decode_json(data, request_source(folder)), dict[str, Any], request_source(folder))


def request_source(folder: Path) -> Source:
    """For messages about what a run was asked to do."""
    return Source(str(folder / RUN), "`mluops-test run` writes this file; start the run again.")


def read_done(folder: Path) -> dict[str, CaseResult]:
    """The results that a killed run left; a torn last line is dropped, and what was not run is not done."""
    path = folder / RESULTS
    try:
        lines = file_bytes(path).split(b"\n")
    except OSError:
        return {}
    done = {}
    # Without its end the last line may be torn.
    for number, line in enumerate(lines[:-1], 1):
        if not line:
            continue
        source = Source(f"{path}:{number}", "Remove the line, and `--resume` runs its case again.")
        result = read_result(line, source)
        if result.outcome is not Outcome.NOT_RUN:
            done[result.case] = result
    return done


def read_report(folder: Path) -> RunReport:
    """The report of a finished run: a results folder, or the report's own path."""
    path = folder / REPORT if folder.is_dir() else folder
    source = report_source(path)
    try:
        with no_garbage_collection():
            return _read_by_lines(path, source) or report_from_json(decode_json(file_bytes(path), source), source)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror or error}); name a results folder.") from error


def newest_run(parent: Path) -> Path | None:
    """The folder in this one whose run ended last and was not interrupted; None where there is none."""
    ended = sorted(parent.glob(f"*/{REPORT}"), key=lambda path: (path.stat().st_mtime_ns, path), reverse=True)
    return next((path.parent for path in ended if not read_report(path).interrupted), None)


def report_source(path: Path) -> Source:
    """For messages about a report."""
    return Source(str(path), "`mluops-test run` and `merge` write reports: name one of theirs, or run again.")


def _read_by_lines(path: Path, source: Source) -> RunReport | None:
    """The report in a file that has a line per result, as we write it; None where anything is otherwise.

    What is wrong with it is then found and told by whoever reads the document as a whole. Results of a large file stay
    there, and are read again when they are asked for.
    """
    try:
        with open_plain_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_BYTES:
                return None
            head = list(itertools.takewhile(lambda line: line != BEFORE_RESULTS, file))
            lines = _list_items(itertools.takewhile(lambda line: line != AFTER_RESULTS, file))
            start = sum(map(len, head)) + len(BEFORE_RESULTS)
            results: Sequence[CaseResult]
            if size > LARGE_BYTES:
                results = _leave_in_file(file.fileno(), start, lines, source)
            else:
                results = tuple(read_result(line, source) for line in lines)
            record = decode_json(b"".join([*head, BEFORE_RESULTS, AFTER_RESULTS, file.read()]), source)
        # Its summary tells of the results, which the document has not.
        summary = record.pop("summary", None) if isinstance(record, dict) else None
        return with_results(report_from_json(record, source), results, summary, source)
    except ContentError:
        return None


def _list_items(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The items of a list with one in each line; ContentError where a comma is missing or one too many."""
    more = True
    for line in lines:
        if not more:
            break
        more = line.endswith(b",\n")
        yield line[:-2] if more else line[:-1]
    else:
        if not more:
            return
    raise ContentError("The lines are not a list.")


def _leave_in_file(file: int, start: int, lines: Iterable[bytes], source: Source) -> StoredResults:
    """The results in these lines of an open file, `start` is where they begin; ContentError where one cannot be."""
    starts, tally, cases = array("q", [start]), Tally(), set()
    for line in lines:
        result = read_result(line, source)
        tally.add(result)
        cases.add(result.case)
        # Behind it are a comma and the end of the line.
        starts.append(starts[-1] + len(line) + 2)
    if len(cases) < tally.cases:
        raise ContentError("A case occurs twice.")
    copy = os.dup(file)

    def read(number: int) -> bytes:
        line = os.pread(copy, starts[number + 1] - starts[number], starts[number])
        return line[: line.rindex(b"}") + 1]

    results = StoredResults(array("q", range(tally.cases)), read, source, tally)
    weakref.finalize(results, os.close, copy)
    return results


def merge(reports: Mapping[str, RunReport]) -> RunReport:
    """One report of all; refused where cases are doubled, shards are missing or the runs differ."""
    beginning, first = next(iter(reports.items()))
    identity = _identity(first)
    for name, report in reports.items():
        own = _identity(report)
        unlike = [key for key in {**identity, **own} if own.get(key) != identity.get(key)]
        if unlike:
            values = "; ".join(
                f"its {key} is {own.get(key)!r}, but the first has {identity.get(key)!r}" for key in unlike
            )
            raise ContentError(f"{name} and {beginning} are parts of unlike runs: {values}.")
    _refuse_missing_shards([report.selection.get("shard") for report in reports.values()])
    places: dict[str, tuple[str, int]] = {}
    tally = Tally()
    for name, report in reports.items():
        for place, result in enumerate(report.results):
            if result.case in places:
                other = places[result.case][0]
                raise ContentError(f"{result.case} is in {other} and in {name}; each case must be in only one.")
            places[result.case] = name, place
            tally.add(result)
    picked = [(reports[name].results, place) for _, (name, place) in sorted(places.items())]
    results = PickedResults(picked, tally)
    timing: dict[str, float] = {}
    for report in reports.values():
        for phase, seconds in report.timing.items():
            timing[phase] = timing.get(phase, 0.0) + seconds
    return replace(
        first,
        selection={**first.selection, "shard": None, "times": None, "cases": len(results)},
        started=min(report.started for report in reports.values()),
        seconds=sum(report.seconds for report in reports.values()),
        results=results,
        timing=timing,
        shapes={name: shapes for report in reports.values() for name, shapes in report.shapes.items()},
        labels=merged_labels([report.labels for report in reports.values()]),
        interrupted=any(report.interrupted for report in reports.values()),
    )


def _identity(report: RunReport) -> dict[str, Any]:
    """What all shards of one run have in common."""
    unshared = ("shard", "times", "cases", "reseed")
    return {
        "backend": report.backend.get("name"),
        "version": report.tool_version,
        "--reseed": report.reseed,
        # Parts that were cut by different times need not make up the whole.
        "--times": report.selection.get("times"),
        **{f"selection.{name}": value for name, value in report.selection.items() if name not in unshared},
    }


def _refuse_missing_shards(shards: Sequence[str | None]) -> None:
    given = [shard for shard in shards if shard is not None]
    if not given:
        return
    counts = {shard.partition("/")[2] for shard in given}
    if len(counts) > 1 or len(given) != len(shards):
        words = ", ".join(str(shard) for shard in shards)
        raise ContentError(f"The shards {words} are not parts of one run.")
    count = int(counts.pop())
    missing = [f"{i}/{count}" for i in range(1, count + 1) if f"{i}/{count}" not in given]
    if missing:
        raise ContentError(f"Shards are missing: {', '.join(missing)}. Name the folder of every shard, each once.")


class ResultsFolder:
    """Locked by flock, so that the death of its owner frees it; the lock's file goes with the claim.

    A folder that was made for the claim and is still empty at its end goes, too.
    """

    def __init__(self, path: Path, *, exclusive: bool = False) -> None:
        """Claim the folder, made if need be; `exclusive`: FileExistsError where there is one already."""
        self.path = path
        try:
            # The folders that had to be made, the innermost first.
            self._new_folders = tuple(folder for folder in (path, *path.parents) if not folder.exists())
            path.mkdir(parents=True, exist_ok=not exclusive)
            self._lock = self._acquire_lock()
        except FileExistsError:
            if exclusive:
                raise
            raise UnwritableError(f"{path}: cannot be written: a file has that name.") from None
        except OSError as error:
            raise UnwritableError.of(path, error) from error

    @staticmethod
    def fresh(parent: Path, name: str) -> "ResultsFolder":
        """A folder of that name that nobody had before; a number makes it different where need be."""
        for number in itertools.count(1):
            with contextlib.suppress(FileExistsError):
                return ResultsFolder(parent / (name if number == 1 else f"{name}-{number}"), exclusive=True)
        raise AssertionError("there is always a next number")

    @staticmethod
    def new(path: Path, *, overwrite: bool, advice: str) -> "ResultsFolder":
        """The folder for new results: one that holds a run already is refused unless it may be overwritten."""
        folder = ResultsFolder(path)
        files = folder.run_files()
        if files and not overwrite:
            folder.close()
            raise UsageError(f"--out {path}: the folder already holds a run ({', '.join(files)}); {advice}.")
        return folder

    def __enter__(self) -> "ResultsFolder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run_files(self) -> tuple[str, ...]:
        """The files of a run that are here."""
        return tuple(name for name in _RUN_FILES if (self.path / name).exists())

    def clear(self) -> None:
        """Remove the files of a run and the outputs that it saved, and no others."""
        if (self.path / OUTPUTS).is_dir():
            from mluops_gtest.results.saved_outputs import remove_outputs  # late: it imports this module

            remove_outputs(self.path)
        for name in (*_RUN_FILES, CAUSES):
            try:
                (self.path / name).unlink(missing_ok=True)
            except OSError as error:
                raise UnwritableError.of(self.path / name, error) from error

    def recover(self) -> bool:
        """Claim the folder again where somebody removed or moved it; False where another run may be there now."""
        if is_in_place(self._lock, self.path / LOCK):
            return True
        try:
            again = ResultsFolder(self.path)
        except (UnwritableError, UsageError):
            return False
        if again.run_files():
            again.close()
            return False
        os.close(self._lock)
        self._lock = again._lock
        return True

    def close(self) -> None:
        """Give the folder back."""
        if is_in_place(self._lock, self.path / LOCK):
            with contextlib.suppress(OSError):
                (self.path / LOCK).unlink()
        _unlock(self._lock)
        os.close(self._lock)
        for folder in self._new_folders:
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _acquire_lock(self) -> int:
        """The descriptor that holds the lock."""
        path = self.path / LOCK
        while True:
            self.path.mkdir(parents=True, exist_ok=True)
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o666)
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
                raise UsageError(f"{path}: is a link, and locks are never written through one; remove it.") from error
            try:
                _flock(descriptor, self.path)
                if is_in_place(descriptor, path):
                    # Who is here; only for people, so a full disk is no reason to give up.
                    with contextlib.suppress(OSError):
                        os.ftruncate(descriptor, 0)
                        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            # Its owner took the file away between our two steps.
            os.close(descriptor)


def is_in_place(descriptor: int, path: Path, *, follow_symlinks: bool = False) -> bool:
    """True where the open file is still the one of that name, and not removed, moved or replaced."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=follow_symlinks))
    except OSError:
        return False


def _flock(descriptor: int, folder: Path) -> None:
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
        who = f"process {owner}" if owner.isdecimal() else "another process"
        raise UsageError(
            f"{folder}: {who} is writing there; wait until it ends, or name another folder with --out."
        ) from None


def _unlock(descriptor: int) -> None:
    """Also for those to whom a fork gave the descriptor."""
    if sys.platform != "win32":
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
