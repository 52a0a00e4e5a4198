"""The history file: whole runs, once each, from many processes; how cases went; and files that are none."""

import contextlib
import json
import math
import multiprocessing
import sqlite3
import threading
from pathlib import Path

import pytest

from mluops_gtest.base.errors import ContentError, UnwritableError
from mluops_gtest.core.outcome import FLOOR, Outcome
from mluops_gtest.core.result import Perf, Reading
from mluops_gtest.results.history import CaseTrend, History, Measured, Point, Run, sparkline
from tests.support.reports import golden_report, report, result

DAYS = [f"2026-01-0{day}T00:00:00+00:00" for day in range(1, 10)]


def execute(path, *statements):
    """What the last statement finds in the database."""
    with contextlib.closing(sqlite3.connect(path)) as base:
        found = [base.execute(statement).fetchall() for statement in statements]
        base.commit()
    return found[-1]


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
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        with History(path) as history:
            assert len(history.trends(history.runs())) == 1


def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database at all\n" * 100)
    with pytest.raises(ContentError, match=r"notes\.txt: not a history"):
        History(path, create=True)
    assert path.read_text().startswith("not a database")


def test_a_database_of_something_else_is_refused_and_kept(tmp_path):
    path = tmp_path / "other.sqlite"
    execute(path, "CREATE TABLE people (name TEXT)")
    with pytest.raises(ContentError, match="something else"):
        History(path, create=True)
    assert execute(path, "SELECT name FROM sqlite_master") == [("people",)]


def test_a_newer_history_is_refused(tmp_path):
    path = tmp_path / "history.sqlite"
    History(path, create=True).__exit__()
    execute(path, "PRAGMA user_version = 99")
    with pytest.raises(ContentError, match="version 99"):
        History(path)


@pytest.mark.parametrize(("version", "later"), [(1, ("labels", "causes")), (2, ("causes",))])
def test_a_history_of_an_earlier_version_stays_readable(tmp_path, version, later):
    path = tmp_path / "history.sqlite"
    with History(path, create=True) as history:
        history.add(report(result()))
    execute(path, *(f"DROP TABLE {table}" for table in later), f"PRAGMA user_version = {version}")
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


RUN = Run(1, "2026-01-01", "numpy", "machine", "1.0", 1.0, {})
P, F, FLAKY, SKIPPED = Outcome.PASSED, Outcome.FAILED, Outcome.FLAKY, Outcome.SKIPPED


def trend(outcomes=(), values=(), dtype="float", criterion="diff1"):
    if not values:
        return CaseTrend("op/a", "op", tuple(Point(RUN, outcome, 0.1) for outcome in outcomes))
    points = (Point(RUN, P, 0.1, (Measured("y", criterion, dtype, value, 3e-3),)) for value in values)
    return CaseTrend("op/a", "op", tuple(points))


@pytest.mark.parametrize(
    ("outcomes", "passed", "flaky", "flips"),
    [
        ((P, P, P, P), 1.0, 0.0, 0),
        ((P, FLAKY, P, P), 0.75, 0.25, 2),
        ((P, F, F, P), 0.5, 0.0, 2),
        ((P, SKIPPED, P), 1.0, 0.0, 0),
        ((SKIPPED, Outcome.NOT_RUN), None, None, 0),
        ((P, Outcome.XFAILED), 0.5, 0.0, 0),
    ],
)
def test_rates_count_the_runs_that_asked_the_backend(outcomes, passed, flaky, flips):
    case = trend(outcomes)
    assert (case.pass_rate, case.flake_rate, case.flips) == (passed, flaky, flips)


@pytest.mark.parametrize(
    ("values", "factor"),
    [
        ((1e-6, 1e-6, 8e-6), 8.0),
        ((1e-6, 9e-6, 1e-6, 1e-6), 1.0),
        ((0.0, 0.0), 1.0),
        ((0.0, FLOOR), 1.0),
        ((0.0, 4 * FLOOR), 4.0),
        ((1e-5,), 1.0),
        ((1e-5, math.nan), math.inf),
        ((math.nan, math.nan), 1.0),
        ((math.nan, 1e-5, 1e-5), 1.0),
        ((math.inf, math.inf), 1.0),
        ((1e-5, math.inf), math.inf),
        ((8e-6, 1e-6), 1 / 8),
    ],
)
def test_drift_is_growth_over_the_usual_reading(values, factor):
    (drift,) = trend(values=values).drifts
    assert drift.factor == pytest.approx(factor)


def test_a_half_has_a_higher_floor_and_a_share_of_one_sided_errors_does_not_drift():
    assert trend(values=(1e-6, 1e-3), dtype="half").drifts[0].factor == 1.0
    assert trend(values=(1e-6, 1e-3), dtype="float").drifts[0].factor == pytest.approx(1000)
    assert trend(values=(0.1, 0.9), criterion="diff4").drifts == ()


def test_the_story_tells_how_much_of_the_threshold_was_used():
    exact = Measured("m", "diff3", "int32", 0.0, 0.0)
    points = (
        Point(RUN, P, 0.1, (Measured("y", "diff1", "float", 6e-4, 3e-3), exact)),
        Point(RUN, F, 0.1, (Measured("m", "diff3", "int32", 1.0, 0.0),)),
        Point(RUN, Outcome.CRASHED, 0.1),
    )
    story = CaseTrend("op/a", "op", points).story
    assert [(outcome, used) for _, outcome, used, *_ in story] == [
        ("passed", pytest.approx(0.2)),
        ("failed", math.inf),
        ("crashed", None),
    ]


def test_json_has_no_numbers_that_json_lacks():
    assert json.dumps(trend(values=(1e-5, math.nan)).to_json(), allow_nan=False)


@pytest.mark.parametrize(
    ("values", "log", "bars"),
    [
        ((), False, ""),
        ((1.0, 1.0), False, "▁▁"),
        ((0.0, 0.5, 1.0), False, "▁▅█"),
        ((1.0, math.nan, 2.0), False, "▁·█"),
        ((1.0, math.inf), False, "▁█"),
        ((math.nan,), False, "·"),
        ((2**-20, 2**-16, 2**-12), True, "▁▅█"),
        ((0.0, 1e-30, 1.0), True, "▁▁█"),
    ],
)
def test_sparklines(values, log, bars):
    assert sparkline(values, log=log) == bars
