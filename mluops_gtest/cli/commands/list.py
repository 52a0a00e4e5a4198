"""`mluops-test list`, `show`, `ops`: declared cases without their values, one case with them, the known operators."""

import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mluops_gtest.base.errors import ContentError, ExitCode, UsageError
from mluops_gtest.base.files import replace_text
from mluops_gtest.base.text import pluralize, strip_to_line
from mluops_gtest.cli.echo import echo, print_json
from mluops_gtest.cli.options import (
    complete_ids,
    complete_operators,
    file_options,
    flag_option,
    format_option,
    json_option,
    reseed_option,
    root_option,
    selection_options,
    value_option,
)
from mluops_gtest.core.case import Case, CaseDraft, Expect, Query

if TYPE_CHECKING:
    from rich.table import Table

    from mluops_gtest.casefiles.lock import LockEntry
    from mluops_gtest.catalog.operators import Operators
    from mluops_gtest.catalog.selection import Catalogue, Selected, Session
    from mluops_gtest.core.declaration import ParamField
    from mluops_gtest.core.operator import Operator
    from mluops_gtest.core.operator_parts import CApi
    from mluops_gtest.core.tensor import Criterion, Tensor


class Listing:
    """Describes the cases of one selection."""

    def __init__(self, session: "Session", cases: "tuple[Selected, ...]") -> None:
        self._session = session
        self._cases = cases
        self._source = session.source(cases)
        self.broken = 0

    def records(self) -> list[dict[str, Any]]:
        """All cases for programs; of a broken one little but the error."""
        return [self._record(selected) for selected in self._cases]

    def table(self) -> Iterator[str]:
        """All cases for people: lines with aligned columns, plain so that ten thousand cost no layout engine."""
        rows = [("id", "tags", "inputs", "expects"), *map(self._row, self._cases)]
        first, second, third, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
        for row in rows:
            yield f"{row[0]:{first}}  {row[1]:{second}}  {row[2]:{third}}  {row[3]}"

    def _row(self, selected: "Selected") -> tuple[str, str, str, str]:
        tags = ",".join(selected.tags)
        try:
            entry, expect, _ = self._look_up(selected)
        except ContentError as error:
            self.broken += 1
            return selected.id, tags, "", f"error: {error}"
        inputs = " ".join([f"{t['dtype']}{t['dims']}".replace(" ", "") for t in entry.tensors["inputs"]])
        words = expect.status.name + (f" ({expect.check})" if expect.check else "")
        return strip_to_line(selected.id), tags, inputs, strip_to_line(words)

    def _look_up(self, selected: "Selected") -> "tuple[LockEntry, Expect, Case | None]":
        """What the lock says, or would say, of the case; the case itself where it is a file of the user's."""
        from mluops_gtest.casefiles.lock import lock_entry, unfold_entry
        from mluops_gtest.catalog.make import make_case

        draft = selected.draft
        if draft is None:
            case = self._source.load(selected.id)
            return lock_entry(case, ""), case.expect, case
        entry = self._source.lock.get(draft.id)
        if entry is None or entry.declared != draft.digest:
            # Declared or changed since the lock was written: only making it tells its shapes.
            made = self._session.catalogue.typed_cases.get(draft.id)
            made = made or make_case(draft, self._session.catalogue.operators[draft.operator])
            entry = lock_entry(made, draft.digest)
        return unfold_entry(entry, draft, self._source.lock), draft.expect, None

    def _record(self, selected: "Selected") -> dict[str, Any]:
        known = {"id": selected.id, "tags": selected.tags, "doc": selected.draft.doc if selected.draft else ""}
        try:
            entry, expect, case = self._look_up(selected)
            operator = selected.operator if case is None else case.operator
            return known | {
                "operator": operator,
                "params": dict(entry.params),
                "inputs": entry.tensors["inputs"],
                "outputs": entry.tensors["outputs"],
                "criteria": self._criteria(operator, entry, case or selected.draft),
                "expect": describe_expect(expect),
                "stored": case is not None or self._session.catalogue.has_stored(selected.id),
                "error": "",
            }
        except ContentError as error:
            self.broken += 1
            unknown = {"inputs": (), "outputs": (), "criteria": (), "params": {}, "expect": {}, "stored": False}
            return known | unknown | {"operator": selected.operator, "error": str(error)}

    def _criteria(self, operator: str, entry: "LockEntry", of: "Case | CaseDraft | None") -> list[dict[str, Any]]:
        from mluops_gtest.core.tensor import DType

        known = self._session.catalogue.operators.get(operator)
        records = []
        for position, output in enumerate(entry.tensors["outputs"]):
            criteria: tuple[Criterion, ...] | None = ()
            if isinstance(of, Case):
                criteria = of.criteria[position]
            elif of is not None:
                criteria = of.criteria.get(output["id"], ())
            if criteria == () and known is not None:
                types = {one["id"]: DType.named(one["dtype"]) for one in entry.tensors["inputs"]}
                criteria = known.usual_criteria(output["id"], DType.named(output["dtype"]), {**entry.params, **types})
            records += [
                {"output": output["id"], "criterion": c.kind.canonical.value, "threshold": c.threshold}
                for c in criteria or ()
            ]
        return records


def describe_expect(expect: Expect) -> dict[str, Any]:
    """What the case expects, without what it leaves at its default."""
    described: dict[str, Any] = {"status": expect.status.name}
    for name in Expect.__struct_fields__:
        value = getattr(expect, name)
        if name != "status" and value not in (None, False, ()):
            described[name] = list(value) if isinstance(value, tuple) else value
    return described


@click.command("list")
@selection_options
@format_option("table", "json", "ids")
def command(query: Query, roots: tuple[str, ...], form: str) -> int:
    """List declared cases: the default set, or those that you select.

    Examples:
      mluops-test list                               the default set
      mluops-test list --all --format ids            every id, one per line
      mluops-test list --op get_indice_pairs --tag negative
      mluops-test list --tag network --format json   for programs
    """
    from mluops_gtest.catalog.selection import Session

    session = Session(roots)
    cases = session.select(query).cases
    if form == "ids":
        echo("\n".join(strip_to_line(case.id) for case in cases))
        return int(ExitCode.OK)

    listing = Listing(session, cases)
    if form == "json":
        print_json(listing.records())
    else:
        echo("\n".join(listing.table()))
        echo(pluralize(len(cases), "case") + (f", {listing.broken} broken" if listing.broken else ""))
    return int(ExitCode.CONTENT if listing.broken else ExitCode.OK)


_BLOCK = 1 << 18
_LONG = 16


@click.command("show")
@click.argument("case", shell_complete=complete_ids)
@root_option
@reseed_option
@file_options
@json_option()
@click.pass_context
def show(ctx: click.Context, /, roots: tuple[str, ...], case: str, form: str, **reading: Any) -> None:
    """Show one case: tensors with their value ranges, parameters, criteria, expected status, a repro line.

    Examples:
      mluops-test show masked_im2col_forward/edge_top_float
      mluops-test show path/to/case.prototxt
      mluops-test show masked_im2col_forward/edge_top_float --reseed 7
      mluops-test show masked_im2col_forward/edge_top_float --format json
    """
    from mluops_gtest.catalog.root import root_words
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.cli.terminal import stdout, whole_table

    session = Session(roots)
    chosen = session.select_one(case)
    source = session.source((chosen,), **reading)
    loaded = source.load(chosen.id)
    note = "; ".join(filter(None, (chosen.note, chosen.draft.note if chosen.draft else "")))
    operator = session.catalogue.operators.get(loaded.operator)
    is_made = chosen.draft is not None and (loaded.reseeded is not None or not session.catalogue.has_stored(loaded.id))
    options = [*root_words(roots, ctx.obj)]
    if loaded.reseeded is not None:
        options += ["--reseed", str(loaded.reseeded.number)]
    repro = shlex.join(["mluops-test", "run", loaded.id, *options])
    if form == "json":
        print_json(_case_to_json(loaded, operator, note, repro, stored=loaded.baseline_stored and not is_made))
        return
    console = stdout()
    for part in _page(loaded, operator, note, repro, is_made=is_made):
        if isinstance(part, str):
            console.print(part)
        else:
            whole_table(console, part)


def _case_to_json(case: "Case", operator: "Operator | None", note: str, repro: str, *, stored: bool) -> dict[str, Any]:
    """The same for programs."""
    from mluops_gtest.documents import SHOW
    from mluops_gtest.results.shapes import Overlay, fill

    inputs, outputs = (
        [Overlay(one.desc, id=one.id, **(_value_figures(one) or dict.fromkeys(_FIGURES))) for one in tensors]
        for tensors in (case.inputs, case.outputs)
    )
    criteria = [
        {"output": name, "criterion": one.kind.canonical.value, "threshold": one.threshold}
        for name, required in _criteria_of(case, operator).items()
        for one in required or ()
    ]
    own = {"inputs": inputs, "outputs": outputs, "criteria": criteria, "expect": describe_expect(case.expect)}
    return fill(SHOW, case, supported=operator is not None, note=note, repro=repro, stored=stored, **own)


def _criteria_of(case: "Case", operator: "Operator | None") -> "dict[str, tuple[Criterion, ...] | None]":
    """What each output is held to; None: it is not compared."""
    required = {}
    for tensor, criteria in zip(case.outputs, case.criteria, strict=True):
        usual = operator.usual_criteria(tensor.id, tensor.desc.dtype, case.facts) if operator else ()
        required[tensor.id] = criteria if criteria is None else criteria or usual
    return required


def _page(
    case: "Case", operator: "Operator | None", note: str, repro: str, *, is_made: bool
) -> "Iterator[Table | str]":
    """Yields the parts of the page in order."""
    from mluops_gtest.results.reports.terminal import escape, table_of

    support = "" if operator else " (not supported here)"
    yield f"[bold]{escape(case.id)}[/]  operator {escape(case.operator)}{support}"
    tags = case.tags and f"tags: {', '.join(case.tags)}"
    for line in (tags, case.doc, note and f"note: {note}", *(f"notice: {n}" for n in case.notes)):
        if line:
            yield escape(line)
    yield ""
    table = table_of((("tensor", "", "dtype", "layout", "dims"), {}), (_FIGURES, {"justify": "right"}))
    for direction, tensors in (("in", case.inputs), ("out", case.outputs)):
        for tensor in tensors:
            desc = tensor.desc
            dims = str(list(desc.dims)) + (f" strides {list(desc.strides)}" if desc.strides else "")
            facts = (escape(tensor.id), direction, desc.dtype.value, desc.layout.value, escape(dims))
            table.add_row(*facts, *_figures_in_words(tensor))
    yield table
    yield ""
    for name, value in case.params.items():
        yield escape(f"{name} = {_shorten(value)}")
    yield ""
    for name, required in _criteria_of(case, operator).items():
        listed = (f"{one.kind.canonical.value} ≤ {one.threshold:g}" for one in required or ())
        yield escape(f"{name}: {'not compared' if required is None else ', '.join(listed) or 'no criterion'}")
    yield escape("expects: " + ", ".join(f"{key} {value}" for key, value in describe_expect(case.expect).items()))
    made = "made with the case by the reference" if is_made else "stored"
    yield f"baseline: {made if case.baseline_stored else 'recomputed with the reference (device CPU)'}"
    if (reseeded := case.reseeded) is not None:
        words = f"of --reseed {reseeded.number}"
        if reseeded.fixed:
            words = "the same as without --reseed"
        elif reseeded.redraws:
            words += f", draw {reseeded.redraws + 1}: those before missed the case's conditions"
        yield escape(f"values: {words}")
    yield escape(f"repro: {repro}")


_FIGURES = ("min", "max", "mean", "zero", "nonfinite")


def _figures_in_words(tensor: "Tensor") -> tuple[str, ...]:
    """Range and mean, then the shares in percent."""
    figures = _value_figures(tensor)
    if figures is None:
        return ("no values" if tensor.data is None else "", "", "", "", "")
    *amounts, zero, nonfinite = figures.values()
    return (*(f"{figure:.6g}" for figure in amounts), f"{zero:.1%}", f"{nonfinite:.1%}")


def _value_figures(tensor: "Tensor") -> dict[str, float] | None:
    """Range and mean of the finite values, shares of all; in blocks, so that no large tensor is copied to float64."""
    import numpy as np

    dtype = tensor.desc.dtype
    if tensor.data is None or tensor.values.size == 0 or not (dtype.is_float or dtype.is_integer):
        return None
    flat = tensor.values.reshape(-1)
    low, high, total, zeros, finite_count = np.inf, -np.inf, 0.0, 0, 0
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK].astype(np.float64)
        zeros += int(np.count_nonzero(block == 0))
        finite = block[np.isfinite(block)]
        finite_count += finite.size
        if finite.size:
            low, high = min(low, float(finite.min())), max(high, float(finite.max()))
            total += float(finite.sum())
    mean = total / finite_count if finite_count else np.nan
    figures = (low, high, mean, zeros / flat.size, 1 - finite_count / flat.size)
    return dict(zip(_FIGURES, map(float, figures), strict=True))


def _shorten(value: object) -> str:
    if isinstance(value, tuple) and len(value) > _LONG:
        return f"[{', '.join(map(str, value[:_LONG]))}, …] ({len(value)} values)"
    return str(list(value)) if isinstance(value, tuple) else str(value)


_MIN_WIDTH_FOR_SUMMARIES = 110


@click.command("ops")
@click.argument("operator", required=False, shell_complete=complete_operators)
@flag_option("--c as_c", "Print the C prototypes of the operator, or a whole header for all operators.")
@flag_option("--page as_page", "Print the operator's page for readers, in Markdown.")
@value_option("--out", "file", "Write the page there, e.g. --out ball_query.md.")
@json_option()
@root_option
def operators(
    roots: tuple[str, ...], operator: str | None, as_c: bool, as_page: bool, out: Path | None, form: str
) -> None:
    """Show the known operators; with a name, show everything about that operator.

    Examples:
      mluops-test ops                            all known operators
      mluops-test ops dynamic_scatter_backward   one operator: tensors, parameters, ordered checks
      mluops-test ops --format json              everything about each, for programs
      mluops-test ops voxel_pooling_forward --c  its C prototypes
      mluops-test ops --c > my_api.h             a whole header: common types and all operators
      mluops-test ops ball_query --page --out ball_query.md   a page for readers: checks, rulings, network shapes, cases
    """
    from mluops_gtest.catalog.selection import Session

    catalogue = Session(roots).catalogue
    if (as_page and (operator is None or as_c)) or (out is not None and not as_page):
        raise UsageError("Say `ops OPERATOR --page`, with --out FILE where the page is to be written.")
    if form == "json" and (as_page or as_c):
        raise UsageError("--format json is for what `ops` says of operators; leave out --page and --c.")
    if as_page and operator is not None:
        from mluops_gtest.cli.operator_page import operator_page

        page = operator_page(catalogue, catalogue.operators.find(operator))
        if out is None:
            echo(page)
        else:
            replace_text(out, page)
        return
    if as_c:
        echo(_c_declarations(catalogue.operators, operator))
        return
    if form == "json":
        print_json(_operators_to_json(catalogue, operator))
        return
    from mluops_gtest.cli.terminal import stdout, whole_table
    from mluops_gtest.core.operator_parts import C_API
    from mluops_gtest.results.reports.terminal import FOLD, LINE, RIGHT, table_of

    console = stdout()
    if operator is not None:
        known = catalogue.operators.find(operator)
        for part in _operator_page(known, catalogue.operators.part(known.name, C_API) or ()):
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


def _operators_to_json(catalogue: "Catalogue", name: str | None) -> dict[str, Any]:
    from mluops_gtest.cli.operator_page import criteria_in_words
    from mluops_gtest.core.operator_parts import C_API
    from mluops_gtest.documents import OPS
    from mluops_gtest.results.shapes import Overlay, fill

    known, counts = catalogue.operators, Counter(draft.operator for draft in catalogue.drafts.values())
    operators = [
        Overlay(
            one,
            inputs=one.arguments,
            cases=counts[one.name],
            functions=[signature.function.name for signature in known.part(one.name, C_API) or ()],
            outputs=[Overlay(spec, criteria=criteria_in_words(spec)) for spec in one.outputs],
            params=[Overlay(field, type=_param_type(field)) for field in one.param_fields],
            recipes=sorted(one.recipes),
        )
        for one in ([known.find(name)] if name is not None else known.values())
    ]
    return fill(OPS, operators=operators)


def _param_type(field: "ParamField") -> str:
    kind = field.enum.name if field.enum else field.type
    return f"{kind}[]" if field.label == "repeated" else kind


def _c_declarations(operators: "Operators", name: str | None) -> str:
    from mluops_gtest.cli.standalone_c import c_header, c_prototypes, find_c_functions
    from mluops_gtest.core.operator_parts import C_API

    if name is None:
        declared = ((operator, operators.part(operator.name, C_API)) for operator in operators.values())
        return c_header((operator, api) for operator, api in declared if api is not None)
    return c_prototypes(find_c_functions(operators, name))


def _operator_page(operator: "Operator", c_functions: "CApi") -> "Iterator[Table | str]":
    """Yields the parts of the page in order."""
    from mluops_gtest.cli.operator_page import criteria_in_words
    from mluops_gtest.core.declaration import OutputSpec
    from mluops_gtest.results.reports.terminal import FOLD, escape, table_of

    names = "".join(f"{escape(signature.function.name)}, " for signature in c_functions)
    yield f"[bold]{operator.name}[/]  {names}op_name {operator.released_name!r} in files"
    yield f"{escape(operator.summary)}\n"
    table = table_of((("tensor", "", "shape", "dtypes", "layouts", "criteria"), FOLD))
    for spec in operator.tensors:
        direction, criteria = ("out", criteria_in_words(spec)) if isinstance(spec, OutputSpec) else ("in", "")
        direction = "in, or absent" if spec.id in operator.optional else direction
        dtypes, layouts = (", ".join(one.value for one in allowed) for allowed in (spec.dtypes, spec.own_layouts))
        table.add_row(spec.id, direction, escape(spec.shape), dtypes, layouts, criteria)
    yield table
    if not operator.param_fields:
        yield "\nno parameters"
    else:
        table = table_of((("\nparameter", "\ntype", "\ndefault"), FOLD))
        for field in operator.param_fields:
            default = "result" if field.result else "" if field.default is None else str(field.default)
            table.add_row(field.name, escape(_param_type(field)), default)
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
