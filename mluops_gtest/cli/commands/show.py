"""`mluops-test show`: one case with tensors, value ranges, parameters, criteria, expectation and repro line."""

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from mluops_gtest.cli.options import complete_ids, file_options, reseed_option, root_option

if TYPE_CHECKING:
    from rich.table import Table

    from mluops_gtest.core.case import Case
    from mluops_gtest.core.operator import Operator
    from mluops_gtest.core.tensor import Tensor

_EPILOG = """\b
Examples:
  mluops-test show masked_im2col_forward/edge_top_float
  mluops-test show path/to/case.prototxt
  mluops-test show masked_im2col_forward/edge_top_float --reseed 7
"""
_BLOCK = 1 << 18
_LONG = 16


@click.command("show", epilog=_EPILOG)
@click.argument("case", shell_complete=complete_ids)
@root_option
@reseed_option
@file_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    roots: tuple[str, ...],
    case: str,
    reseed: int | None,
    strict: bool,
    allow_outside_paths: bool,
) -> None:
    """Show one case: tensors with their value ranges, parameters, criteria, expected status, a repro line."""
    from mluops_gtest.catalog.root import root_words
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.cli.terminal import stdout, whole_table

    session = Session(roots)
    chosen = session.select_one(case)
    source = session.source((chosen,), strict=strict, allow_outside_paths=allow_outside_paths, reseed=reseed)
    loaded = source.load(chosen.id)
    note = chosen.draft.note if chosen.draft else ""
    console = stdout()
    for part in _page(loaded, session.catalogue.operators.get(loaded.operator), note, root_words(roots, ctx.obj)):
        if isinstance(part, str):
            console.print(part)
        else:
            whole_table(console, part)


def _page(case: "Case", operator: "Operator | None", note: str, root_options: Iterator[str]) -> "Iterator[Table | str]":
    """Yields the parts of the page in order."""
    from mluops_gtest.cli.commands.list import describe_expect
    from mluops_gtest.results.reports.terminal import escape, table_of

    support = "" if operator else " (not supported here)"
    yield f"[bold]{escape(case.id)}[/]  operator {escape(case.operator)}{support}"
    tags = case.tags and f"tags: {', '.join(case.tags)}"
    for line in (tags, case.doc, note and f"note: {note}", *(f"notice: {n}" for n in case.notes)):
        if line:
            yield escape(line)
    yield ""
    figures = ("min", "max", "mean", "zero", "nonfinite")
    table = table_of((("tensor", "", "dtype", "layout", "dims"), {}), (figures, {"justify": "right"}))
    for direction, tensors in (("in", case.inputs), ("out", case.outputs)):
        for tensor in tensors:
            desc = tensor.desc
            dims = str(list(desc.dims)) + (f" strides {list(desc.strides)}" if desc.strides else "")
            facts = (escape(tensor.id), direction, desc.dtype.value, desc.layout.value, escape(dims))
            table.add_row(*facts, *_value_figures(tensor))
    yield table
    yield ""
    for name, value in case.params.items():
        yield escape(f"{name} = {_shorten(value)}")
    yield ""
    for tensor, criteria in zip(case.outputs, case.criteria, strict=True):
        if criteria is None:
            yield escape(f"{tensor.id}: not compared")
            continue
        required = criteria or (operator.output(tensor.id).criteria.get(tensor.desc.dtype, ()) if operator else ())
        words = ", ".join(f"{c.kind.canonical.value} ≤ {c.threshold:g}" for c in required) or "no criterion"
        yield escape(f"{tensor.id}: {words}")
    yield escape("expects: " + ", ".join(f"{key} {value}" for key, value in describe_expect(case.expect).items()))
    yield "baseline: " + ("stored" if case.baseline_stored else "recomputed with the reference (device CPU)")
    options = [*root_options]
    if (reseeded := case.reseeded) is not None:
        words = f"of --reseed {reseeded.number}"
        if reseeded.fixed:
            words = "the same as without --reseed"
        elif reseeded.redraws:
            words += f", draw {reseeded.redraws + 1}: those before missed the case's conditions"
        yield escape(f"values: {words}")
        options += ["--reseed", str(reseeded.number)]
    yield escape("repro: " + shlex.join(["mluops-test", "run", case.id, *options]))


def _value_figures(tensor: "Tensor") -> tuple[str, ...]:
    """Range and mean of the finite values, shares of all; in blocks, so that no large tensor is copied to float64."""
    import numpy as np

    dtype = tensor.desc.dtype
    if tensor.data is None:
        return ("no values", "", "", "", "")
    if tensor.values.size == 0 or not (dtype.is_float or dtype.is_integer):
        return ("",) * 5
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
    shares = (zeros / flat.size, 1 - finite_count / flat.size)
    return (*(f"{figure:.6g}" for figure in (low, high, mean)), *(f"{share:.1%}" for share in shares))


def _shorten(value: object) -> str:
    if isinstance(value, tuple) and len(value) > _LONG:
        return f"[{', '.join(map(str, value[:_LONG]))}, …] ({len(value)} values)"
    return str(list(value)) if isinstance(value, tuple) else str(value)
