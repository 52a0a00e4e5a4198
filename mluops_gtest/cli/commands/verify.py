"""`mluops-test verify`."""

import click

from mluops_gtest.cli.options import file_options, selection_options
from mluops_gtest.errors import ContentError, ExitCode, UndefinedCallError
from mluops_gtest.model.query import Query

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
    from mluops_gtest.api.session import Session
    from mluops_gtest.cli.consoles import stderr, track
    from mluops_gtest.cli.lines import say
    from mluops_gtest.generate.verify import verify_case

    session = Session(roots)
    chosen = session.select(query).cases
    source = session.source(chosen, strict=strict, allow_outside_paths=allow_outside_paths)
    verified = differing = skipped = 0
    for selected in track(chosen, len(chosen), stderr()):
        try:
            case = source.load(selected.id)
            operator = session.catalogue.operators.get(case.operator)
            if operator is None:
                say(f"skipped {selected.id}: operator {case.operator!r} is not supported")
                skipped += 1
                continue
            if not case.baseline_stored:
                say(f"skipped {selected.id}: it stores no baseline (device CPU)")
                skipped += 1
                continue
            found = verify_case(case, operator)
        except ContentError as error:
            if isinstance(error, UndefinedCallError) and not strict and selected.draft is None:
                say(f"skipped {selected.id}: {case.operator} does not define this call: {error.why}")
                skipped += 1
                continue
            found = [str(error)]
        if found:
            differing += 1
            say(f"differs {selected.id}: {'; '.join(found)}")
        else:
            verified += 1
    say(f"{verified} verified, {differing} {'differs' if differing == 1 else 'differ'}, {skipped} skipped")
    if differing:
        return int(ExitCode.CONTENT)
    return int(ExitCode.OK if verified else ExitCode.EMPTY)
