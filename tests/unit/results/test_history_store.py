"""The history file: whole runs, once each, from many processes, and files that are none."""

import math
import multiprocessing
import sqlite3
import threading
from pathlib import Path

import pytest

from mluops_gtest.base.errors import ContentError, UnwritableError, UsageError
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import Perf, Reading
from mluops_gtest.results.history import History, history_path
from tests.support.reports import golden_report, report, result

DAYS = [f"2026-01-0{day}T00:00:00+00:00" for day in range(1, 10)]


@pytest.fixture
def history(tmp_path):
    with History(tmp_path / "history.sqlite", create=True) as opened:
        yield opened


def test_a_run_is_added_once(history):
    assert history.add(golden_report()) is True
    assert history.add(golden_report()) is False
    (run,) = history.runs()
    assert run.counts == golden_report().summary
    assert len(history.trends(history.runs())) == len(golden_report().results)


def test_runs_stand_in_the_order_they_started_however_they_were_added(history):
    for day in (DAYS[2], DAYS[0], DAYS[1]):
        history.add(report(result(), started=day))
    assert [run.started for run in history.runs()] == DAYS[:3]
    assert [run.started for run in history.runs(last=2)] == DAYS[1:3]
    (trend,) = history.trends(history.runs())
    assert [point.run.started for point in trend.points] == DAYS[:3]


def test_backends_have_trends_of_their_own(history):
    history.add(report(result(), started=DAYS[0], backend="numpy"))
    history.add(report(result(outcome=Outcome.FAILED), started=DAYS[1], backend="mlu"))
    assert [len(trend.points) for trend in history.trends(history.runs())] == [1, 1]
    (trend,) = history.trends(history.runs(backend="mlu"))
    assert trend.points[0].outcome is Outcome.FAILED


def test_one_case_or_one_operator(history):
    history.add(report(result("a"), result("b"), result("c", operator="other")))
    runs = history.runs()
    assert [trend.case for trend in history.trends(runs, operator="op")] == ["op/a", "op/b"]
    assert [trend.case for trend in history.trends(runs, case="other/c")] == ["other/c"]
    assert history.trends(runs, case="none/such") == ()
    assert (history.names("name"), history.names("operator")) == (("op/a", "op/b", "other/c"), ("op", "other"))


def test_readings_come_back_also_those_that_are_no_number(history):
    values = (1e-6, math.inf, math.nan)
    readings = tuple(Reading("y", f"diff{n}", value, 3e-3, False) for n, value in enumerate(values, 1))
    history.add(report(result(outcome=Outcome.FAILED, readings=readings)))
    (trend,) = history.trends(history.runs())
    found = {m.criterion: m.value for m in trend.points[0].measured}
    assert repr([found["diff1"], found["diff2"], found["diff3"]]) == repr(list(values))
    assert {(m.output, m.dtype, m.threshold) for m in trend.points[0].measured} == {("y", "float", 3e-3)}


def test_the_time_is_the_median_of_samples_where_there_are_some(history):
    history.add(report(result("a"), result("b", perf=Perf((3_000_000, 1_000_000, 2_000_000)))))
    assert [trend.seconds for trend in history.trends(history.runs())] == [(0.5,), (0.002,)]


def test_a_case_that_stands_twice_is_refused_and_nothing_is_added(history):
    with pytest.raises(ContentError, match="has a case twice"):
        history.add(report(result("a"), result("a")))
    assert history.runs() == ()


def add_runs(path: Path, days: list[str], start) -> None:
    start.wait()
    for day in days:
        with History(path, create=True) as history:
            history.add(report(*(result(str(n)) for n in range(20)), started=day))


@pytest.mark.slow
def test_many_processes_may_start_and_fill_one_file(tmp_path):
    path = tmp_path / "new" / "history.sqlite"
    context = multiprocessing.get_context("spawn")
    # All add all: each run must be there once.
    start = context.Barrier(4)
    processes = [context.Process(target=add_runs, args=(path, DAYS, start)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 4
    with History(path) as history:
        assert [run.started for run in history.runs()] == DAYS
        assert {len(trend.points) for trend in history.trends(history.runs())} == {len(DAYS)}


def test_reading_goes_on_while_somebody_writes(tmp_path):
    path = tmp_path / "history.sqlite"
    with History(path, create=True) as history:
        history.add(report(result()))
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    try:
        with History(path) as history:
            assert len(history.trends(history.runs())) == 1
    finally:
        writer.execute("ROLLBACK")
        writer.close()


def test_a_file_that_is_not_there_says_how_to_start_one(tmp_path):
    with pytest.raises(UsageError, match="history add RESULTS"):
        History(tmp_path / "none.sqlite")


def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database at all\n" * 100)
    with pytest.raises(ContentError, match=r"notes\.txt: not a history"):
        History(path, create=True)
    assert path.read_text().startswith("not a database")


def test_a_database_of_something_else_is_refused_and_kept(tmp_path):
    path = tmp_path / "other.sqlite"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE people (name TEXT)")
    other.commit()
    other.close()
    with pytest.raises(ContentError, match="something else"):
        History(path, create=True)
    again = sqlite3.connect(path)
    assert again.execute("SELECT name FROM sqlite_master").fetchall() == [("people",)]
    again.close()


def test_a_newer_history_is_refused(tmp_path):
    path = tmp_path / "history.sqlite"
    History(path, create=True).__exit__()
    base = sqlite3.connect(path)
    base.execute("PRAGMA user_version = 99")
    base.close()
    with pytest.raises(ContentError, match="version 99"):
        History(path)


@pytest.mark.parametrize(("version", "later"), [(1, ("labels", "causes")), (2, ("causes",))])
def test_a_history_of_an_earlier_version_stays_readable(tmp_path, version, later):
    path = tmp_path / "history.sqlite"
    with History(path, create=True) as history:
        history.add(report(result()))
    base = sqlite3.connect(path)
    for table in later:
        base.execute(f"DROP TABLE {table}")
    base.execute(f"PRAGMA user_version = {version}")
    base.close()
    with History(path) as history:
        assert history.add(report(result())) is False
        assert history.add(report(result(), started=DAYS[1], labels={"device": "x"})) is True
        assert [run.labels for run in history.runs()] == [{}, {"device": "x"}]
        assert history.causes(history.runs()) == ()


def test_causes_are_followed_by_their_marks(history):
    told = [
        [("v2:a", "a fails, when m ≥ 3", 7)],
        [("v2:a", "a fails, when m ≥ 2", 9), ("v2:b", "b fails", 1)],
        [("v2:b", "b fails", 2)],
    ]
    for day, causes in zip(DAYS, told, strict=False):
        history.add(report(result(), started=day), causes)
    found = history.causes(history.runs())
    assert [(cause.headline, cause.counts) for cause in found] == [
        ("b fails", (0, 1, 2)),
        ("a fails, when m ≥ 2", (7, 9, 0)),
    ]
    assert [(cause.first, cause.last) for cause in found] == [(1, 2), (0, 1)]
    assert [cause.counts for cause in history.causes(history.runs(last=1))] == [(2,)]


def test_runs_by_label(history):
    for day, labels in zip(DAYS, ({}, {"a": "1", "b": "2"}, {"a": "1"}, {"a": "2"}), strict=False):
        history.add(report(result(), started=day, labels=labels))
    assert [run.started for run in history.runs(labels={"a": "1"})] == DAYS[1:3]
    assert [run.started for run in history.runs(labels={"a": "1", "b": "2"})] == DAYS[1:2]
    assert [run.started for run in history.runs(labels={"a": "1"}, last=1)] == DAYS[2:3]


def test_a_place_that_cannot_be_written_has_its_own_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UnwritableError, match="cannot be written"):
        History(tmp_path / "file" / "history.sqlite", create=True)


def test_which_file_is_meant(monkeypatch):
    monkeypatch.delenv("MLUOPS_TEST_HISTORY", raising=False)
    assert history_path(None) == Path(".mluops-test/history.sqlite")
    monkeypatch.setenv("MLUOPS_TEST_HISTORY", "/ci/h.sqlite")
    assert history_path(None) == Path("/ci/h.sqlite")
    assert history_path(Path("mine")) == Path("mine")


def test_a_new_file_that_another_process_is_just_preparing_is_waited_for(tmp_path):
    path = tmp_path / "history.sqlite"
    other = sqlite3.connect(path, isolation_level=None)
    # SQLite refuses the change to WAL at once under this lock, whatever the busy timeout is.
    other.execute("BEGIN IMMEDIATE")
    opened: list[bool] = []

    def add():
        with History(path, create=True) as history:
            opened.append(history.add(report(result())))

    thread = threading.Thread(target=add)
    thread.start()
    thread.join(0.2)
    assert opened == []
    other.execute("ROLLBACK")
    other.close()
    thread.join(60)
    assert opened == [True]
