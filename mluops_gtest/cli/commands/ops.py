"""`mluops-test ops`: the known operators, or all about one: tensors, criteria, parameters, recipes, ordered checks."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from mluops_gtest.cli.echo import echo
from mluops_gtest.cli.options import complete_operators, root_option

if TYPE_CHECKING:
    from rich.table import Table

    from mluops_gtest.catalog.operators import Operators
    from mluops_gtest.core.operator import Operator
    from mluops_gtest.core.operator_parts import CApi

_MIN_WIDTH_FOR_SUMMARIES = 110
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
    from mluops_gtest.core.operator_parts import C_API
    from mluops_gtest.results.reports.terminal import FOLD, LINE, RIGHT, table_of

    console = stdout()
    if operator is not None:
        known = catalogue.operators.find(operator)
        for part in _page(known, catalogue.operators.part(known.name, C_API) or ()):
            console.print(part)
        return
    counts = Counter(draft.operator for draft in catalogue.drafts.values())
    # People copy the names, so they are never cut; the operator's own page has what does not fit here.
    is_wide = console.width >= _MIN_WIDTH_FOR_SUMMARIES
    summary = ("what it does",) if is_wide else ()
    table = table_of((("operator", "in files"), LINE), (("cases", "checks"), RIGHT), (summary, FOLD))
    for known in catalogue.operators.values():
        row = (known.name, known.released_name, str(counts[known.name]), str(len(known.checks)))
        table.add_row(*row, *([known.summary] if is_wide else []))
    if is_wide:
        console.print(table)
    else:
        whole_table(console, table)


def _c_text(operators: "Operators", name: str | None) -> str:
    from mluops_gtest.base.errors import UsageError
    from mluops_gtest.cli.standalone_c import c_header, c_prototypes
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


def _page(operator: "Operator", c_functions: "CApi") -> "Iterator[Table | str]":
    """Yields the parts of the page in order."""
    from mluops_gtest.core.operator import OutputSpec
    from mluops_gtest.results.reports.terminal import FOLD, escape, table_of

    names = "".join(f"{escape(signature.function.name)}, " for signature in c_functions)
    yield f"[bold]{operator.name}[/]  {names}op_name {operator.released_name!r} in files"
    yield f"{escape(operator.summary)}\n"
    table = table_of((("tensor", "", "shape", "dtypes", "layouts", "criteria"), FOLD))
    for spec in operator.tensors:
        by_dtype = spec.criteria if isinstance(spec, OutputSpec) else {}
        criteria = "; ".join(
            f"{dtype.value}: " + ", ".join(f"{c.kind.value} ≤ {c.threshold:g}" for c in required)
            for dtype, required in by_dtype.items()
        )
        direction = "out" if isinstance(spec, OutputSpec) else "in"
        dtypes, layouts = ", ".join(d.value for d in spec.dtypes), ", ".join(layout.value for layout in spec.layouts)
        table.add_row(spec.id, direction, escape(spec.shape), dtypes, layouts, criteria)
    yield table
    if not operator.param_fields:
        yield "\nno parameters"
    else:
        table = table_of((("\nparameter", "\ntype", "\ndefault"), FOLD))
        for field in operator.param_fields:
            kind = field.enum.name if field.enum else field.type
            default = "result" if field.result else "" if field.default is None else str(field.default)
            table.add_row(field.name, escape(f"{kind}[]" if field.label == "repeated" else kind), default)
        yield table
    yield f"recipes: {', '.join(sorted(operator.recipes))}\n"
    table = table_of((("check, in order", "answers", "rule", "document"), FOLD))
    for check in operator.checks:
        message = f"{check.message} (never first: {check.subsumed})" if check.subsumed else check.message
        table.add_row(check.name, check.status.name, escape(message), escape(check.doc))
    yield table
    for function, declared in operator.queries.items():
        words = (f"{name} (open)" if name in declared.silent else name for name in declared.names)
        yield f"\n{escape(function)} checks, in order: {', '.join(words)}"
