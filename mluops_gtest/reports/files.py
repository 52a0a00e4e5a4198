"""A results folder: run.json before the first case, results.jsonl line by line, report.json at the end."""

import dataclasses
import json
import os
import time
from pathlib import Path
from typing import IO, Any, assert_never

from mluops_gtest.codec.results import report_from_json, report_to_json, result_from_json, result_to_json
from mluops_gtest.errors import ContentError, UsageError
from mluops_gtest.model.event import CaseFinished, CaseStarted, Event, RunFinished, RunStarted
from mluops_gtest.model.report import RunReport
from mluops_gtest.model.result import CaseResult, Outcome

RUN = "run.json"
RESULTS = "results.jsonl"
REPORT = "report.json"


class ResultFiles:
    """Writes the results of one run; every finished case is on disk before the next one starts."""

    def __init__(self, folder: Path, request: dict[str, Any], done: tuple[CaseResult, ...] = ()) -> None:
        self.folder = folder
        self.seconds = 0.0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # An older report must not survive beside the results of a run that is killed.
            (folder / REPORT).unlink(missing_ok=True)
            _replace(folder / RUN, json.dumps(request, indent=1) + "\n")
            _replace(folder / RESULTS, "".join(_line(result) for result in done))
            self._lines: IO[str] = (folder / RESULTS).open("a", encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--out {folder}: cannot write there: {error.strerror or error}.") from error

    def __call__(self, event: Event) -> None:
        """Listen to the run."""
        match event:
            case RunStarted() | CaseStarted():
                pass
            case CaseFinished(result):
                start = time.perf_counter()
                self._lines.write(_line(result))
                self._lines.flush()
                self.seconds += time.perf_counter() - start
            case RunFinished():
                self._lines.close()
            case _:
                assert_never(event)

    def write_report(self, report: RunReport) -> None:
        """The report, whole or not at all."""
        report = dataclasses.replace(report, timing={**report.timing, "write": self.seconds})
        _replace(self.folder / REPORT, _document(report))


def read_request(folder: Path) -> dict[str, Any]:
    """What a run was asked to do."""
    path = folder / RUN
    try:
        request = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--resume {folder}: no {RUN} there ({error.strerror}); name a results folder.") from error
    except ValueError as error:
        raise ContentError(f"{path}: not valid JSON: {error}.") from error
    if not isinstance(request, dict):
        raise ContentError(f"{path}: not a run's description.")
    return request


def read_done(folder: Path) -> dict[str, CaseResult]:
    """The results that a killed run left; a torn last line is dropped, and what was not run is not done."""
    path = folder / RESULTS
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError:
        return {}
    done = {}
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            result = result_from_json(json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            if number == len(lines):
                break
            raise ContentError(f"{path}:{number}: not a result: {error}.") from error
        if result.outcome is not Outcome.NOT_RUN:
            done[result.case] = result
    return done


def read_report(folder: Path) -> RunReport:
    """The report of a finished run: a results folder, or the report's own path."""
    path = folder / REPORT if folder.is_dir() else folder
    try:
        return report_from_json(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror or error}); name a results folder.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ContentError(f"{path}: not a report of mluops-test: {error!r}.") from error


def write_results(folder: Path, report: RunReport) -> None:
    """A finished report as a results folder of its own."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _replace(folder / RESULTS, "".join(_line(result) for result in report.results))
        _replace(folder / REPORT, _document(report))
    except OSError as error:
        raise UsageError(f"--out {folder}: cannot write there: {error.strerror or error}.") from error


def _document(report: RunReport) -> str:
    """The head for people, then a line per result: the encoder in C does not indent, and ten thousand lines add up."""
    record = report_to_json(report)
    results = record.pop("results")
    head = json.dumps(record, indent=1, allow_nan=False).removesuffix("\n}")
    lines = ",\n".join(json.dumps(result, allow_nan=False) for result in results)
    return f'{head},\n "results": [\n{lines}\n]\n}}\n'


def _line(result: CaseResult) -> str:
    return json.dumps(result_to_json(result), allow_nan=False) + "\n"


def _replace(path: Path, text: str) -> None:
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)
