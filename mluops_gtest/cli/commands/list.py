"""`mluops-test list`."""

import click

from mluops_gtest.cli.options import selection_options
from mluops_gtest.cli.plain_options import format_option
from mluops_gtest.errors import ExitCode
from mluops_gtest.model.counted import counted
from mluops_gtest.model.query import Query

_EPILOG = """\b
Examples:
  mluops-test list                               the default set
  mluops-test list --all --format ids            every id, one per line
  mluops-test list --op get_indice_pairs --tag negative
  mluops-test list --tag network --format json   for programs
"""


@click.command("list", epilog=_EPILOG)
@selection_options
@format_option("table", "json", "ids")
def command(query: Query, roots: tuple[str, ...], form: str) -> int:
    """List declared cases: the default set, or those that you select."""
    from mluops_gtest.api.session import Session
    from mluops_gtest.cli.lines import say
    from mluops_gtest.model.plain_text import plain_line

    session = Session(roots)
    cases = session.select(query).cases
    if form == "ids":
        say("\n".join(plain_line(case.id) for case in cases))
        return int(ExitCode.OK)
    from mluops_gtest.cli.listing import Listing

    listing = Listing(session, cases)
    if form == "json":
        import json

        say(json.dumps([listing.describe(case) for case in cases], indent=1, ensure_ascii=False))
    else:
        say("\n".join(listing.table()))
        say(counted(len(cases), "case") + (f", {listing.broken} broken" if listing.broken else ""))
    return int(ExitCode.CONTENT if listing.broken else ExitCode.OK)
