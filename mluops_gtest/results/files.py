"""The files of a results folder, read back; results are read one by one, so that any number fits into memory."""

import itertools
import os
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from mluops_gtest.errors import ContentError, UsageError
from mluops_gtest.files.typed import MAX_BYTES, Source, convert, decode_json, file_bytes, open_plain_file
from mluops_gtest.garbage import no_garbage_collection
from mluops_gtest.model.report import RunReport, TalliedResults, Tally
from mluops_gtest.model.result import CaseResult, Outcome
from mluops_gtest.results.records import report_from_json, with_results

if TYPE_CHECKING:
    from mluops_gtest.results.records import ResultReader


class StoredResults(TalliedResults):
    """Some lines of a file of results, in some order."""

    def __init__(
        self, lines: "array[int]", line: Callable[[int], bytes], reader: "Callable[[], ResultReader]", tally: Tally
    ) -> None:
        """`line` gives a line of the file by its number; all were checked when they were read or written first.

        The reader is made when the first result is asked for.
        """
        self._lines, self._line, self._make_reader = lines, line, reader
        self.tally = tally

    def __len__(self) -> int:
        return len(self._lines)

    def __iter__(self) -> Iterator[CaseResult]:
        return map(self._read, self._lines)

    @overload
    def __getitem__(self, index: int) -> CaseResult: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[CaseResult, ...]: ...
    def __getitem__(self, index: int | slice) -> CaseResult | tuple[CaseResult, ...]:
        chosen = self._lines[index]
        return self._read(chosen) if isinstance(chosen, int) else tuple(map(self._read, chosen))

    @cached_property
    def _reader(self) -> "ResultReader":
        return self._make_reader()

    def _read(self, number: int) -> CaseResult:
        return self._reader.read_again(self._line(number))


def left_in_file(file: int, start: int, lines: Iterable[bytes], reader: "ResultReader") -> StoredResults:
    """The results in these lines of an open file, `start` is where they begin; ContentError where one cannot be."""
    starts, tally, cases = array("q", [start]), Tally(), set()
    for line in lines:
        result = reader.read(line)
        tally.add(result)
        cases.add(result.case)
        # Behind it are a comma and the end of the line.
        starts.append(starts[-1] + len(line) + 2)
    if len(cases) < tally.cases:
        raise ContentError("A case occurs twice.")
    kept = os.dup(file)

    def read(number: int) -> bytes:
        line = os.pread(kept, starts[number + 1] - starts[number], starts[number])
        return line[: line.rindex(b"}") + 1]

    results = StoredResults(array("q", range(tally.cases)), read, lambda: reader, tally)
    weakref.finalize(results, os.close, kept)
    return results


RUN = "run.json"
RESULTS = "results.jsonl"
REPORT = "report.json"
CAUSES = "causes.json"
# The lines of a report before and behind those of its results.
BEFORE_RESULTS = b' "results": [\n'
AFTER_RESULTS = b"]\n"
# The size of a file from which on its results stay there.
_LARGE = 1 << 26


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
    for number, line in enumerate(lines, 1):
        # Without its end a line may be torn.
        if not line or number == len(lines):
            continue
        source = Source(f"{path}:{number}", "Remove the line, and `--resume` runs its case again.")
        result = result_reader(source).read(line)
        if result.outcome is not Outcome.NOT_RUN:
            done[result.case] = result
    return done


def result_reader(source: Source) -> "ResultReader":
    """Reads lines of results; what that takes is made when the first is read."""
    from mluops_gtest.results.records import ResultReader

    return ResultReader(source)


def read_report(folder: Path) -> RunReport:
    """The report of a finished run: a results folder, or the report's own path."""
    path = folder / REPORT if folder.is_dir() else folder
    source = report_source(path)
    try:
        with no_garbage_collection():
            return _by_lines(path, source) or report_from_json(decode_json(file_bytes(path), source), source)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror or error}); name a results folder.") from error


def report_source(path: Path) -> Source:
    """For messages about a report."""
    return Source(str(path), "`mluops-test run` and `merge` write reports: name one of theirs, or run again.")


def _by_lines(path: Path, source: Source) -> RunReport | None:
    """The report in a file that has a line per result, as we write it; None where anything is otherwise.

    What is wrong with it is then found and told by whoever reads the document as a whole. Results of a large file stay
    there, and are read again when they are asked for.
    """
    reader = result_reader(source)
    try:
        with open_plain_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > MAX_BYTES:
                return None
            head = list(itertools.takewhile(lambda line: line != BEFORE_RESULTS, file))
            lines = _items(itertools.takewhile(lambda line: line != AFTER_RESULTS, file))
            start = sum(map(len, head)) + len(BEFORE_RESULTS)
            large = size > _LARGE
            results = left_in_file(file.fileno(), start, lines, reader) if large else tuple(map(reader.read, lines))
            record = decode_json(b"".join([*head, BEFORE_RESULTS, AFTER_RESULTS, file.read()]), source)
        # Its summary tells of the results, which the document has not.
        summary = record.pop("summary", None) if isinstance(record, dict) else None
        return with_results(report_from_json(record, source), results, summary, source)
    except ContentError:
        return None


def _items(lines: Iterable[bytes]) -> Iterator[bytes]:
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
