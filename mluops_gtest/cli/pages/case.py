"""One case for people: tensors with their value ranges, parameters, criteria, expectation, repro line."""

import shlex
from collections.abc import Iterator

import numpy as np
from rich.table import Table

from mluops_gtest.base.frozen import Value
from mluops_gtest.cli.commands.list import describe_expect
from mluops_gtest.core.case import Case, Reseeded
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.tensor import Array, DType, Tensor
from mluops_gtest.results.reports.tables import table_of
from mluops_gtest.results.reports.text import escape

_BLOCK = 1 << 18
_LONG = 16


class Statistics(Value):
    """Of the finite values; shares are of all elements."""

    low: float
    high: float
    mean: float
    zeros: float
    nonfinite: float


def statistics(values: Array, dtype: DType) -> Statistics | None:
    """In blocks, so that a large tensor is never copied to float64; None where numbers mean nothing."""
    if values.size == 0 or not (dtype.is_float or dtype.is_integer):
        return None
    flat = values.reshape(-1)
    low, high, total, zeros, finite_count = np.inf, -np.inf, 0.0, 0, 0
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK].astype(np.float64)
        zeros += int(np.count_nonzero(block == 0))
        finite = block[np.isfinite(block)]
        finite_count += finite.size
        if finite.size:
            low, high, total = (
                min(low, float(finite.min())),
                max(high, float(finite.max())),
                total + float(finite.sum()),
            )
    mean = total / finite_count if finite_count else np.nan
    return Statistics(low, high, mean, zeros / flat.size, 1 - finite_count / flat.size)


def case_page(case: Case, operator: Operator | None, note: str, roots: tuple[str, ...]) -> Iterator[Table | str]:
    """The parts of the page in order; `roots` are the options that name the roots."""
    yield f"[bold]{escape(case.id)}[/]  operator {escape(case.operator)}" + (
        "" if operator else " (not supported here)"
    )
    if case.tags:
        yield escape(f"tags: {', '.join(case.tags)}")
    for line in (case.doc, note and f"note: {note}", *(f"notice: {n}" for n in case.notes)):
        if line:
            yield escape(line)
    yield ""
    yield _tensor_table(case)
    yield ""
    for name, value in case.params.items():
        yield escape(f"{name} = {_short(value)}")
    yield ""
    for tensor, criteria in zip(case.outputs, case.criteria, strict=True):
        if criteria is None:
            yield escape(f"{tensor.id}: not compared")
            continue
        wanted = criteria or (operator.output(tensor.id).criteria.get(tensor.desc.dtype, ()) if operator else ())
        words = ", ".join(f"{c.kind.canonical.value} ≤ {c.threshold:g}" for c in wanted) or "no criterion"
        yield escape(f"{tensor.id}: {words}")
    expect = describe_expect(case.expect)
    yield escape("expects: " + ", ".join(f"{key} {value}" for key, value in expect.items()))
    yield "baseline: " + ("stored" if case.baseline_stored else "recomputed with the reference (device CPU)")
    options = [*roots]
    if case.reseeded is not None:
        yield escape(f"values: {_values(case.reseeded)}")
        options += ["--reseed", str(case.reseeded.number)]
    yield escape("repro: " + shlex.join(["mluops-test", "run", case.id, *options]))


def _values(reseeded: Reseeded) -> str:
    if reseeded.fixed:
        return "the same as without --reseed"
    again = f", draw {reseeded.redraws + 1}: those before missed the case's conditions" if reseeded.redraws else ""
    return f"of --reseed {reseeded.number}{again}"


def _tensor_table(case: Case) -> Table:
    figures = ("min", "max", "mean", "zero", "nonfinite")
    table = table_of((("tensor", "", "dtype", "layout", "dims"), {}), (figures, {"justify": "right"}))
    for tensor, direction in [(t, "in") for t in case.inputs] + [(t, "out") for t in case.outputs]:
        table.add_row(*_row(tensor, direction))
    return table


def _row(tensor: Tensor, direction: str) -> list[str]:
    desc = tensor.desc
    dims = str(list(desc.dims)) + (f" strides {list(desc.strides)}" if desc.strides else "")
    row = [escape(tensor.id), direction, desc.dtype.value, desc.layout.value, escape(dims)]
    if tensor.data is None:
        return [*row, "no values", "", "", "", ""]
    found = statistics(tensor.values, desc.dtype)
    if found is None:
        return [*row, "", "", "", "", ""]
    return [
        *row,
        f"{found.low:.6g}",
        f"{found.high:.6g}",
        f"{found.mean:.6g}",
        f"{found.zeros:.1%}",
        f"{found.nonfinite:.1%}",
    ]


def _short(value: object) -> str:
    if isinstance(value, tuple) and len(value) > _LONG:
        return f"[{', '.join(map(str, value[:_LONG]))}, …] ({len(value)} values)"
    return str(list(value)) if isinstance(value, tuple) else str(value)
