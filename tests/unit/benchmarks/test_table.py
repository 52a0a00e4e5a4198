"""The table of the benchmarks: rounds to medians, goals, what is grossly worse, and the page that shows it."""

import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.page import line, renewed, section
from benchmarks.rows import Goal, Row, interleaved, share
from benchmarks.table import ROUNDS, Table, grossly_worse, measure, measured

PAGE = Path(__file__).parents[3] / "docs" / "about" / "harness-speed.md"
TAKEN = [{"ours": 2.0, "peer": 4.0, "limit": 1.0}, {"ours": 9.0, "peer": 10.0, "limit": 1.0}]


class Rounds:
    """The rounds again and again; knows whether it was closed."""

    def __init__(self, taken):
        self.taken, self.asked, self.closed = taken, 0, False

    def __call__(self):
        try:
            while True:
                self.asked += 1
                yield dict(self.taken[self.asked % len(self.taken)])
        finally:
            self.closed = True


def row(name="group/row", goals=(), taken=TAKEN, limit="limit", **fields):
    return Row(name, "this and that", Rounds(taken), goals, limit, **fields)


def table(*rows):
    return list(measured(rows, pytest.fail, 0.0))[-1]


def test_ratios_are_those_of_one_round_and_the_row_is_closed():
    one = row()
    found = measure(one, 0.0)
    assert found.ours == "ours"
    assert (found.rounds, one.rounds.closed) == (ROUNDS, True)
    assert found.ratios["peer"].median == 0.9  # three of five rounds; the ratio of the medians would be the same
    assert found.ratios["peer"].low == 0.5
    assert found.takes["limit"].median == 1.0


def test_goals_are_met_or_missed_and_peers_may_be_absent():
    found = measure(row(goals=(Goal("peer", 1.0), share("limit", 0.45), Goal("absent", 1.0))), 0.0)
    assert found.missed() == [share("limit", 0.45)]
    words = "\n".join(line(found))
    assert "≤ 1× peer: met" in words
    assert "≥ 45% of limit: **missed**, 11%" in words
    assert "absent is not there" in words


def test_a_goal_of_many_times_is_told_as_one():
    found = measure(row(goals=(Goal("peer", 1 / 250),)), 0.0)
    assert "≥ 250 times as fast as peer: **missed**, 1.11" in "\n".join(line(found))


def test_only_three_times_worse_is_grossly_worse():
    goals = (Goal("peer", 1.0),)
    before = table(row(goals=goals))
    slower = [{**one, "ours": one["ours"] * 2.9} for one in TAKEN]
    assert grossly_worse(table(row(goals=goals, taken=slower)), before) == []
    broken = [{**one, "ours": one["ours"] * 3.2} for one in TAKEN]
    assert [words.split(":")[0] for words in grossly_worse(table(row(goals=goals, taken=broken)), before)] == [
        "group/row",
        "group/row",
    ]
    assert grossly_worse(table(row("group/new", goals, broken)), before) == []


def test_a_row_that_fails_is_told_and_the_others_go_on():
    def fails():
        raise OSError("no disk")
        yield {}

    told = []
    tables = list(measured([replace(row(), rounds=fails), row("other/row")], told.append, 0.0))
    assert told == ["group/row failed: OSError: no disk"]
    assert [one.name for one in tables[-1].rows] == ["other/row"]


def test_a_table_comes_back_from_its_file(tmp_path):
    written = table(row(goals=(Goal("peer", 1.0),)), row("memory/peak", unit="B", limit=""))
    written.write(tmp_path / "table.json")
    assert Table.read(tmp_path / "table.json") == written


def test_rows_of_a_file_with_a_former_name_have_the_present_one(tmp_path):
    table(row("second-look/default"), row("group/second-look")).write(tmp_path / "old.json")
    assert [one.name for one in Table.read(tmp_path / "old.json").rows] == [
        "elementwise-check/default",
        "group/second-look",
    ]


@pytest.mark.parametrize("word", ["second-look", "second-look/", "second-look/default", "elementwise-check/default"])
def test_a_former_name_selects_the_row(word):
    assert "elementwise-check/default" in [one.name for one in command.chosen([word], quick=False)]


def test_the_page_groups_rows_and_tells_why_goals_are_missed():
    text = section(
        table(row(goals=(share("limit", 0.45),)), row("memory/peak", unit="B")), {"group/row": "It waits.", "new": ""}
    )
    assert text.endswith("Not measured in this table: `new`.\n")
    assert "### Group\n" in text
    assert "### Memory\n" in text
    assert "- `group/row`: ≥ 45% of limit: **missed**, 11%. It waits.\n" in text


def test_some_rows_are_renewed_and_the_others_stay():
    whole, part = table(row("a"), row("b")), table(row("b", taken=TAKEN[:1]), row("c"))
    renewed = part.within(whole)
    assert [one.name for one in renewed.rows] == ["a", "b", "c"]
    assert renewed.rows[1] == part.rows[0]


def test_the_committed_page_is_that_of_the_committed_table():
    """After a change of the words: python -m benchmarks --read benchmarks/table.json --page FILE."""
    text = PAGE.read_text(encoding="utf-8")
    assert renewed(text, Table.read(command.COMMITTED), command.reasons()) == text


def test_what_stands_above_the_tables_stays():
    tables = section(table(row()), {})
    assert renewed(f"# A title\n\n{tables}more\n", table(row()), {}) == f"# A title\n\n{tables}"


def test_a_row_that_is_measured_again_changes_one_line(tmp_path):
    lines = []
    for taken in (TAKEN, TAKEN[:1]):
        table(row("a"), row("b", taken=taken)).write(tmp_path / "table.json")
        lines.append((tmp_path / "table.json").read_text(encoding="utf-8").splitlines())
    assert [one == other for one, other in zip(*lines, strict=True)] == [True, True, False, True]


def test_contestants_take_turns():
    called = []
    rounds = interleaved({"a": lambda: called.append("a"), "b": lambda: called.append("b")})
    first = next(rounds)
    assert list(first) == ["a", "b"]
    assert all(0 < seconds < math.inf for seconds in first.values())
    assert called[:2] == ["a", "b"]  # each once before it is measured


def main(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
    return command.main()


def test_the_command_measures_rows_by_the_beginning_of_their_names(monkeypatch, tmp_path, capsys):
    rows = [row("a/b", quick=True, goals=(Goal("peer", 1),)), row("a/bc"), row("d")]
    monkeypatch.setattr(command, "all_rows", lambda: iter(rows))
    assert main(monkeypatch, "a/b", "--json", str(tmp_path / "one.json")) == 0
    assert [one.name for one in Table.read(tmp_path / "one.json").rows] == ["a/b"]
    assert main(monkeypatch, "--read", str(tmp_path / "one.json"), "--page", str(tmp_path / "page.md")) == 0
    assert "`a/b`" in (tmp_path / "page.md").read_text(encoding="utf-8")
    with pytest.raises(SystemExit, match="No row begins with 'x'"):
        main(monkeypatch, "x")
    capsys.readouterr()
    monkeypatch.setattr(command, "COMMITTED", tmp_path / "one.json")
    assert main(monkeypatch, "--quick") == 0
    rows[0].rounds.taken = [{**one, "ours": 100.0} for one in TAKEN]
    assert main(monkeypatch, "--quick") == 1
    assert "Grossly worse: a/b" in capsys.readouterr().err
