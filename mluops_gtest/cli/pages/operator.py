"""All about one operator for people: tensors, criteria, parameters, recipes, ordered checks."""

from collections.abc import Iterator

from rich.table import Table

from mluops_gtest.core.operator import Operator, OutputSpec
from mluops_gtest.core.operator_parts import CApi
from mluops_gtest.results.reports.tables import FOLD, table_of
from mluops_gtest.results.reports.text import escape


def operator_page(operator: Operator, c_functions: CApi) -> Iterator[Table | str]:
    """The parts of the page in order."""
    names = "".join(f"{escape(signature.function.name)}, " for signature in c_functions)
    yield f"[bold]{operator.name}[/]  {names}op_name {operator.released_name!r} in files"
    yield f"{escape(operator.summary)}\n"
    yield _tensors(operator)
    yield _params(operator)
    yield f"recipes: {', '.join(sorted(operator.recipes))}\n"
    yield _checks(operator)
    for function, declared in operator.queries.items():
        words = (f"{name} (open)" if name in declared.silent else name for name in declared.names)
        yield f"\n{escape(function)} checks, in order: {', '.join(words)}"


def _tensors(operator: Operator) -> Table:
    table = table_of((("tensor", "", "shape", "dtypes", "layouts", "criteria"), FOLD))
    for spec in operator.tensors:
        criteria = "; ".join(
            f"{dtype.value}: " + ", ".join(f"{c.kind.value} ≤ {c.threshold:g}" for c in wanted)
            for dtype, wanted in (spec.criteria.items() if isinstance(spec, OutputSpec) else ())
        )
        direction = "out" if isinstance(spec, OutputSpec) else "in"
        dtypes, layouts = ", ".join(d.value for d in spec.dtypes), ", ".join(layout.value for layout in spec.layouts)
        table.add_row(spec.id, direction, escape(spec.shape), dtypes, layouts, criteria)
    return table


def _params(operator: Operator) -> Table | str:
    if not operator.param_fields:
        return "\nno parameters"
    table = table_of((("\nparameter", "\ntype", "\ndefault"), FOLD))
    for field in operator.param_fields:
        kind = field.enum.name if field.enum else field.type
        words = f"{kind}[]" if field.label == "repeated" else kind
        default = "result" if field.result else "" if field.default is None else str(field.default)
        table.add_row(field.name, escape(words), default)
    return table


def _checks(operator: Operator) -> Table:
    table = table_of((("check, in order", "answers", "rule", "document"), FOLD))
    for check in operator.checks:
        message = f"{check.message} (never first: {check.subsumed})" if check.subsumed else check.message
        table.add_row(check.name, check.status.name, escape(message), escape(check.doc))
    return table
