"""The line that shows a fuzz run: draws, their rate, coverage, failures; in a pipe a plain one now and then."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from mluops_gtest.cli.run_progress import clock_words
from mluops_gtest.fuzz.hunt import FuzzedOperator, HuntReport, Ran
from mluops_gtest.model.counted import counted

if TYPE_CHECKING:
    from rich.live import Live

    from mluops_gtest.cluster.answers import HostTally

# Seconds between two lines in a pipe.
_EVERY: Final = 30.0


class FuzzProgress:
    """Listens to a fuzz run and keeps the line up to date."""

    def __init__(
        self, console: Console, limit: float | None, *, shown: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`limit` are the seconds that the fuzz run may take."""
        self._console, self._limit, self._clock = console, limit, clock
        self._begin = self._last = clock()
        self._note = ""
        self._report: HuntReport | None = None
        self._hosts: Mapping[str, HostTally] = {}
        self._shown = shown
        self._live = self._made() if shown and console.is_terminal else None

    def _made(self) -> "Live":
        from rich.live import Live

        return Live(get_renderable=self._line, console=self._console, transient=True)

    def start(self, targets: Sequence[FuzzedOperator], hosts: "Mapping[str, HostTally] | None" = None) -> None:
        """The fuzz run begins, on these hosts if not on this machine alone."""
        self._hosts = self._hosts if hosts is None else hosts
        self._begin = self._last = self._clock()
        self._note = targets[0].operator.name
        if self._live is not None:
            self._live.start()

    def close(self) -> None:
        """Remove the line, however the fuzz run ended."""
        if self._live is not None:
            self._live.stop()

    def __call__(self, ran: Ran, report: HuntReport) -> None:
        self._note, self._report = ran.result.operator, report
        if self._live is None and self._shown and self._clock() - self._last >= _EVERY:
            self._last = self._clock()
            self._console.print(self.words(), soft_wrap=True)

    def _line(self) -> Text:
        return Text(self.words(), no_wrap=True, overflow="ellipsis")

    def words(self) -> str:
        """The line as it is now."""
        seconds = self._clock() - self._begin
        parts = [self._note]
        report = self._report
        if report is not None:
            parts += [counted(report.draws, "draw"), f"{report.draws / max(seconds, 1e-3):.0f}/s"]
            parts += [
                f"coverage {coverage_share(report.targets):.0%}",
                counted(len(report.findings), "cause") + " found",
            ]
        parts.append(clock_words(seconds))
        if self._limit is not None:
            parts.append(f"{clock_words(max(self._limit - seconds, 0))} left")
        parts += [f"{host}: {one.workers} workers, {one.done} done" for host, one in self._hosts.items()]
        return "  ".join(parts)


def coverage_share(targets: Sequence[FuzzedOperator]) -> float:
    """The share of the pairs of classes that were drawn so far."""
    seen = sum(len(target.coverage.seen) for target in targets)
    return seen / max(1, sum(target.draws.features.total for target in targets))
