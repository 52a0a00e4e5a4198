"""Ours, the peers and the machine's limit side by side: `python -m benchmarks [ROW…] [--quick] [--json FILE]`."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks import (
    baselines,
    case_files,
    criteria,
    elementwise_check,
    large_cases,
    many_cases,
    many_results,
    start_up,
)
from benchmarks.page import line, renewed
from benchmarks.reasons import reason_of
from benchmarks.rows import Clock, Row
from benchmarks.table import Table, current_name, grossly_worse, measured

COMMITTED = Path(__file__).with_name("table.json")


def all_rows() -> Iterator[Row]:
    for module in (criteria, case_files, baselines, elementwise_check, start_up, large_cases, many_cases, many_results):
        yield from module.rows()


def reasons() -> dict[str, str]:
    """Where the time goes, by row."""
    return {row.name: row.why or reason_of(row.name) for row in all_rows()}


def chosen(words: list[str], quick: bool) -> list[Row]:
    rows, words = list(all_rows()), [current_name(word) for word in words]
    for word in words:
        if not any(_begins(row, word) for row in rows):
            raise SystemExit(f"No row begins with {word!r}. The rows are:\n" + "\n".join(row.name for row in rows))
    return [
        row
        for row in rows
        if (not words or any(_begins(row, word) for word in words)) and (words or not quick or row.quick)
    ]


def _begins(row: Row, word: str) -> bool:
    return f"{row.name}/".startswith(f"{word.rstrip('/')}/")


def complain(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def main() -> int:
    """0, or 1 where a row failed, or a quick one is grossly worse than in the committed table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").partition(":")[0] + ".")
    parser.add_argument("rows", nargs="*", metavar="ROW", help="only rows whose names begin so, e.g. criteria/float")
    parser.add_argument("--quick", action="store_true", help="only rows of a few seconds; fail where one is 3× worse")
    parser.add_argument("--cpu", action="store_true", help="processor time where work is done in this process")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures; some rows: renew them there")
    parser.add_argument("--page", type=Path, metavar="FILE", help="renew the tables of docs/about/harness-speed.md")
    parser.add_argument("--read", type=Path, metavar="FILE", help="measure nothing: take what --json wrote")
    options = parser.parse_args()
    if options.cpu:
        Clock.count_processors()
    rows = [] if options.read else chosen(options.rows, options.quick)
    table = Table.read(options.read) if options.read else Table("", "", ())
    others = Table.read(options.json) if options.rows and options.json and options.json.exists() else table
    for table in measured(rows, complain, seconds=0.5 if options.quick else 2.0):
        print("\n".join(line(table.rows[-1])), flush=True)
        if options.json:
            table.within(others).write(options.json)
    if options.page:
        before = options.page.read_text(encoding="utf-8") if options.page.exists() else ""
        options.page.write_text(renewed(before, table.within(others), reasons()), encoding="utf-8")
    worse = grossly_worse(table, Table.read(COMMITTED)) if options.quick else []
    for found in worse:
        complain(f"Grossly worse: {found}")
    return int(bool(worse) or len(table.rows) < len(rows))


if __name__ == "__main__":
    sys.exit(main())
