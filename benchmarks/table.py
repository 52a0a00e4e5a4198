"""The measured table: medians with their spread, goals met and missed, and what became grossly worse."""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.rows import Clock, Goal, Round, Row, Unit
from mluops_gtest.base.native.library import native_core

ROUNDS = 5
# A row that is so many times worse than in the committed table has broken, whatever the machine is busy with.
GROSS = 3.0
# Groups of rows that had another name; files and commands may still use it.
_FORMER_GROUPS = {"second-look": "elementwise-check"}


@dataclass(frozen=True, slots=True)
class Spread:
    """A median between its quartiles."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        low, median, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
        return cls(low, median, high)


@dataclass(frozen=True, slots=True)
class Measured:
    """One row: what each contestant took, and what ours took as a multiple of each, round by round."""

    name: str
    what: str
    unit: Unit
    limit: str
    rounds: int
    takes: dict[str, Spread]
    ratios: dict[str, Spread]
    goals: tuple[Goal, ...]
    # The time is that of the processors, not that on the clock.
    of_processors: bool = False

    @property
    def ours(self) -> str:
        return next(iter(self.takes))

    def missed(self) -> list[Goal]:
        return [goal for goal in self.goals if goal.against in self.ratios and self.ratio(goal) > goal.at_most]

    def ratio(self, goal: Goal) -> float:
        return self.ratios[goal.against].median


def measure(row: Row, seconds: float) -> Measured:
    """At least five rounds, and up to five times as many while the seconds last."""
    taken: list[Round] = []
    Clock.of_processors = False
    with closing(row.rounds()) as endless:
        taken += islice(endless, ROUNDS)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end and len(taken) < 5 * ROUNDS:
            taken += islice(endless, 1)
    ours = next(iter(taken[0]))
    takes = {name: Spread.of([one[name] for one in taken]) for name in taken[0]}
    ratios = {name: Spread.of([one[ours] / one[name] for one in taken]) for name in takes if name != ours}
    return Measured(row.name, row.what, row.unit, row.limit, len(taken), takes, ratios, row.goals, Clock.of_processors)


@dataclass(frozen=True, slots=True)
class Table:
    """All rows of one run, and where it ran."""

    machine: str
    taken: str
    rows: tuple[Measured, ...]

    def within(self, whole: "Table") -> "Table":
        """The whole table with these rows in place of its own."""
        mine = {row.name: row for row in self.rows}
        kept = [mine.pop(row.name, row) for row in whole.rows]
        return Table(self.machine, self.taken, (*kept, *mine.values()))

    def write(self, path: Path) -> None:
        """One row per line: a row that is measured again changes one line."""
        rows = ",\n".join(json.dumps(asdict(row), ensure_ascii=False) for row in self.rows)
        head = json.dumps({"machine": self.machine, "taken": self.taken})[:-1]
        path.write_text(f'{head}, "rows": [\n{rows}\n]}}\n', encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> "Table":
        whole = json.loads(path.read_text(encoding="utf-8"))
        return cls(whole["machine"], whole["taken"], tuple(_measured(row) for row in whole["rows"]))


def measured(rows: Iterable[Row], tell: Callable[[str], None], seconds: float) -> Iterator[Table]:
    """The table after each row; one that fails is told and left out."""
    found: tuple[Measured, ...] = ()
    for row in rows:
        try:
            found = (*found, measure(row, seconds))
        except (Exception, SystemExit) as error:
            tell(f"{row.name} failed: {type(error).__name__}: {error}")
        else:
            yield Table(machine(), time.strftime("%Y-%m-%d", time.gmtime()), found)


def _measured(row: dict[str, Any]) -> Measured:
    spreads = {part: {name: Spread(**one) for name, one in row[part].items()} for part in ("takes", "ratios")}
    return Measured(
        **{**row, **spreads, "name": current_name(row["name"]), "goals": tuple(Goal(**goal) for goal in row["goals"])}
    )


def current_name(row: str) -> str:
    """The name of a row, or of a group of rows, that may be given by a former one."""
    group, slash, rest = row.partition("/")
    return f"{_FORMER_GROUPS.get(group, group)}{slash}{rest}"


def machine() -> str:
    return (
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}, "
        f"native core {native_core().words}"
    )


def grossly_worse(now: Table, committed: Table) -> list[str]:
    """What is more than three times as slow beside a contestant as in the slower rounds of the committed table."""
    before = {row.name: row for row in committed.rows}
    found = []
    for row in now.rows:
        was = before[row.name].ratios if row.name in before else {}
        found += [
            f"{row.name}: {row.ratios[name].median:.2f} times {name}, {was[name].high:.2f} in the committed table"
            for name in dict.fromkeys((*(goal.against for goal in row.goals), row.limit))
            if name in row.ratios and name in was and row.ratios[name].median > GROSS * was[name].high
        ]
    return found
