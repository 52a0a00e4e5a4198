"""The progress line: failures so far, the time left by what cases cost, and only what fits."""

import io

import pytest
from rich.console import Console

from mluops_gtest.cli.terminal import Line, RemainingTime, RunProgress, clock_words, fit_line
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import CaseFinished, CaseStarted, RunFinished, RunStarted
from mluops_gtest.running.plan import CASE_NS
from tests.support.reports import report, result


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


class TestTimeLeft:
    def test_costs_count_and_not_the_number_of_cases(self, clock):
        left = RemainingTime({"small": 10, "large": 90}, clock)
        clock.now += 2
        left.finished("small")
        assert left.seconds == pytest.approx(18)

    def test_nothing_is_known_before_the_first_case(self, clock):
        left = RemainingTime({"a": 10}, clock)
        clock.now += 5
        assert left.seconds is None
        assert left.elapsed == 5

    def test_it_counts_down_while_a_case_runs_and_never_below_zero(self, clock):
        left = RemainingTime({"a": 1, "b": 4}, clock)
        clock.now += 2
        left.finished("a")
        assert left.seconds == pytest.approx(8)
        clock.now += 3
        assert left.seconds == pytest.approx(5)
        clock.now += 30
        assert left.seconds == 0

    def test_a_slow_case_makes_the_rest_slower(self, clock):
        left = RemainingTime({"a": 1, "b": 1, "c": 2}, clock)
        clock.now += 1
        left.finished("a")
        assert left.seconds == pytest.approx(3)
        clock.now += 9
        left.finished("b")
        assert left.seconds == pytest.approx(10)
        clock.now += 1
        left.finished("c")
        assert left.seconds == 0

    def test_without_costs_every_case_counts_the_same(self, clock):
        left = RemainingTime({}, clock)
        clock.now += 1
        left.finished("a")
        assert left.seconds == 0
        assert RemainingTime({"a": CASE_NS}, clock).seconds is None


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0:00"), (59.9, "0:59"), (75, "1:15"), (3599, "59:59"), (3675, "1:01:15")]
)
def test_clock_words(seconds, words):
    assert clock_words(seconds) == words


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (80, Line("operator/case", 30, ("12/340", "3 failed", "0:12", "1:48 left"))),
        (60, Line("operator/case", 10, ("12/340", "3 failed", "0:12", "1:48 left"))),
        (59, Line("operator/case", 0, ("12/340", "3 failed", "0:12", "1:48 left"))),
        (40, Line("", 0, ("12/340", "3 failed", "0:12", "1:48 left"))),
        (30, Line("", 0, ("12/340", "3 failed", "1:48 left"))),
        (20, Line("", 0, ("12/340", "3 failed"))),
        (10, Line("", 0, ("3 failed",))),
        (3, Line("", 0, ())),
    ],
)
def test_what_fits(width, line):
    assert fit_line("operator/case", "12/340", "3 failed", "0:12", "1:48 left", width) == line


def test_a_long_remark_is_cut():
    line = fit_line("x" * 100, "1/2", "0 failed", "0:01", "", 50)
    assert (len(line.note), line.note[-1], line.bar) == (29, "…", 0)


def console(width=100, *, terminal=True):
    return Console(file=io.StringIO(), width=width, force_terminal=terminal, color_system=None)


def drawn(progress, width=100):
    page = console(width)
    page.print(progress.line())
    return page.file.getvalue().rstrip()


def test_the_line_follows_the_run(clock):
    progress = RunProgress(console(), {"op/a": 10, "op/b": 30}, clock=clock)
    progress(RunStarted("mine", 2))
    assert drawn(progress).startswith("mine  ")
    assert drawn(progress).endswith("  0/2  0 failed  0:00")
    progress(CaseStarted("op/a"))
    assert drawn(progress).startswith("op/a  ")
    progress.note("making\x1b op/a")
    assert drawn(progress).startswith("making\\x1b op/a  ")
    clock.now += 2
    progress(CaseFinished(result("a", Outcome.CRASHED)))
    clock.now += 1
    assert drawn(progress).endswith("  1/2  1 failed  0:03  0:05 left")
    progress(CaseFinished(result("b")))
    assert drawn(progress).endswith("━  2/2  1 failed  0:03  0:00 left")
    progress(RunFinished(report()))


def test_it_is_as_wide_as_the_terminal_is_now(clock):
    page = console(60)
    progress = RunProgress(page, {}, clock=clock, shown=False)
    progress(RunStarted("mine", 5))
    for width in (60, 40, 24, 12, 5):
        page.width = width
        assert len(drawn(progress)) < width


@pytest.mark.parametrize(("terminal", "wanted"), [(False, True), (True, False)])
def test_nothing_is_written_into_a_pipe_or_where_it_is_not_wanted(clock, terminal, wanted):
    page = console(terminal=terminal)
    progress = RunProgress(page, {}, clock=clock, shown=wanted)
    for event in (RunStarted("mine", 1), CaseStarted("op/a"), CaseFinished(result("a")), RunFinished(report())):
        progress(event)
    progress.close()
    assert page.file.getvalue() == ""


def test_the_line_is_gone_at_the_end(clock):
    page = console()
    progress = RunProgress(page, {}, clock=clock)
    progress(RunStarted("mine", 1))
    progress(RunFinished(report()))
    assert "0 failed" in page.file.getvalue()
    # Erased, and the cursor shown again.
    assert page.file.getvalue().rstrip("\n").endswith(("\x1b[2K", "\x1b[?25h"))
