"""What a run leaves: run.json before the first case, results.jsonl line by line, report.json at the end."""

import contextlib
import os
import shlex
import time
from typing import Any, assert_never

from mluops_gtest.errors import UnwritableError
from mluops_gtest.files.typed import json_bytes
from mluops_gtest.files.writing import replace_file
from mluops_gtest.model.event import CaseFinished, CaseStarted, Event, RunFinished, RunStarted
from mluops_gtest.model.report import RunReport
from mluops_gtest.model.result import CaseResult
from mluops_gtest.results.files import AFTER_RESULTS, BEFORE_RESULTS, REPORT, RESULTS, RUN
from mluops_gtest.results.folder import ResultsFolder
from mluops_gtest.results.records import report_to_json, result_to_json


class ResultFiles:
    """Writes the results of one run; every finished case is on disk before the next one starts."""

    def __init__(self, folder: ResultsFolder, request: dict[str, Any], done: tuple[CaseResult, ...] = ()) -> None:
        self.seconds = 0.0
        self.finished = list(done)
        self._folder = folder
        self._request = json_bytes(request, indent=1) + b"\n"
        self._path = folder.path / RESULTS
        self._begin()
        try:
            # An older report must not survive beside the results of a run that is killed.
            (folder.path / REPORT).unlink(missing_ok=True)
            self._lines = self._path.open("ab", buffering=0)
        except OSError as error:
            raise UnwritableError.of(folder.path, error) from error

    def _begin(self) -> None:
        """What is known so far, as the files of a run that goes on from here."""
        replace_file(self._folder.path / RUN, [self._request])
        replace_file(self._path, map(_line, self.finished))

    def __enter__(self) -> "ResultFiles":
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()

    def __call__(self, event: Event) -> None:
        """Listen to the run; UnwritableError where a result cannot be kept."""
        match event:
            case RunStarted() | CaseStarted() | RunFinished():
                pass
            case CaseFinished(result):
                start = time.perf_counter()
                self._append(result)
                self.seconds += time.perf_counter() - start
            case _:
                assert_never(event)

    def write_report(self, report: RunReport) -> None:
        """The report, whole or not at all."""
        try:
            replace_file(self._folder.path / REPORT, _document(report), make_folder=False)
        except UnwritableError as error:
            raise UnwritableError(f"{error} {self._what_is_left('writes the report')}") from error

    def _append(self, result: CaseResult) -> None:
        end = self._lines.tell()
        rest = memoryview(_line(result))
        try:
            while rest:
                rest = rest[self._lines.write(rest) :]
        except OSError as error:
            # Half a line helps nobody; should it stay, whoever reads it drops it.
            with contextlib.suppress(OSError):
                self._lines.truncate(end)
            raise UnwritableError.of(self._path, error, self._what_is_left("runs the rest")) from error
        self.finished.append(result)
        if not self._in_place():
            left = self._what_is_left("runs the rest")
            raise UnwritableError(f"{self._path}: cannot be written: the file was removed. {left}")

    def _in_place(self) -> bool:
        """What is written to a file that was removed or moved away reaches nobody."""
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._lines.fileno()))
        except OSError:
            return False

    def _what_is_left(self, resumed: str) -> str:
        """What is on disk, and how to go on; files that somebody removed are written again first."""
        if not self._in_place():
            try:
                if not self._folder.recover():
                    return "Another run may be there now; run this one again with another --out."
                self._begin()
            except UnwritableError:
                return "Nothing of this run could be kept; run it again with another --out."
        again = shlex.join(["mluops-test", "run", "--resume", str(self._folder.path)])
        return f"The results of {len(self.finished)} cases are kept there; once it can be written, `{again}` {resumed}."


def write_results(folder: ResultsFolder, report: RunReport) -> None:
    """A finished report as a results folder of its own."""
    folder.clear()
    replace_file(folder.path / RESULTS, map(_line, report.results))
    replace_file(folder.path / REPORT, _document(report))


def _document(report: RunReport) -> list[bytes]:
    """The head for people, then a line per result for programs."""
    record = report_to_json(report)
    results = record.pop("results")
    head = json_bytes(record, indent=1).removesuffix(b"\n}")
    lines = b",\n".join(map(json_bytes, results))
    return [head, b",\n", BEFORE_RESULTS, lines, b"\n", AFTER_RESULTS, b"}\n"]


def _line(result: CaseResult) -> bytes:
    return json_bytes(result_to_json(result)) + b"\n"
