"""What the campaign counts, and the table that it prints."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, TypeVar

T = TypeVar("T")
COLUMNS: Final = ("tries", "survived", "lost", "tracebacks", "exit 70", "processes", "files")


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt: what was lost or left behind, and what else broke a promise; all empty where it survived."""

    kind: str
    repro: str
    lost: int = 0
    tracebacks: int = 0
    bugs: int = 0
    processes: int = 0
    files: int = 0
    broken: tuple[str, ...] = ()
    # Several inputs in one process count as so many tries.
    count: int = 1
    failures: int = field(default=-1)

    @property
    def survived(self) -> int:
        """How many of the tries kept every promise."""
        if self.failures >= 0:
            return self.count - self.failures
        bad = self.lost or self.tracebacks or self.bugs or self.processes or self.files or self.broken
        return 0 if bad else self.count


def try_all(attempt: Callable[[T], Try], items: Iterable[T], at_once: int) -> list[Try]:
    """Every attempt in the order of its items, some at the same time."""
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(attempt, items))


@dataclass(slots=True)
class Tally:
    """All tries of a campaign."""

    tries: list[Try] = field(default_factory=list)

    def add(self, tries: Iterable[Try]) -> None:
        """Take a chapter's tries in."""
        self.tries += tries

    def rows(self) -> list[tuple[str, tuple[int, ...]]]:
        """Kind of fault and its figures, in the order of COLUMNS; the sums at the end."""
        kinds = list(dict.fromkeys(one.kind for one in self.tries))
        rows = [(kind, _sums([one for one in self.tries if one.kind == kind])) for kind in kinds]
        return [*rows, ("all", _sums(self.tries))]

    def failures(self) -> list[Try]:
        """Every try that broke a promise."""
        return [one for one in self.tries if one.survived < one.count]

    def __str__(self) -> str:
        width = max(len(kind) for kind, _ in self.rows())
        lines = ["  ".join((f"{'kind of fault':{width}}", *COLUMNS))]
        for kind, figures in self.rows():
            cells = (f"{figure:{len(name)}}" for name, figure in zip(COLUMNS, figures, strict=True))
            lines.append("  ".join((f"{kind:{width}}", *cells)))
        return "\n".join(lines)

    def markdown(self) -> str:
        """The table as docs/reference/trust.md has it."""
        lines = ["| kind of fault | " + " | ".join(COLUMNS) + " |", "|---|" + "--:|" * len(COLUMNS)]
        lines += [f"| {kind} | " + " | ".join(map(str, figures)) + " |" for kind, figures in self.rows()]
        return "\n".join(lines)


def _sums(tries: Sequence[Try]) -> tuple[int, ...]:
    return (
        sum(one.count for one in tries),
        sum(one.survived for one in tries),
        sum(one.lost for one in tries),
        sum(one.tracebacks for one in tries),
        sum(one.bugs for one in tries),
        sum(one.processes for one in tries),
        sum(one.files for one in tries),
    )
