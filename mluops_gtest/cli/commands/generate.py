"""`mluops-test generate`, `verify` and `cache`: cases made, their baselines computed again, large ones cached."""

import datetime
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mluops_gtest.base.errors import ContentError, ExitCode, UndefinedCallError, UnwritableError
from mluops_gtest.base.text import pluralize
from mluops_gtest.cli.options import (
    file_options,
    flag_option,
    format_option,
    jobs_option,
    json_option,
    selection_options,
    value_option,
)
from mluops_gtest.core.case import Query

if TYPE_CHECKING:
    from rich.table import Table

    from mluops_gtest.catalog.cache import CacheContents, CachedCase
    from mluops_gtest.catalog.produce import Produced, Target


@click.command("generate")
@selection_options
@value_option(
    "--out",
    "folder",
    "Write every selected case there, large ones too, e.g. --out cases.  "
    "[default: prototxt/ in the root of each operator]",
)
@format_option("prototxt", "pb", words="Text or binary files, e.g. --format pb.")
@jobs_option
@flag_option("--check", "Write nothing; compare with the stored files and the lock file.")
def command(query: Query, roots: tuple[str, ...], out: Path | None, form: str, jobs: int, check: bool) -> int:
    """Make cases: the recipes make the inputs, the references make the baselines.

    It writes case files of up to 64 KB into prototxt/OPERATOR/ of the operator's root, and a line per case into the
    baselines.lock beside them.
    Larger cases are made when they are first run, and kept in the cache. With --out it writes every selected case to
    that folder instead.

    Examples:
      mluops-test generate --all                        the whole content of this checkout, lock file included
      mluops-test generate --all --check -j 2           are the stored cases still what generate makes?
      mluops-test generate --op voxel_pooling_forward --out /tmp/cases --format pb
      mluops-test generate masked_im2col_forward/edge_top_float
    """
    from mluops_gtest.catalog.produce import plan_generation
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.cli.echo import echo, echo_error
    from mluops_gtest.cli.terminal import stderr, track

    session = Session(roots)
    work = plan_generation(session, query, out, form, check=check)
    produced = list(track(work.produce(jobs), len(work.targets), stderr()))
    unwritable = [item.unwritable for item in produced if item.unwritable]
    problems = sorted(item.problem for item in produced if item.problem)
    if check:
        problems += work.differences()
        for line in problems:
            echo(line)
        echo(f"{pluralize(len(produced), 'case')} compared, {pluralize(len(problems), 'difference')}")
        return int(ExitCode.CONTENT if problems else ExitCode.OK)
    for target, mine, removed in work.lock(produced):
        for case_id in removed:
            echo(f"removed {case_id}: no longer declared")
        echo(_written(mine, target))
    # A slip in an operator's code is the same for many cases.
    for line, times in Counter(problems).items():
        echo_error(f"error: {line}{f' ({times} cases)' if times > 1 else ''}")
    made = len(produced) - len(problems) - len(unwritable)
    if unwritable:
        waiting = len(work.targets) - made - len(problems)
        left = f"{waiting} cases are left; free some space and run the same generate again."
        raise UnwritableError(f"{unwritable[0]} {left}")
    return int(ExitCode.CONTENT if problems else ExitCode.OK)


def _written(produced: "list[Produced]", target: "Target") -> str:
    """What was written to one folder."""
    made = sum(not (item.problem or item.unwritable) for item in produced)
    sizes = [item.written for item in produced if item.written]
    large = pluralize(made - len(sizes), "larger case")
    larger = f"\n{large} only in the lock file, to be made when first run" if len(sizes) < made else ""
    files = f"{pluralize(len(sizes), 'file')} written to {target.folder} ({sum(sizes) / 1e6:.2f} MB)"
    return f"{pluralize(made, 'case')} made, {files}{larger}"


@click.command("verify")
@selection_options
@file_options
@json_option()
def verify(query: Query, roots: tuple[str, ...], strict: bool, allow_outside_paths: bool, form: str) -> int:
    """Recompute every stored baseline from its stored inputs and report differences.

    It also compares every expected status with the answer of the operator's checks.

    Examples:
      mluops-test verify                       the default set
      mluops-test verify --tag network         the network scales
      mluops-test verify my_cases/             files of your own
      mluops-test verify --format json         for programs
    """
    from mluops_gtest.catalog.produce import verify_case
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.cli.echo import echo, print_json
    from mluops_gtest.cli.terminal import stderr, track

    session = Session(roots)
    chosen = session.select(query).cases
    source = session.source(chosen, strict=strict, allow_outside_paths=allow_outside_paths)
    cases: list[dict[str, Any]] = []
    counts: Counter[str] = Counter()
    for selected in track(chosen, len(chosen), stderr()):
        why_not, found = "", []
        try:
            case = source.load(selected.id)
            operator = session.catalogue.operators.get(case.operator)
            if operator is None:
                why_not = f"operator {case.operator!r} is not supported"
            elif not case.baseline_stored:
                why_not = "it stores no baseline (device CPU)"
            else:
                found = verify_case(case, operator)
        except ContentError as error:
            found = [str(error)]
            if isinstance(error, UndefinedCallError) and not strict and selected.draft is None:
                why_not = f"{case.operator} does not define this call: {error.why}"
        verdict = "skipped" if why_not else "differs" if found else "verified"
        reasons = [why_not] if why_not else found
        counts[verdict] += 1
        if form == "json":
            cases.append({"case": selected.id, "verdict": verdict, "reasons": reasons})
        elif reasons:
            echo(f"{verdict} {selected.id}: {'; '.join(reasons)}")
    verified, differing, skipped = (counts[verdict] for verdict in ("verified", "differs", "skipped"))
    if form == "json":
        from mluops_gtest.documents import VERIFY
        from mluops_gtest.results.shapes import fill

        print_json(fill(VERIFY, verified=verified, differing=differing, skipped=skipped, cases=cases))
    else:
        echo(f"{verified} verified, {differing} {'differs' if differing == 1 else 'differ'}, {skipped} skipped")
    if differing:
        return int(ExitCode.CONTENT)
    return int(ExitCode.OK if verified else ExitCode.EMPTY)


_DAY = 86400


@click.group("cache", invoke_without_command=True)
@click.pass_context
def cache(ctx: click.Context) -> None:
    """Show where large cases are cached and how much space they take.

    Cases that are too large to commit, and the cases of --reseed, are made on first use and kept in this folder; so is
    what declarations expand to. Set $MLUOPS_TEST_CACHE to use another folder.

    Examples:
      mluops-test cache                       where the cache is, and what is in it
      mluops-test cache prune                 remove what has not been used for 30 days
      mluops-test cache prune --older-than 0  remove everything
      MLUOPS_TEST_CACHE=/scratch/cases mluops-test run --tag network
    """
    if ctx.invoked_subcommand is not None:
        return
    from mluops_gtest.base.files import cache_folder
    from mluops_gtest.catalog.cache import cache_contents
    from mluops_gtest.cli.terminal import print_page, stdout

    folder = cache_folder()
    print_page(stdout(), _cache_page(folder, cache_contents(folder)))


@cache.command("prune")
@value_option(
    "--older-than days DAYS",
    click.IntRange(0),
    "Only remove cases that were not used for so many days, e.g. --older-than 7; 0 removes all.",
    default=30,
)
def prune_cache(days: int) -> None:
    """Remove cases from the cache; they are made again when needed.

    A run that uses the cache at the same time goes on. Files that mluops-test did not put there stay.

    Examples:
      mluops-test cache prune
      mluops-test cache prune --older-than 7
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


def _cache_page(folder: Path, found: "CacheContents") -> "Iterator[Table | str]":
    """The folder, a row per kind of case, and what else lies there."""
    from mluops_gtest.results.reports.terminal import escape

    yield escape(str(folder))
    if not found.cases:
        yield "empty" if not found.declarations else "no cases"
    else:
        yield _cache_table(found.cases)
    if found.declarations:
        size = size_words(sum(entry.nbytes for entry in found.declarations))
        yield f"expanded declarations: {pluralize(len(found.declarations), 'file')}, {size}"
    if found.abandoned:
        yield f"left by killed runs: {len(found.abandoned)}, to remove them: mluops-test cache prune"
    if found.foreign:
        yield escape(f"not put there by mluops-test: {len(found.foreign)}, e.g. {found.foreign[0]}")


def _cache_table(cases: "list[CachedCase]") -> "Table":
    from mluops_gtest.results.reports.terminal import table_of

    kinds: dict[int | None, list[CachedCase]] = {}
    for case in cases:
        kinds.setdefault(case.seed, []).append(case)
    table = table_of((("values",), {}), (("cases", "size", "last used"), {"justify": "right"}))
    for seed in sorted(kinds, key=lambda one: -1 if one is None else one):
        table.add_row("as declared" if seed is None else f"--reseed {seed}", *_row_figures(kinds[seed]))
    if len(kinds) > 1:
        table.add_row("together", *_row_figures(cases))
    return table


def _row_figures(cases: "list[CachedCase]") -> tuple[str, str, str]:
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
