"""The results of a run while it lasts: written as they come, read when they are asked for."""

import json
import os

import pytest

from mluops_gtest.base.errors import UnwritableError
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import CaseFinished, CasesRetracted
from mluops_gtest.results.folder import ResultsFolder
from mluops_gtest.results.writer import ResultFiles
from tests.support.reports import report, result

NAMES = ["op/c", "op/a", "op/b"]


@pytest.fixture
def files(tmp_path):
    with ResultsFolder(tmp_path / "out") as folder, ResultFiles(folder, {}, [result("c")]) as files:
        for case in NAMES[1:]:
            files(CaseFinished(result(case[-1], Outcome.FAILED if case == "op/b" else Outcome.PASSED)))
        yield files


def test_results_come_back_in_any_order(files):
    assert [one.case for one in files] == NAMES
    ordered = files.in_order(sorted(NAMES))
    assert (len(ordered), [one.case for one in ordered]) == (3, sorted(NAMES))
    assert (ordered[-1].case, [one.case for one in ordered[:2]]) == ("op/c", ["op/a", "op/b"])
    assert ordered[0] == result("a")
    assert ("op/a" in files, "op/x" in files) == (True, False)


def test_cases_that_are_retracted_leave_nothing(files, tmp_path):
    files(CasesRetracted(("op/b", "op/c")))
    assert [one.case for one in files] == ["op/a"]
    assert (files.tally.summary, files.tally.failing) == ({"passed": 1}, 0)
    again = result("b")
    files(CaseFinished(again))
    assert list(files.in_order(["op/b", "op/a"])) == [again, result("a")]
    lines = (tmp_path / "out" / "results.jsonl").read_text().splitlines()
    assert [json.loads(line)["case"] for line in lines] == ["op/a", "op/b"]


def test_what_all_come_to_is_known_without_reading(files, tmp_path):
    whole = report(*files.in_order(NAMES))
    os.truncate(tmp_path / "out" / "results.jsonl", 0)
    tally = files.in_order(NAMES).tally
    assert (tally.summary, tally.failing, tally.exit_code) == (whole.summary, 1, whole.exit_code)


def test_the_report_is_made_of_the_lines(files, tmp_path):
    whole = report(*files.in_order(sorted(NAMES)))
    files.write_report(whole, sorted(NAMES))
    folder = tmp_path / "out"
    lines = (folder / "results.jsonl").read_bytes().splitlines()
    assert json.loads((folder / "report.json").read_bytes())["results"] == [
        json.loads(lines[NAMES.index(case)]) for case in sorted(NAMES)
    ]


def test_a_file_that_somebody_shortened_is_no_report(files, tmp_path):
    whole = report(*files.in_order(NAMES))
    os.truncate(tmp_path / "out" / "results.jsonl", 100)
    with pytest.raises(UnwritableError, match=r"results\.jsonl: another program has shortened the file; run again\.$"):
        files.write_report(whole, NAMES)
    assert not (tmp_path / "out" / "report.json").exists()
