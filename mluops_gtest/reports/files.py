"""The files of a results folder, read back: run.json, results.jsonl, report.json."""

import json
from pathlib import Path
from typing import Any

from mluops_gtest.codec.results import report_from_json, result_from_json
from mluops_gtest.errors import ContentError, UsageError
from mluops_gtest.model.report import RunReport
from mluops_gtest.model.result import CaseResult, Outcome

RUN = "run.json"
RESULTS = "results.jsonl"
REPORT = "report.json"


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
