"""`mluops-test generate` and `mluops-test verify`: cases made, and their baselines computed again."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mluops_gtest.base.errors import ContentError, ExitCode, UndefinedCallError, UnwritableError
from mluops_gtest.base.text import pluralize
from mluops_gtest.cli.options import file_options, format_option, jobs_option, selection_options
from mluops_gtest.core.case import Query

if TYPE_CHECKING:
    from mluops_gtest.catalog.produce import Produced, Target

_GENERATE_EPILOG = """\b
Examples:
  mluops-test generate --all                        the whole content of this checkout, lock file included
  mluops-test generate --all --check -j 2           are the stored cases still what generate makes?
  mluops-test generate --op voxel_pooling_forward --out /tmp/cases --format pb
  mluops-test generate masked_im2col_forward/edge_top_float
"""


@click.command("generate", epilog=_GENERATE_EPILOG)
@selection_options
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write every selected case there, large ones too, e.g. --out cases.  "
    "[default: prototxt/ in the root of each operator]",
)
@format_option("prototxt", "pb", words="Text or binary files, e.g. --format pb.")
@jobs_option
@click.option("--check", is_flag=True, help="Write nothing; compare with the stored files and the lock file.")
def command(query: Query, roots: tuple[str, ...], out: Path | None, form: str, jobs: int, check: bool) -> int:
    """Make cases: the recipes make the inputs, the references make the baselines.

    It writes case files of up to 64 KB into prototxt/OPERATOR/ of the operator's root, and a line per case into the
    baselines.lock beside them.
    Larger cases are made when they are first run, and kept in the cache. With --out it writes every selected case to
    that folder instead.
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


_VERIFY_EPILOG = """\b
Examples:
  mluops-test verify                       the default set
  mluops-test verify --tag network         the network scales
  mluops-test verify my_cases/             files of your own
"""


@click.command("verify", epilog=_VERIFY_EPILOG)
@selection_options
@file_options
def verify(query: Query, roots: tuple[str, ...], strict: bool, allow_outside_paths: bool) -> int:
    """Recompute every stored baseline from its stored inputs and report differences.

    It also compares every expected status with the answer of the operator's checks.
    """
    from mluops_gtest.catalog.produce import verify_case
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.cli.echo import echo
    from mluops_gtest.cli.terminal import stderr, track

    session = Session(roots)
    chosen = session.select(query).cases
    source = session.source(chosen, strict=strict, allow_outside_paths=allow_outside_paths)
    verified = differing = skipped = 0
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
        if why_not:
            skipped += 1
            echo(f"skipped {selected.id}: {why_not}")
        elif found:
            differing += 1
            echo(f"differs {selected.id}: {'; '.join(found)}")
        else:
            verified += 1
    echo(f"{verified} verified, {differing} {'differs' if differing == 1 else 'differ'}, {skipped} skipped")
    if differing:
        return int(ExitCode.CONTENT)
    return int(ExitCode.OK if verified else ExitCode.EMPTY)
