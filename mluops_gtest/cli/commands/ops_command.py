"""`mluops-test ops`."""

from collections import Counter

import click

from mluops_gtest.cli.options import complete_operators, root_option

_ROOM_FOR_SUMMARIES = 110
_EPILOG = """\b
Examples:
  mluops-test ops                           what is known
  mluops-test ops dynamic_scatter_backward  one operator: tensors, parameters, ordered checks
"""


@click.command("ops", epilog=_EPILOG)
@click.argument("operator", required=False, shell_complete=complete_operators)
@root_option
def command(roots: tuple[str, ...], operator: str | None) -> None:
    """Show the operators that are known; with a name, everything about one."""
    from rich.table import Table

    from mluops_gtest.cli.consoles import stdout, whole_table
    from mluops_gtest.cli.session import Session

    catalogue = Session(roots).catalogue
    console = stdout()
    if operator is not None:
        from mluops_gtest.cli.operator_page import operator_page

        for part in operator_page(catalogue.operators.find(operator)):
            console.print(part)
        return
    counts = Counter(draft.operator for draft in catalogue.drafts.values())
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("operator", "in files", "cases", "checks"):
        table.add_column(column, justify="right" if column in ("cases", "checks") else "left", no_wrap=True)
    # The names are there to be typed, so they are never cut; what there is no room for is said on the operator's page.
    described = console.width >= _ROOM_FOR_SUMMARIES
    if described:
        table.add_column("what it does", overflow="fold")
    for known in catalogue.operators.values():
        row = (known.name, known.released_name, str(counts[known.name]), str(len(known.checks)))
        table.add_row(*row, *([known.summary] if described else []))
    if described:
        console.print(table)
    else:
        whole_table(console, table)
