"""The files of a run while it lasts, and its causes: at most 64 KiB, with nothing that steers a terminal."""

import json
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mluops_gtest.base.errors import UnwritableError
from mluops_gtest.core.cause import LegacyReason
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import CaseFinished, CasesRetracted
from mluops_gtest.core.result import CaseResult
from mluops_gtest.results.folder import ResultsFolder
from mluops_gtest.results.writer import ResultFiles, write_causes
from tests.support.reports import report, result
from tests.unit.judging.test_groups import failure

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


FIELDS = {
    "id", "operator", "outcome", "headline", "output", "place", "law", "condition", "samples", "cases", "smallest",
    "repro", "waivable",
}  # fmt: skip


def crash(name, fingerprint, words="died", operator="op"):
    return CaseResult(
        f"{operator}/{name}",
        operator,
        (),
        Outcome.CRASHED,
        fingerprint=fingerprint,
        causes=(LegacyReason(words),),
        repro=words,
    )


def written(folder, *results):
    write_causes(folder, report(*results))
    data = (folder / "causes.json").read_bytes()
    assert len(data) <= 64 * 1024
    return json.loads(data)


def test_the_file_has_its_fields(tmp_path):
    right = np.arange(1.0, 9)
    document = written(tmp_path, failure("a", np.where(np.arange(8) < 6, right, 0), right), crash("b", "v1:b"))
    assert document.keys() == {"format", "causes", "more_causes", "more_cases"}
    assert all(cause.keys() == FIELDS for cause in document["causes"])
    values = next(cause for cause in document["causes"] if cause["outcome"] == "failed")
    assert [sample.keys() for sample in values["samples"]] == [{"index", "got", "expected"}] * 2
    assert values["samples"][0] == {"index": [6], "got": "0.0", "expected": "7.0"}


def test_the_samples_are_those_of_a_case_in_which_the_headline_holds(tmp_path):
    """The smallest case may be one of the few that do not show it."""
    odd = failure("0", np.array([1.0, 2, 7, 1]), np.array([1.0, 2, 3, 4]))
    tails = []
    for n in range(6, 20):
        right = np.arange(1.0, n + 1)
        tails.append(failure(str(n), np.where(np.arange(n) < n - 2, right, 0), right))
    for cause in written(tmp_path, odd, *tails)["causes"]:
        if cause["law"] == "zero":
            assert {sample["got"] for sample in cause["samples"]} == {"0.0"}


def test_no_operator_is_blamed_for_others(tmp_path):
    (cause,) = written(tmp_path, crash("a", "v1:a", "boom"), crash("a", "v1:a", "boom", operator="other"))["causes"]
    assert (cause["operator"], cause["headline"]) == ("", "several operators: crashed: boom")


def test_at_most_a_hundred_causes_and_twenty_ids_the_rest_is_counted(tmp_path):
    document = written(tmp_path, *(crash(f"{i}-{j}", f"v1:{i}") for i in range(120) for j in range(1 + (i < 3) * 30)))
    assert len(document["causes"]) == 100
    assert (document["more_causes"], document["more_cases"]) == (20, 20)
    assert [len(cause["smallest"]) for cause in document["causes"][:4]] == [20, 20, 20, 1]
    assert [cause["cases"] for cause in document["causes"][:4]] == [31, 31, 31, 1]


def test_long_names_leave_out_whole_causes_from_the_end(tmp_path):
    document = written(tmp_path, *(crash(f"{'n' * 300}-{i}-{j}", f"v1:{i}") for i in range(100) for j in range(25)))
    assert 5 < len(document["causes"]) < 100
    assert document["more_causes"] == 100 - len(document["causes"])
    assert document["more_cases"] == 25 * document["more_causes"]
    assert all(len(cause["smallest"]) == 20 for cause in document["causes"])


@given(
    st.lists(st.tuples(st.text(), st.sampled_from(["\x1b[1m", "\ud800", "漢", "\U0001f600", '"\\', "\n"])), max_size=4)
)
def test_no_text_is_too_long(tmp_path_factory, texts):
    results = [crash(f"{i}{odd * 1_000}{text}", f"v1:{odd * 500}", odd * 2_000) for i, (text, odd) in enumerate(texts)]
    document = written(tmp_path_factory.mktemp("causes"), *results)
    assert document["more_causes"] == 0
    assert sum(cause["cases"] for cause in document["causes"]) == len(results)
    for cause in document["causes"]:
        assert "\x1b" not in cause["headline"]
        assert "\n" not in cause["headline"]
