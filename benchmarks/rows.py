"""What is measured: a row compares ours with peers and with what the machine can do, round after round."""

import resource
import statistics
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Literal

# What each contestant took in one round, by its name, ours first: seconds, or bytes.
Round = dict[str, float]
Rounds = Generator[Round, None, None]
Unit = Literal["s", "B"]
Contestants = Mapping[str, Callable[[], object]]
# A turn of a quick contestant lasts so long at least: the clock is coarse.
TURN_SECONDS = 2e-3


@dataclass(frozen=True, slots=True)
class Goal:
    """Ours takes at most `at_most` times what the contestant `against` takes."""

    against: str
    at_most: float


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    # Words between slashes, the widest first, e.g. criteria/float/10M.
    name: str
    # What is compared, in words.
    what: str
    # Yields a round as often as it is asked; whoever asks closes it, and what it holds goes.
    rounds: Callable[[], Rounds]
    goals: tuple[Goal, ...] = ()
    # The contestant that is what the machine can do at all.
    limit: str = ""
    unit: Unit = "s"
    # Quick enough for every change: a few seconds.
    quick: bool = False
    # Where the time goes, for the page, as long as a goal is missed.
    why: str = ""


def share(limit: str, least: float) -> Goal:
    """At least this share of what the machine can do: 0.45 for 45 %."""
    return Goal(limit, 1 / least)


def interleaved(contestants: Contestants) -> Rounds:
    """All contestants in turn, each once before that: what slows the machine down meets all alike."""
    for work in contestants.values():
        work()
    while True:
        yield {name: seconds_of(work) for name, work in contestants.items()}


class Clock:
    """What `seconds_of` reads: the time on the clock, or that of the processors, of this process and its children."""

    now: Callable[[], float] = staticmethod(time.perf_counter)
    # Somebody read the time of the processors since this was last False.
    of_processors = False

    @classmethod
    def count_processors(cls) -> None:
        """On a machine that is busy with other things only this is comparable; who uses two cores gains nothing."""
        cls.now = staticmethod(_processor_seconds)


def _processor_seconds() -> float:
    Clock.of_processors = True
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def seconds_of(work: Callable[[], object]) -> float:
    """Seconds per call; a quick one is repeated, and the median call counts: what interrupts one of them does not."""
    taken: list[float] = []
    end = time.perf_counter() + TURN_SECONDS
    while not taken or time.perf_counter() < end:
        start = Clock.now()
        work()
        taken.append(Clock.now() - start)
    return statistics.median(taken)
