"""The page of an operator for its readers, in Markdown: what it computes, what it checks, which cases show what."""

import ast
import io
import tokenize
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from mluops_gtest.catalog.selection import Catalogue
from mluops_gtest.core.case import CaseDraft
from mluops_gtest.core.declaration import CriteriaByParam, OutputSpec, TensorSpec
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.operator_parts import C_API
from mluops_gtest.core.tensor import Criterion, DType
from mluops_gtest.results.reports.markdown_summary import code, table, text


def operator_page(catalogue: Catalogue, operator: Operator) -> str:
    """The whole page."""
    generator, cases = catalogue.operators.files[operator.name], list(catalogue.drafts_of(operator.name).values())
    source, functions = generator.read_text(encoding="utf-8"), catalogue.operators.part(operator.name, C_API) or ()
    names = ", ".join([f"`op_name` {code(operator.released_name)}", *(code(one.function.name) for one in functions)])
    lines = [f"# {operator.name}", "", text(operator.summary), "", f"Names: {names}.", ""]
    document = (ast.get_docstring(ast.parse(source)) or "").partition("\n")[2].strip()
    if document:
        lines += ["## The document", "", "```text", document, "```", ""]
    lines += ["## Tensors", "", *_tensors(operator), "## Parameters", "", *_params(operator)]
    lines += ["## Checks", "", "The first that does not hold answers.", "", *_checks(operator, cases)]
    lines += ["## Rulings", "", *_rulings(operator, source, generator.name), ""]
    shown = [one for one in cases if operator.computes(one.expect.status, one.expect.check)]
    for heading, is_network in (("Network shapes", True), ("Other cases that compute", False)):
        chosen = [one for one in shown if ("network" in one.tags) is is_network]
        lines += [f"## {heading}", "", *(_families(chosen, data=is_network) if chosen else ["None.", ""])]
    return "\n".join(lines)


def _tensors(operator: Operator) -> list[str]:
    rows = []
    specs: tuple[TensorSpec | OutputSpec, ...] = (*operator.inputs, *operator.outputs)
    for spec in specs:
        direction, criteria = ("out", criteria_in_words(spec)) if isinstance(spec, OutputSpec) else ("in", "")
        types, layouts = (", ".join(one.value for one in values) for values in (spec.dtypes, spec.own_layouts))
        rows.append([code(spec.id), direction, code(spec.shape), types, layouts, criteria, "; ".join(_promises(spec))])
    lines = table(["tensor", "", "shape", "types", "layouts", "criteria", "what else holds"], rows)
    axes = ", ".join(f"{code(one.symbol)} {text(name)}" for name, one in operator.axes.items())
    return [*lines, *([f"Sizes: {axes}.", ""] if axes else [])]


def criteria_in_words(spec: OutputSpec) -> str:
    """`float: diff1 ≤ 0.003, diff2 ≤ 0.003; half: …`, by parameter `float: diff3 ≤ 0 with mode 0, … with mode 1; …`."""

    def listed(required: tuple[Criterion, ...], where: str = "") -> str:
        return ", ".join(f"{one.kind.value} ≤ {one.threshold:g}" for one in required) + where

    def in_words(required: tuple[Criterion, ...] | CriteriaByParam) -> str:
        if not isinstance(required, CriteriaByParam):
            return listed(required)
        named = {one.value if isinstance(one, DType) else one: of for one, of in required.criteria.items()}
        return ", ".join(listed(of, f" with {required.param} {one}") for one, of in named.items())

    return "; ".join(f"{dtype.value}: {in_words(required)}" for dtype, required in spec.criteria.items())


def _promises(spec: TensorSpec | OutputSpec) -> Iterator[str]:
    if isinstance(spec, TensorSpec):
        for column, symbol in spec.positions.items():
            outside = f", others are {spec.outside}" if spec.outside else ""
            yield f"{'values' if column is None else f'column {column}'}: positions along {code(symbol)}{outside}"
        if spec.optional:
            yield "a call may lack it"
        if spec.becomes:
            yield f"what {code(spec.becomes)} holds before the call"
        return
    if spec.may_stay is not None:
        yield "may stay as it was, or is written"
    if spec.preset is not None:
        yield f"preset to {spec.preset}" + (", some rows stay so" if spec.kept is not None else "")
    if spec.rows_owned is not None:
        yield f"the first {code(spec.rows_owned)} rows are written"


def _params(operator: Operator) -> list[str]:
    rows = []
    for field in operator.param_fields:
        kind = (field.enum.name if field.enum else field.type) + "[]" * (field.label == "repeated")
        default = "a result of the call" if field.result else "" if field.default is None else str(field.default)
        rows.append([code(field.name), kind, default, field.limits_in_words])
    return table(["parameter", "type", "default", "limits"], rows) if rows else ["None.", ""]


def _checks(operator: Operator, cases: Sequence[CaseDraft]) -> Iterator[str]:
    rows = []
    for number, check in enumerate(operator.checks, 1):
        found = [one.id.partition("/")[2] for one in cases if one.expect.check == check.name]
        shown = f"{code(found[0])}{f' and {len(found) - 1} more' if found[1:] else ''}" if found else "–"
        rows.append([str(number), code(check.name), check.status.name, text(check.message), text(check.doc), shown])
    yield from table(["", "check", "answers", "rule", "document", "cases"], rows, right=[0])
    for function, declared in operator.queries.items():
        yield from (f"{code(function)} checks, in order: {', '.join(map(code, declared.names))}.", "")


# What a comment names that says how the page reads its document, or what the document leaves open.
_SOURCES: Final = ("§", "header", "released")


def _rulings(operator: Operator, source: str, file: str) -> Iterator[str]:
    """What the page of the operator says of sections in its comments, what no call reaches, what stays open."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [(one.start[0], one.string.lstrip("# ")) for one in tokens if one.type == tokenize.COMMENT]
    # Comments on neighbouring lines are one.
    for _, block in groupby(enumerate(comments), key=lambda one: one[1][0] - one[0]):
        lines = [comment for _, comment in block]
        words = " ".join(line for _, line in lines)
        if any(source in words for source in _SOURCES) and len(words.split()) > 2:
            yield f"- {text(words)} ({file}:{lines[0][0]})"
    for name, reason in operator.subsumed.items():
        yield f"- {code(name)} never answers first: {text(reason)}."
    for tag, find in operator.left_open.items():
        yield f"- left open, in cases tagged {code(tag)}: {text((find.__doc__ or '').partition(';')[0])}."


def _families(drafts: Sequence[CaseDraft], *, data: bool) -> list[str]:
    """A row per entry of the declarations; with `data` a row per case, and what it is made from."""
    rows = []
    for _, group in groupby(drafts, key=lambda one: one.id if data else one.where):
        first, *more = group
        name = first.id.partition("/")[2]
        made = ", ".join(f"{key} {value}" for key, value in {**first.params, **first.args}.items())
        count = f" and {len(more)} more" if more else ""
        rows.append([code(name) + count, text(made) if data else ", ".join(first.tags), text(first.doc)])
    return table(["case", "made from" if data else "tags", "shows"], rows)
