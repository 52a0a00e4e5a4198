"""`mluops-test ops`."""

from collections import Counter
from typing import TYPE_CHECKING

import click

from mluops_gtest.cli.echo import echo
from mluops_gtest.cli.options import complete_operators, root_option

if TYPE_CHECKING:
    from mluops_gtest.catalog.operators import Operators

_ROOM_FOR_SUMMARIES = 110
_EPILOG = """\b
Examples:
  mluops-test ops                            all known operators
  mluops-test ops dynamic_scatter_backward   one operator: tensors, parameters, ordered checks
  mluops-test ops voxel_pooling_forward --c  its C prototypes
  mluops-test ops --c > my_api.h             a whole header: common types and all operators
"""


@click.command("ops", epilog=_EPILOG)
@click.argument("operator", required=False, shell_complete=complete_operators)
@click.option(
    "--c", "as_c", is_flag=True, help="Print the C prototypes of the operator, or a whole header for all operators."
)
@root_option
def command(roots: tuple[str, ...], operator: str | None, as_c: bool) -> None:
    """Show the known operators; with a name, show everything about that operator."""
    from mluops_gtest.catalog.selection import Session

    catalogue = Session(roots).catalogue
    if as_c:
        echo(_c_text(catalogue.operators, operator))
        return
    from mluops_gtest.cli.terminal import stdout, whole_table
    from mluops_gtest.results.reports.tables import FOLD, LINE, RIGHT, table_of

    console = stdout()
    if operator is not None:
        from mluops_gtest.cli.pages.operator import operator_page
        from mluops_gtest.core.operator_parts import C_API

        found = catalogue.operators.find(operator)
        for part in operator_page(found, catalogue.operators.part(found.name, C_API) or ()):
            console.print(part)
        return
    counts = Counter(draft.operator for draft in catalogue.drafts.values())
    # People copy the names, so they are never cut; the operator's own page has what does not fit here.
    described = console.width >= _ROOM_FOR_SUMMARIES
    summary = ("what it does",) if described else ()
    table = table_of((("operator", "in files"), LINE), (("cases", "checks"), RIGHT), (summary, FOLD))
    for known in catalogue.operators.values():
        row = (known.name, known.released_name, str(counts[known.name]), str(len(known.checks)))
        table.add_row(*row, *([known.summary] if described else []))
    if described:
        console.print(table)
    else:
        whole_table(console, table)


def _c_text(operators: "Operators", name: str | None) -> str:
    from mluops_gtest.base.errors import UsageError
    from mluops_gtest.cli.standalone.c_file import c_header, c_prototypes
    from mluops_gtest.core.operator_parts import C_API

    if name is None:
        declared = ((operator, operators.part(operator.name, C_API)) for operator in operators.values())
        return c_header((operator, api) for operator, api in declared if api is not None)
    operator = operators.find(name)
    api = operators.part(operator.name, C_API)
    if api is None:
        raise UsageError(
            f"{operator.name} declares no C functions: write them in c_api.py of its folder, "
            f"generators/{operator.name}/ (docs/how-to/add-an-operator.md)."
        )
    return c_prototypes((operator, api))
