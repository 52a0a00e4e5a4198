"""A results folder that one process has to itself, and the report of all shards of a run."""

import contextlib
import errno
import itertools
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from mluops_gtest.errors import ContentError, UnwritableError, UsageError
from mluops_gtest.model.labels import merged_labels
from mluops_gtest.model.report import PickedResults, RunReport, Tally
from mluops_gtest.model.result import CaseResult
from mluops_gtest.results.files import CAUSES, REPORT, RESULTS, RUN


def merge(reports: Mapping[str, RunReport]) -> RunReport:
    """One report of all; refused where cases are doubled, shards are missing or the runs differ."""
    first = next(iter(reports.values()))
    _refuse_differences(reports, first)
    _refuse_missing_shards([report.selection.get("shard") for report in reports.values()])
    seen: dict[str, str] = {}
    places: dict[str, tuple[Sequence[CaseResult], int]] = {}
    tally = Tally()
    for name, report in reports.items():
        for place, result in enumerate(report.results):
            if result.case in seen:
                raise ContentError(
                    f"{result.case} is in {seen[result.case]} and in {name}; each case must be in only one."
                )
            seen[result.case] = name
            places[result.case] = report.results, place
            tally.add(result)
    results = PickedResults([places[case] for case in sorted(places)], tally)
    phases = {phase: 0.0 for report in reports.values() for phase in report.timing}
    for report in reports.values():
        for phase, seconds in report.timing.items():
            phases[phase] += seconds
    return replace(
        first,
        selection={**first.selection, "shard": None, "times": None, "cases": len(results)},
        started=min(report.started for report in reports.values()),
        seconds=sum(report.seconds for report in reports.values()),
        results=results,
        timing=phases,
        shapes={name: shapes for report in reports.values() for name, shapes in report.shapes.items()},
        labels=merged_labels([report.labels for report in reports.values()]),
        interrupted=any(report.interrupted for report in reports.values()),
    )


def _refuse_differences(reports: Mapping[str, RunReport], first: RunReport) -> None:
    wanted = _identity(first)
    for name, report in reports.items():
        for key, value in _identity(report).items():
            if value != wanted[key]:
                raise ContentError(f"{name}: its {key} is {value!r}, but the first has {wanted[key]!r}.")


def _identity(report: RunReport) -> dict[str, Any]:
    """What all shards of one run have in common."""
    selection = {k: v for k, v in report.selection.items() if k not in ("shard", "times", "cases", "reseed")}
    return {
        "backend": report.backend.get("name"),
        "version": report.tool_version,
        "--reseed": report.reseed,
        # Parts that were cut by different times need not make up the whole.
        "--times": report.selection.get("times"),
        "selection": selection,
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
        raise ContentError(f"Shards are missing: {', '.join(missing)}.")


LOCK = ".lock"
OUTPUTS = "outputs"
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_FILES = (RUN, RESULTS, REPORT)


class ResultsFolder:
    """Locked by flock, so that the death of its owner frees it; the lock's file goes with the claim.

    A folder that was made for the claim and is still empty at its end goes, too.
    """

    def __init__(self, path: Path, *, exclusive: bool = False) -> None:
        """Claim the folder, made if need be; `exclusive`: FileExistsError where there is one already."""
        self.path = path
        try:
            # The folders that had to be made, the innermost first.
            self._made = tuple(folder for folder in (path, *path.parents) if not folder.exists())
            path.mkdir(parents=True, exist_ok=not exclusive)
            self._lock = self._locked()
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
        held = folder.held()
        if held and not overwrite:
            folder.close()
            raise UsageError(f"--out {path}: the folder already holds a run ({', '.join(held)}); {advice}.")
        return folder

    def __enter__(self) -> "ResultsFolder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def held(self) -> tuple[str, ...]:
        """The files of a run that are here."""
        return tuple(name for name in _FILES if (self.path / name).exists())

    def clear(self) -> None:
        """Remove the files of a run and the outputs that it saved, and no others."""
        if (self.path / OUTPUTS).is_dir():
            from mluops_gtest.results.saved_outputs import remove_outputs  # late: it takes numpy

            remove_outputs(self.path)
        for name in (*_FILES, CAUSES):
            try:
                (self.path / name).unlink(missing_ok=True)
            except OSError as error:
                raise UnwritableError.of(self.path / name, error) from error

    def recover(self) -> bool:
        """Claim the folder again where somebody removed or moved it; False where another run may be there now."""
        if _in_place(self._lock, self.path / LOCK):
            return True
        try:
            again = ResultsFolder(self.path)
        except (UnwritableError, UsageError):
            return False
        if again.held():
            again.close()
            return False
        os.close(self._lock)
        self._lock = again._lock
        return True

    def close(self) -> None:
        """Give the folder back."""
        if _in_place(self._lock, self.path / LOCK):
            with contextlib.suppress(OSError):
                (self.path / LOCK).unlink()
        _unlock(self._lock)
        os.close(self._lock)
        for folder in self._made:
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _locked(self) -> int:
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
                if _in_place(descriptor, path):
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


def _in_place(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
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
