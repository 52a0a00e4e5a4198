"""The table in words: as lines while it is measured, and as the last section of docs/about/harness-speed.md."""

from collections.abc import Iterator, Mapping

from benchmarks.rows import Goal, Unit
from benchmarks.table import Measured, Spread, Table

_HEADING = "## Beside peers and the machine's limit\n"
_HEAD = f"""\
{_HEADING}
`python -m benchmarks --json benchmarks/table.json --page docs/about/harness-speed.md` measures everything and writes
this section.

- **Read the ratios.** The machine is a virtual one whose clock changes with its neighbours, so in each row ours and
  the peers work on the same data in alternating rounds.
- A ratio is the median of ours / theirs over at least 5 rounds, with its quartiles in brackets. Below 1 ours is faster.
- The *share of the limit* is the time that the machine needs for that work at best (reading the bytes, copying them,
  plain C) / ours.
- With `--cpu`, work in this process is counted in processor time; such rows say so.
- `python -m benchmarks ROW…` measures the rows whose names begin like that and renews them in the file of `--json`.
- `--quick` measures the rows that every change must keep: it fails if a row is more than 3 times worse than the upper
  quartile in `benchmarks/table.json`.

"""


def line(row: Measured) -> Iterator[str]:
    """A row as it is told on the terminal."""
    yield f"{row.name}: {row.what} ({row.rounds} rounds)"
    for name, takes in row.takes.items():
        ratio = row.ratios.get(name)
        words = "" if ratio is None else f"  {_times(ratio)}"
        yield f"  {name:44} {_amount(takes.median, row.unit):>10}{words}"
    for goal in row.goals:
        yield f"  {_goal(row, goal)}"


def renewed(text: str, table: Table, reasons: Mapping[str, str]) -> str:
    """The page with its last section made anew; what stands above it stays."""
    return text.partition(_HEADING)[0] + section(table, reasons)


def section(table: Table, reasons: Mapping[str, str]) -> str:
    """The tables; `reasons` tell of every row there is where its time goes."""
    parts = [_HEAD, f"Taken on {table.taken}: {table.machine}.\n"]
    groups: dict[str, list[Measured]] = {}
    for row in table.rows:
        groups.setdefault(row.name.partition("/")[0], []).append(row)
    for name, rows in groups.items():
        parts.append(f"\n### {name.replace('-', ' ').capitalize()}\n\n{_table(rows)}")
    missed = [row for row in table.rows if row.missed()]
    if missed:
        parts.append("\n### Goals that are missed, and where the time goes\n\n")
        parts += [_gap(row, reasons.get(row.name, "")) for row in missed]
    measured = {row.name for row in table.rows}
    unmeasured = [f"`{name}`" for name in reasons if name not in measured]
    if unmeasured:
        parts.append(f"\n### Rows without figures\n\nNot measured in this table: {', '.join(unmeasured)}.\n")
    return "".join(parts)


def _table(rows: list[Measured]) -> str:
    lines = ["| row | ours | beside | share of the limit | goal |\n", "|---|---|---|---|---|\n"]
    for row in rows:
        peers = [f"{name} {_times(ratio)}" for name, ratio in row.ratios.items() if name != row.limit]
        limit = row.ratios.get(row.limit)
        told = "" if limit is None else f"{1 / limit.median:.0%} of {row.limit}"
        goals = "<br>".join(_goal(row, goal) for goal in row.goals)
        ours = _amount(row.takes[row.ours].median, row.unit) + (" of the processors" if row.of_processors else "")
        lines.append(f"| `{row.name}`: {row.what} | {ours} | {'<br>'.join(peers)} | {told} | {goals} |\n")
    return "".join(lines)


def _gap(row: Measured, reason: str) -> str:
    gaps = "; ".join(_goal(row, goal) for goal in row.missed())
    return f"- `{row.name}`: {gaps}. {reason}".rstrip() + "\n"


def _goal(row: Measured, goal: Goal) -> str:
    if goal.against not in row.ratios:
        return f"{goal.against} is not there"
    ratio = row.ratio(goal)
    if goal.against == row.limit:
        wanted, has = f"≥ {1 / goal.at_most:.0%} of {goal.against}", f"{1 / ratio:.0%}"
    elif goal.at_most < 0.5:
        wanted, has = f"≥ {1 / goal.at_most:g} times as fast as {goal.against}", f"{1 / ratio:.3g}"
    else:
        wanted, has = f"≤ {goal.at_most:g}× {goal.against}", f"{ratio:.3g}×"
    return f"{wanted}: met" if ratio <= goal.at_most else f"{wanted}: **missed**, {has}"


def _times(ratio: Spread) -> str:
    return f"{_short(ratio.median)}× ({_short(ratio.low)}–{_short(ratio.high)})"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.2g}" if value < 1 else f"{value:.2f}"


def _amount(value: float, unit: Unit) -> str:
    if unit == "B":
        return f"{value / 1e6:.1f} MB"
    for scale, name in ((1.0, "s"), (1e-3, "ms")):
        if value >= scale:
            return f"{value / scale:.3g} {name}"
    return f"{value * 1e6:.3g} µs"
