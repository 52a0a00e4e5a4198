"""The files of a results folder, read back: run.json, results.jsonl, report.json."""

from pathlib import Path
from typing import Any

from mluops_gtest.errors import UsageError
from mluops_gtest.files.typed import Source, convert, decode_json, file_bytes
from mluops_gtest.garbage import no_garbage_collection
from mluops_gtest.model.report import RunReport
from mluops_gtest.model.result import CaseResult, Outcome
from mluops_gtest.results.records import report_from_json, result_from_json

RUN = "run.json"
RESULTS = "results.jsonl"
REPORT = "report.json"


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
        result = result_from_json(decode_json(line, source), source)
        if result.outcome is not Outcome.NOT_RUN:
            done[result.case] = result
    return done


def read_report(folder: Path) -> RunReport:
    """The report of a finished run: a results folder, or the report's own path."""
    path = folder / REPORT if folder.is_dir() else folder
    try:
        data = file_bytes(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror or error}); name a results folder.") from error
    source = Source(str(path), "`mluops-test run` and `merge` write reports: name one of theirs, or run again.")
    with no_garbage_collection():
        return report_from_json(decode_json(data, source), source)
