"""`mluops-test verify`."""

import click

from mluops_gtest.base.errors import ContentError, ExitCode, UndefinedCallError
from mluops_gtest.cli.options import file_options, selection_options
from mluops_gtest.core.case import Query

_EPILOG = """\b
Examples:
  mluops-test verify                       the default set
  mluops-test verify --tag network         the network scales
  mluops-test verify my_cases/             files of your own
"""


@click.command("verify", epilog=_EPILOG)
@selection_options
@file_options
def command(query: Query, roots: tuple[str, ...], strict: bool, allow_outside_paths: bool) -> int:
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
