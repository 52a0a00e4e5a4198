"""DIR/results.jsonl line by line while the run goes on, DIR/report.json at its end."""

import dataclasses
import json
import os
import time
from pathlib import Path
from typing import IO, assert_never

from mluops_gtest.codec.results import report_to_json, result_to_json
from mluops_gtest.errors import UsageError
from mluops_gtest.model.event import CaseFinished, CaseStarted, Event, RunFinished, RunStarted
from mluops_gtest.model.report import RunReport

RESULTS = "results.jsonl"
REPORT = "report.json"


class ResultFiles:
    """Writes the results of one run into a folder; every finished case is on disk before the next starts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seconds = 0.0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # An older report must not survive beside the results of a run that is killed.
            (folder / REPORT).unlink(missing_ok=True)
            self._lines: IO[str] = (folder / RESULTS).open("w", encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--out {folder}: cannot write there: {error.strerror or error}.") from error

    def __call__(self, event: Event) -> None:
        """Listen to the run."""
        match event:
            case RunStarted() | CaseStarted():
                pass
            case CaseFinished(result):
                start = time.perf_counter()
                self._lines.write(json.dumps(result_to_json(result), allow_nan=False) + "\n")
                self._lines.flush()
                self.seconds += time.perf_counter() - start
            case RunFinished():
                self._lines.close()
            case _:
                assert_never(event)

    def write_report(self, report: RunReport) -> None:
        """The report, whole or not at all."""
        report = dataclasses.replace(report, timing={**report.timing, "write": self.seconds})
        aside = self.folder / f".{REPORT}.{os.getpid()}"
        aside.write_text(json.dumps(report_to_json(report), indent=1, allow_nan=False) + "\n", encoding="utf-8")
        aside.replace(self.folder / REPORT)
