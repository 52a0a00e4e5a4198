"""`mluops-test cache`: where the cache is, what it holds, and what can go."""

import datetime
from collections.abc import Iterator
from pathlib import Path

import click
from rich.table import Table

from mluops_gtest.base.text import pluralize
from mluops_gtest.catalog.cache import CacheContents, CachedCase
from mluops_gtest.results.reports.terminal import escape, table_of


def _page(folder: Path, found: CacheContents) -> Iterator[Table | str]:
    """The folder, a row per kind of case, and what else lies there."""
    yield escape(str(folder))
    if not found.cases:
        yield "empty" if not found.declarations else "no cases"
    else:
        yield _table(found.cases)
    if found.declarations:
        size = size_words(sum(entry.nbytes for entry in found.declarations))
        yield f"expanded declarations: {pluralize(len(found.declarations), 'file')}, {size}"
    if found.abandoned:
        yield f"left by killed runs: {len(found.abandoned)}, to remove them: mluops-test cache prune"
    if found.foreign:
        yield escape(f"not put there by mluops-test: {len(found.foreign)}, e.g. {found.foreign[0]}")


def _table(cases: list[CachedCase]) -> Table:
    kinds: dict[int | None, list[CachedCase]] = {}
    for case in cases:
        kinds.setdefault(case.seed, []).append(case)
    table = table_of((("values",), {}), (("cases", "size", "last used"), {"justify": "right"}))
    for seed in sorted(kinds, key=lambda one: -1 if one is None else one):
        table.add_row("as declared" if seed is None else f"--reseed {seed}", *_row_figures(kinds[seed]))
    if len(kinds) > 1:
        table.add_row("together", *_row_figures(cases))
    return table


def _row_figures(cases: list[CachedCase]) -> tuple[str, str, str]:
    used = datetime.datetime.fromtimestamp(max(case.used for case in cases)).astimezone()
    return str(len(cases)), size_words(sum(case.nbytes for case in cases)), f"{used:%Y-%m-%d}"


def size_words(nbytes: int) -> str:
    """1536 → 1.5 KiB."""
    size = float(nbytes)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


_EPILOG = """\b
Examples:
  mluops-test cache                       where the cache is, and what is in it
  mluops-test cache prune                 remove what has not been used for 30 days
  mluops-test cache prune --older-than 0  remove everything
  MLUOPS_TEST_CACHE=/scratch/cases mluops-test run --tag network
"""
_DAY = 86400


@click.group("cache", epilog=_EPILOG, invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Show where large cases are cached and how much space they take.

    Cases that are too large to commit, and the cases of --reseed, are made on first use and kept in this folder; so is
    what declarations expand to. Set $MLUOPS_TEST_CACHE to use another folder.
    """
    if ctx.invoked_subcommand is not None:
        return
    from mluops_gtest.base.files import cache_folder
    from mluops_gtest.catalog.cache import cache_contents
    from mluops_gtest.cli.terminal import print_page, stdout

    folder = cache_folder()
    print_page(stdout(), _page(folder, cache_contents(folder)))


@command.command("prune", epilog="\b\nExamples:\n  mluops-test cache prune\n  mluops-test cache prune --older-than 7")
@click.option(
    "--older-than",
    "days",
    type=click.IntRange(0),
    default=30,
    show_default=True,
    metavar="DAYS",
    help="Only remove cases that were not used for so many days, e.g. --older-than 7; 0 removes all.",
)
def prune(days: int) -> None:
    """Remove cases from the cache; they are made again when needed.

    A run that uses the cache at the same time goes on. Files that mluops-test did not put there stay.
    """
    import time

    from mluops_gtest.base.errors import UnwritableError
    from mluops_gtest.base.files import cache_folder
    from mluops_gtest.catalog.cache import cache_contents, prune
    from mluops_gtest.cli.echo import echo, echo_error

    folder = cache_folder()
    found = cache_contents(folder)
    old, forgotten = (
        [entry for entry in entries if entry.used <= time.time() - days * _DAY]
        for entries in (found.cases, found.declarations)
    )
    try:
        prune([*(entry.path for entry in (*old, *forgotten)), *found.abandoned], folder)
    except OSError as error:
        raise UnwritableError(f"{error.filename}: cannot be removed: {error.strerror}. Ask its owner.") from error
    size = size_words(sum(case.nbytes for case in old))
    echo(f"{folder}: removed {len(old)} of {pluralize(len(found.cases), 'case')}, {size}.")
    if found.foreign:
        echo_error(f"Left alone: {len(found.foreign)} not put there by mluops-test, e.g. {found.foreign[0]}.")
