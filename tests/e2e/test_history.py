"""`mluops-test history`: runs remembered and shown."""

import pytest

from mluops_gtest.core.outcome import Outcome
from tests.support.reports import GOLDEN, report, result, written


@pytest.fixture
def three(cli, tmp_path):
    """Three runs in the default file: one case is steady, one drifts and flakes."""
    for day, value in enumerate((1e-6, 1e-6, 9e-6), 1):
        outcome = Outcome.FLAKY if day == 2 else Outcome.PASSED
        results = (result("steady", seconds=day), result("odd", outcome, value=value), result("b", operator="other"))
        run = report(*results, started=f"2026-01-0{day}T00:00:00+00:00")
        cli("history", "add", written(tmp_path / f"run-{day}", run)).expect_output(0, "3 results added")
    return cli


def test_adding_again_adds_nothing(three, tmp_path):
    assert (tmp_path / "cwd" / ".mluops-test" / "history.sqlite").is_file()
    again = three("history", "add", tmp_path / "run-1", tmp_path / "run-2")
    assert (again.code, again.out.count("already there")) == (0, 2)
    assert len(three("history", "show").lines) == 4


def test_show_lists_the_runs(three):
    shown = three("history", "show").expect_code(0)
    assert [line.split()[0] for line in shown.lines[1:]] == [f"2026-01-0{day}T00:00:00+00:00" for day in (1, 2, 3)]
    assert "1 flaky" in shown.lines[2]


def test_show_tells_of_one_case(three):
    three("history", "show", "op/odd").expect_output(0, "passed 67 %, flaky 33 %, 2 flips", "y diff1  ▁▁█  ×9")


def test_trend_draws_every_case_of_an_operator(three):
    shown = three("history", "trend", "--op", "op")
    lines = {line.split()[0]: line for line in shown.lines[1:]}
    assert lines.keys() == {"op/steady", "op/odd"}
    assert lines["op/odd"].split()[1:] == ["numpy", "67", "%", "33", "%", "2", "×9", "✓~✓", "▁▁█", "▁▁▁"]
    assert lines["op/steady"].split()[1:] == ["numpy", "100", "%", "0", "%", "0", "×1", "✓✓✓", "▁▁▁", "▁▅█"]


def test_only_the_newest_runs_or_one_backend(three):
    assert len(three("history", "show", "--last", 2).lines) == 3
    assert len(three("history", "show", "--backend", "mlu").lines) == 1
    assert three("history", "trend", "--op", "op", "--last", 1).lines[1].split()[-3:] == ["✓", "▁", "▁"]


def test_the_variable_and_the_option_name_another_file(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("MLUOPS_TEST_HISTORY", str(tmp_path / "env" / "h.sqlite"))
    assert cli("history", "add", GOLDEN / "report.json").code == 0
    assert (tmp_path / "env" / "h.sqlite").is_file()
    assert cli("history", "add", GOLDEN / "report.json", "--db", tmp_path / "mine.sqlite").code == 0
    assert (tmp_path / "mine.sqlite").is_file()
    assert len(cli("history", "show", "--db", tmp_path / "mine.sqlite").lines) == 2


def test_trend_shows_what_flips_first(cli, tmp_path):
    story = {"aa": "PPPP", "bb": "PPFF", "cc": "PFPF", "dd": "FFFF", "ee": "PFPF"}
    for day in range(4):
        results = [
            result(name, Outcome.PASSED if marks[day] == "P" else Outcome.FAILED) for name, marks in story.items()
        ]
        one = report(*results, started=f"2026-01-0{day + 1}T00:00:00+00:00")
        assert cli("history", "add", written(tmp_path / f"day-{day}", one)).code == 0
    shown = cli("history", "trend", "--op", "op")
    assert [line.split()[0] for line in shown.lines[1:]] == ["op/cc", "op/ee", "op/bb", "op/aa", "op/dd"]


class TestErrors:
    def test_nothing_added_yet(self, cli):
        cli("history", "show").expect_error(2, "history add RESULTS")

    def test_names_that_are_not_there(self, three):
        for words, told in (
            (("show", "op/stead"), "Did you mean 'op/steady'?"),
            (("show", "op/odd", "--backend", "mlu"), "leave out --backend"),
            (("trend", "--op", "opp"), "Did you mean 'op'? Known: op, other."),
        ):
            three("history", *words).expect_error(2, told)

    def test_results_that_are_none_add_nothing(self, three, tmp_path):
        (tmp_path / "bad.json").write_text("{}")
        good = written(tmp_path / "run-4", report(result(), seconds=9.0))
        assert three("history", "add", good, tmp_path / "bad.json").code == 3
        assert len(three("history", "show").lines) == 4
