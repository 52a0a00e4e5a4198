"""The files of a results folder, read back: run.json, results.jsonl, report.json."""

import itertools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mluops_gtest.errors import ContentError, UsageError
from mluops_gtest.files.typed import MAX_BYTES, Source, convert, decode_json, file_bytes, open_plain_file
from mluops_gtest.garbage import no_garbage_collection
from mluops_gtest.model.report import RunReport
from mluops_gtest.model.result import CaseResult, Outcome
from mluops_gtest.results.records import report_from_json, with_results
from mluops_gtest.results.stored import left_in_file

if TYPE_CHECKING:
    from mluops_gtest.results.records import ResultReader

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
