"""`report A B C`: several runs on one page."""

import json

import pytest

from mluops_gtest.base.errors import ExitCode
from tests.e2e.conftest import wrong

SELECTED = ("masked_im2col_forward/edge_top_float", "masked_im2col_forward/handle_null")


@pytest.fixture(scope="module")
def runs(run_once):
    """One run on numpy, one on a backend that is wrong, one that lacks a case."""
    zeros = run_once(*SELECTED, "--backend", wrong("AllZero"), "--no-isolate", code=1)
    return run_once(*SELECTED), zeros, run_once(SELECTED[0], "--backend", "reference")


def test_runs_stand_side_by_side(cli, runs):
    page = cli("report", *runs).out
    assert "<h1>3 runs side by side</h1>" in page
    assert "2 cases in all, 1 with one outcome in every run that has them" in page
    # Of the operator: one column per run.
    assert page.count("<th>masked_im2col_forward</th>") == 1
    assert page.count("<details id=") == 1
    # The case that one run lacks is no difference: it is listed apart.
    lacking = page.partition('<div class="lacking">')[2]
    assert lacking.startswith('<details><summary>reference<span class="cell o-absent">1</span></summary>')
    assert f"<ul><li>{SELECTED[1]}</li></ul>" in lacking
    assert page.count("<script>") == 1
    assert cli("report", *runs).out == page


def test_the_cause_of_a_difference_is_told_with_its_cases(cli, runs):
    page = cli("report", *runs).out
    headline = "masked_im2col_forward: all of data_col is zero"
    cause = json.loads((runs[1] / "causes.json").read_text())["causes"][0]
    assert f'<th>{headline} <a href="#{cause["id"]}">' in page
    assert f"<dd><b>{headline}</b><pre>all of data_col is zero" in page
    assert "data_col[" in page
    assert f"mluops-test run {SELECTED[0]} --backend" in page
    assert cause["id"] in page.partition("<details id=")[2].partition(">")[0]


def test_runs_that_agree_say_so(cli, run):
    first, second = (run(*SELECTED).folder for _ in range(2))
    page = cli("report", first, second).out
    assert "The runs agree on every case." in page
    # Runs of one backend, commit and machine are told apart by their folders.
    assert f"numpy · {first}" in page
    page = cli("report", *(run(case).folder for case in SELECTED)).out
    assert "No case is in more than one of the runs." in page
    assert "The runs agree" not in page


def test_the_page_speaks_chinese(cli, runs):
    page = cli("report", *runs, "--lang", "zh").out
    assert "3 次运行并列比较" in page
    assert "not in this run" not in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--format", "junit"), "--format junit is for one run"),
        (("--against", "{0}"), "--against and --history are for one run"),
        (("{0}",), "the same folder is named twice"),
    ],
)
def test_what_is_for_one_run_is_refused(cli, runs, arguments, message):
    cli("report", *runs[:2], *(argument.format(runs[0]) for argument in arguments)).expect_error(
        ExitCode.USAGE, message
    )
