"""`mluops-test list`."""

from pathlib import Path
from typing import Any

import click

from mluops_gtest.cli.options import selection_options

_EPILOG = """\b
Examples:
  mluops-test list                               the default set
  mluops-test list --all --format ids            every id, one a line
  mluops-test list --op get_indice_pairs --tag negative
  mluops-test list --tag network --format json   for programs
"""


@click.command("list", epilog=_EPILOG)
@selection_options
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "ids"]),
    default="table",
    show_default=True,
    help="How to print, e.g. --format json.",
)
def command(root: Path | None, form: str, **selection: Any) -> None:
    """List the declared cases that a selection names."""
    from mluops_gtest.cli.lines import say
    from mluops_gtest.cli.session import Session

    session = Session(root)
    cases = session.select(selection).cases
    if form == "ids":
        say("\n".join(case.id for case in cases))
        return
    from mluops_gtest.cli.listing import Listing

    listing = Listing(session, cases)
    if form == "json":
        import json

        say(json.dumps([listing.describe(case) for case in cases], indent=1, ensure_ascii=False))
        return
    say("\n".join(listing.table()))
    say(f"{len(cases)} cases")
