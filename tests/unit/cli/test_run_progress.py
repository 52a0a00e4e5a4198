"""The progress line: failures so far, the time left, and only what fits; tables as rich has them; words of the tool."""

import contextlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table

from mluops_gtest.base.native import arrays as comparing
from mluops_gtest.cli.commands.doctor import disagreements
from mluops_gtest.cli.main import run_main
from mluops_gtest.cli.terminal import Line, RemainingTime, RunProgress, clock_words, fit_line, stdout, whole_table
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import CaseFinished, CaseStarted, RunFinished, RunStarted
from mluops_gtest.results.reports.terminal import escape
from mluops_gtest.running.plan import CASE_NS
from mluops_gtest.version import __version__
from tests.support.native_core import NATIVE, going
from tests.support.reports import report, result


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


class TestTimeLeft:
    @pytest.mark.parametrize(
        ("costs", "steps"),
        [
            # Seconds that pass, the case that then ends, and the seconds left.
            pytest.param({"small": 10, "large": 90}, [(2, "small", 18)], id="costs count, not the number of cases"),
            pytest.param({"a": 1, "b": 4}, [(2, "a", 8), (3, None, 5), (30, None, 0)], id="it counts down to 0"),
            pytest.param({"a": 1, "b": 1, "c": 2}, [(1, "a", 3), (9, "b", 10), (1, "c", 0)], id="a slow case counts"),
            pytest.param({}, [(1, "a", 0)], id="without costs"),
            pytest.param({"a": CASE_NS}, [(1, "of no known cost", 0)], id="a case like the others"),
        ],
    )
    def test_it_follows_from_what_cases_cost_and_took(self, clock, costs, steps):
        left = RemainingTime(costs, clock)
        for seconds, case, expected in steps:
            clock.now += seconds
            if case is not None:
                left.finished(case)
            assert left.seconds == pytest.approx(expected)

    def test_nothing_is_known_before_the_first_case(self, clock):
        left = RemainingTime({"a": 10}, clock)
        clock.now += 5
        assert (left.seconds, left.elapsed) == (None, 5)


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


def render(progress, width=100):
    page = console(width)
    page.print(progress.line())
    return page.file.getvalue().rstrip()


def test_the_line_follows_the_run(clock):
    progress = RunProgress(console(), {"op/a": 10, "op/b": 30}, clock=clock)
    progress(RunStarted("mine", 2))
    assert render(progress).startswith("mine  ")
    assert render(progress).endswith("  0/2  0 failed  0:00")
    progress(CaseStarted("op/a"))
    assert render(progress).startswith("op/a  ")
    progress.note("making\x1b op/a")
    assert render(progress).startswith("making\\x1b op/a  ")
    clock.now += 2
    progress(CaseFinished(result("a", Outcome.CRASHED)))
    clock.now += 1
    assert render(progress).endswith("  1/2  1 failed  0:03  0:05 left")
    progress(CaseFinished(result("b")))
    assert render(progress).endswith("━  2/2  1 failed  0:03  0:00 left")
    progress(RunFinished(report()))


def test_it_is_as_wide_as_the_terminal_is_now(clock):
    page = console(60)
    progress = RunProgress(page, {}, clock=clock, shown=False)
    progress(RunStarted("mine", 5))
    for width in (60, 40, 24, 12, 5):
        page.width = width
        assert len(render(progress)) < width


@pytest.mark.parametrize(("terminal", "wanted"), [(False, True), (True, False)])
def test_nothing_of_a_short_run_goes_into_a_pipe_and_nothing_where_it_is_not_wanted(clock, terminal, wanted):
    page = console(terminal=terminal)
    progress = RunProgress(page, {}, clock=clock, shown=wanted)
    for event in (RunStarted("mine", 1), CaseStarted("op/a"), CaseFinished(result("a")), RunFinished(report())):
        progress(event)
    progress.close()
    assert page.file.getvalue() == ""


@pytest.mark.parametrize(("shown", "lines"), [(True, ["2 of 4, 1 failed", "3 of 4, 1 failed"]), (False, [])])
def test_a_pipe_gets_a_line_every_half_minute(clock, shown, lines):
    page = console(terminal=False)
    clock.now += 100
    progress = RunProgress(page, {}, clock=clock, shown=shown)
    clock.now += 100
    progress(RunStarted("mine", 4))
    outcomes = {"a": Outcome.CRASHED, "b": Outcome.PASSED, "c": Outcome.PASSED, "d": Outcome.PASSED}
    for (case, outcome), seconds in zip(outcomes.items(), (29, 1, 30, 29), strict=True):
        clock.now += seconds
        progress(CaseFinished(result(case, outcome)))
    progress(RunFinished(report()))
    assert page.file.getvalue().splitlines() == lines


def test_the_line_is_gone_at_the_end(clock):
    page = console()
    progress = RunProgress(page, {}, clock=clock)
    progress(RunStarted("mine", 1))
    progress(RunFinished(report()))
    assert "0 failed" in page.file.getvalue()
    # Erased, and the cursor shown again.
    assert page.file.getvalue().rstrip("\n").endswith(("\x1b[2K", "\x1b[?25h"))


CELLS = st.one_of(
    st.text("ab [](){}/\\x1b中é△", max_size=9).map(escape),
    st.sampled_from(["", "[green]passed[/]", "[bold red]×4[/]", "-1.5"]),
)


def printed(table, how):
    with contextlib.redirect_stdout(io.StringIO()) as text:
        how(stdout(), table)
    return text.getvalue()


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=5))
def test_a_table_looks_as_rich_lays_it_out(rows):
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("case", overflow="fold")
    table.add_column("中文", justify="right", no_wrap=True)
    table.add_column("")
    for row in rows:
        table.add_row(*row)
    assert printed(table, whole_table) == printed(table, Console.print)


@pytest.mark.parametrize("cell", ["two\nlines", "a\ttab", Table("inner")])
def test_what_is_more_than_a_plain_cell_is_left_to_rich(cell):
    table = Table("head", box=None, pad_edge=False)
    table.add_row(cell)
    assert printed(table, whole_table) == printed(table, Console.print)


# Its place in struct figures of native.h.
LARGEST = 7


@pytest.mark.parametrize("arguments", [["--version", "-v"], ["-v", "--version"], ["-V", "--verbose"]])
def test_a_verbose_version_says_what_it_runs_on(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with going(NATIVE):
        assert run_main(arguments) == 0
    first, *others = capsys.readouterr().out.splitlines()
    assert first == f"mluops-test {__version__}"
    assert [line.split()[0] for line in others] == ["python", "numpy", "native"]
    assert others[-1].startswith("native core active (")


def test_the_doctor_finds_the_installation_sound(capsys: pytest.CaptureFixture[str]) -> None:
    with going(NATIVE):
        assert run_main(["doctor", "--self"]) == 0
    assert capsys.readouterr().out.endswith("the native core and numpy find the same figures, bit for bit\n")


def test_the_doctor_needs_something_to_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main(["doctor"]) == 2
    assert "--backend BACKEND, or --self" in capsys.readouterr().err


def test_the_doctor_finds_a_core_that_miscounts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = comparing.NativePair.figures

    def wrong(self, first, cells):
        found = list(right(self, first, cells))
        found[LARGEST] *= 1 + 2**-52
        return tuple(found)

    monkeypatch.setattr(comparing.NativePair, "figures", wrong)
    with going(NATIVE):
        assert disagreements()
        assert run_main(["doctor", "--self"]) == 1
    assert "set MLUOPS_TEST_NATIVE=0 and report it" in capsys.readouterr().out
