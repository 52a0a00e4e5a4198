"""Consoles that adapt to where they print, and the line that shows how far a run or a fuzz run is."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress import Progress
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from mluops_gtest.base.frozen import Value
from mluops_gtest.base.text import pluralize, strip_controls, strip_to_line
from mluops_gtest.core.report import CaseFinished, CasesRetracted, CaseStarted, Event, RunFinished, RunStarted

if TYPE_CHECKING:
    from mluops_gtest.cluster.answers import HostTally
    from mluops_gtest.search.fuzz import FuzzCaseFinished, FuzzedOperator, FuzzReport

T = TypeVar("T")


def track(items: Iterable[T], total: int, console: Console) -> Iterator[T]:
    """The items, with a bar on a terminal and nothing elsewhere."""
    if not console.is_terminal:  # where even a disabled bar of older rich ends with an empty line
        yield from items
        return
    with Progress(console=console, transient=True) as progress:
        yield from progress.track(items, total=total)


_WIDE = 200
_UNLIMITED = 10_000


def whole_table(console: Console, table: Table) -> None:
    """Print a table at its own width: a narrow terminal wraps its lines, but no name or number is cut."""
    lines = _plain_lines(console, table) if console.color_system is None else None
    if lines is not None:
        console.file.writelines(lines)
        return
    before = console.width
    console.width = max(before, console.measure(table, options=console.options.update(max_width=_UNLIMITED)).maximum)
    try:
        console.print(table)
    finally:
        console.width = before


def _plain_lines(console: Console, table: Table) -> Iterator[str] | None:
    """The lines that rich prints without colours, but many times faster; None for a table of more than plain cells."""

    @cache
    def plain_text(cell: str) -> str:
        return console.render_str(cell).plain if "[" in cell or not cell.isprintable() else cell

    columns = [[column.header, *column.cells] for column in table.columns]
    if table.box is not None or table.pad_edge or table.title or table.caption or not table.show_header:
        return None
    if not all(isinstance(cell, str) for column in columns for cell in column):
        return None
    texts = [[plain_text(str(cell)) for cell in column] for column in columns]
    if not all(text.isprintable() for column in texts for text in column):
        return None
    padded = [_padded(column, right=kind.justify == "right") for column, kind in zip(texts, table.columns, strict=True)]
    return ("  ".join(cells) + "\n" for cells in zip(*padded, strict=True))


def _padded(cells: Sequence[str], *, right: bool) -> Iterator[str]:
    width = max(map(cell_len, cells))
    for cell in cells:
        # At the right edge rich has no spaces of the cell's own.
        text = cell.rstrip() if right else cell
        gap = " " * (width - cell_len(text))
        yield gap + text if right else text + gap


def print_page(console: Console, parts: Iterable[Table | str]) -> None:
    """Print lines and tables one below the other, nothing cut."""
    for part in parts:
        if isinstance(part, Table):
            whole_table(console, part)
        else:
            console.print(part, soft_wrap=True)


def stdout() -> Console:
    """For the output that the user asked for."""
    return _console(sys.stdout)


def stderr() -> Console:
    """For progress and remarks."""
    return _console(sys.stderr)


def _console(stream: TextIO) -> Console:
    # In a pipe rich would assume 80 columns and cut tables, where width does not matter.
    width = None if stream.isatty() else _WIDE
    return _Console(file=stream, width=width, highlight=False, emoji=False, soft_wrap=not stream.isatty())


class _Console(Console):
    """Prints no control characters except those of its own colours."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Every printed string passes through here, table cells included."""
        return super().render_str(strip_controls(text), **options)


_GAP = 2
_MIN_BAR = 10
_MIN_NOTE = 16


class RemainingTime:
    """How long the rest of a run takes, by what its cases cost and how fast the finished ones went."""

    def __init__(self, costs: Mapping[str, int], clock: Callable[[], float] = time.monotonic) -> None:
        from mluops_gtest.running.plan import CASE_NS  # late: it needs numpy, and reading results does not

        self._costs, self._usual_cost, self._clock = costs, CASE_NS, clock
        self._begin = self._last = clock()
        self._left, self._done = sum(costs.values()), 0

    @property
    def elapsed(self) -> float:
        return self._clock() - self._begin

    def finished(self, case: str) -> None:
        """Count the case; parallel cases need no special rule, since they share one clock."""
        cost = self._costs.get(case, self._usual_cost)
        self._done += cost
        self._left = max(self._left - cost, 0)
        self._last = self._clock()

    @property
    def seconds(self) -> float | None:
        """Seconds from now on, counting down between cases; None before anything is known."""
        if not self._done:
            return None
        expected = (self._last - self._begin) * self._left / self._done
        return max(expected - (self._clock() - self._last), 0.0)


class Line(Value):
    """What fits on a line of a terminal: a remark, a bar of some cells, and the words behind them."""

    note: str
    bar: int
    words: tuple[str, ...]


def fit_line(note: str, counts: str, failed: str, elapsed: str, left: str, width: int) -> Line:
    """Everything if there is room; a narrow terminal drops the elapsed time, then the time left."""
    everything = (counts, failed, elapsed, left)
    fewer = (everything, (counts, failed, left), (counts, failed), (failed,), ())
    choices = [tuple(word for word in words if word) for words in fewer]
    words = next(words for words in choices if _length(words) <= width)
    room = width - _length(words) - _GAP
    if room < _MIN_NOTE:
        return Line("", 0, words)
    bar = room - cell_len(note) - _GAP
    if bar >= _MIN_BAR:
        return Line(note, bar, words)
    return Line(note if cell_len(note) <= room else note[: room - 1] + "…", 0, words)


def clock_words(seconds: float) -> str:
    """75 → 1:15."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


# Seconds between two lines in a pipe.
_EVERY: Final = 30.0


class _LiveLine:
    """A line that stays at the end of a terminal until it is closed; into a pipe its words go now and then.

    Nothing is printed where `shown` is false.
    """

    def __init__(self, console: Console, clock: Callable[[], float], *, shown: bool) -> None:
        """Comes last in a subclass: the live line asks for its text at once."""
        self._console, self._clock, self._note, self._shown = console, clock, "", shown
        self._printed = clock()
        is_live = shown and console.is_terminal
        self._live = Live(get_renderable=self.line, console=console, transient=True) if is_live else None

    def line(self) -> RenderableType:
        """The line as it is now."""
        raise NotImplementedError

    def words(self) -> str:
        """What a pipe gets."""
        raise NotImplementedError

    def _start(self) -> None:
        self._printed = self._clock()
        if self._live is not None:
            self._live.start()

    def _print_now_and_then(self) -> None:
        if self._live is None and self._shown and self._clock() - self._printed >= _EVERY:
            self._printed = self._clock()
            self._console.print(self.words(), soft_wrap=True)

    def close(self) -> None:
        """Remove the line, however the work ended."""
        if self._live is not None:
            self._live.stop()


class RunProgress(_LiveLine):
    """Listens to a run and keeps the line up to date."""

    def __init__(
        self,
        console: Console,
        costs: Mapping[str, int],
        *,
        shown: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._costs, self._time = costs, RemainingTime(costs, clock)
        self._done = self._total = self._failed = 0
        super().__init__(console, clock, shown=shown)

    def note(self, text: str) -> None:
        """Say what takes long just now."""
        self._note = strip_to_line(text)

    def __call__(self, event: Event) -> None:
        match event:
            case RunStarted(backend, total):
                self.note(backend)
                self._total = total
                self._time = RemainingTime(self._costs, self._clock)
                self._start()
            case CaseStarted(case):
                self.note(case)
            case CaseFinished(result):
                self._done += 1
                self._failed += result.outcome.blocks
                self._time.finished(result.case)
                self._print_now_and_then()
            case CasesRetracted(cases):
                self._done -= len(cases)
            case RunFinished():
                self.close()

    def words(self) -> str:
        """How far the run is."""
        return f"{self._done} of {self._total}, {self._failed} failed"

    def line(self) -> RenderableType:
        """The line as it is now, as wide as the terminal is now."""
        left = self._time.seconds
        line = fit_line(
            self._note,
            f"{self._done}/{self._total}",
            f"{self._failed} failed",
            clock_words(self._time.elapsed),
            "" if left is None else f"{clock_words(left)} left",
            self._console.width - 1,
        )
        grid = Table.grid(padding=(0, _GAP, 0, 0))
        words = (Text(word, "bold red" if self._failed and word.endswith("failed") else "") for word in line.words)
        bar = (ProgressBar(self._total, self._done, line.bar),) if line.bar else ()
        note = (Text(line.note, no_wrap=True),) if line.note else ()
        grid.add_row(*note, *bar, *words)
        return grid


def _length(words: tuple[str, ...]) -> int:
    return sum(cell_len(word) + _GAP for word in words) - _GAP if words else 0


class FuzzProgress(_LiveLine):
    """Listens to a fuzz run and keeps the line up to date."""

    def __init__(
        self, console: Console, limit: float | None, *, shown: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`limit` are the seconds that the fuzz run may take."""
        self._limit, self._begin = limit, clock()
        self._report: FuzzReport | None = None
        self._hosts: Mapping[str, HostTally] = {}
        super().__init__(console, clock, shown=shown)

    def start(self, targets: "Sequence[FuzzedOperator]", hosts: "Mapping[str, HostTally] | None" = None) -> None:
        """The fuzz run begins, on these hosts if not on this machine alone."""
        self._hosts = self._hosts if hosts is None else hosts
        self._begin = self._clock()
        self._note = targets[0].operator.name
        self._start()

    def __call__(self, ran: "FuzzCaseFinished", report: "FuzzReport") -> None:
        self._note, self._report = ran.result.operator, report
        self._print_now_and_then()

    def line(self) -> Text:
        """The words on one line."""
        return Text(self.words(), no_wrap=True, overflow="ellipsis")

    def words(self) -> str:
        """The line as it is now."""
        seconds = self._clock() - self._begin
        parts = [self._note]
        report = self._report
        if report is not None:
            parts += [pluralize(report.draws, "draw"), f"{report.draws / max(seconds, 1e-3):.0f}/s"]
            parts += [
                f"coverage {coverage_share(report.targets):.0%}",
                pluralize(len(report.findings), "cause") + " found",
            ]
        parts.append(clock_words(seconds))
        if self._limit is not None:
            parts.append(f"{clock_words(max(self._limit - seconds, 0))} left")
        parts += [f"{host}: {one.workers} workers, {one.done} done" for host, one in self._hosts.items()]
        return "  ".join(parts)


def coverage_share(targets: "Sequence[FuzzedOperator]") -> float:
    """The share of the pairs of classes that were drawn so far."""
    seen = sum(len(target.coverage.seen) for target in targets)
    return seen / max(1, sum(target.draws.features.total for target in targets))
