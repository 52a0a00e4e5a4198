"""Got against expected for people: the worst elements of every output in a table, and a map of where they are."""

from collections.abc import Iterator

import numpy as np
from rich.table import Table

from mluops_gtest.core.reasons.english import share_words
from mluops_gtest.core.result import CaseResult, Profile
from mluops_gtest.core.tensor import Array, DType
from mluops_gtest.judging.blocks import value_text
from mluops_gtest.judging.criteria import allowed_error, compare, count_beyond, worst_elements
from mluops_gtest.judging.profile import profile_of
from mluops_gtest.results.reports.tables import LINE, RIGHT, table_of
from mluops_gtest.results.reports.terminal import failure_lines
from mluops_gtest.results.reports.text import escape
from mluops_gtest.results.saved_outputs import CaseOutputs, OutputPair

_MAX_ROWS = 16
_MAX_COLUMNS = 64
# What stands beside the cells of the map.
_MARGIN = 14
_EQUAL, _LOST = "·", "!"
# The largest relative error of a cell, below so much, its sign and its colour.
_SIGNS = ((1e-6, "-", "green"), (1e-4, "=", "green"), (1e-2, "+", "yellow"), (1.0, "*", "red"), (np.inf, "#", "red"))


def verdict_lines(result: CaseResult) -> Iterator[str]:
    """What the case came to; a failure as a run tells it, without a repro line."""
    if result.outcome.blocks:
        yield from (line for line in failure_lines(result, verbose=False) if not line.startswith("  repro:"))
    else:
        reason = f": {escape(result.reason)}" if result.reason else ""
        yield f"[{result.outcome.tone.terminal}]{result.outcome.value}[/] [bold]{escape(result.case)}[/]{reason}"


def diff_page(outputs: CaseOutputs, number: int, width: int) -> Iterator[Table | str]:
    """Every output that is compared, in its order; below the last map what its signs mean."""
    differing = False
    for pair in outputs.pairs():
        yield ""
        parts = list(_output(pair, number, width - _MARGIN))
        differing = differing or len(parts) > 1
        yield from parts
    if differing:
        steps = "  ".join(f"{sign} < {limit:g}" if np.isfinite(limit) else f"{sign} ≥ 1" for limit, sign, _ in _SIGNS)
        yield f"\nmaps: on the left the flat index; {_EQUAL} equal  {steps}  {_LOST} NaN or infinite"


def _output(pair: OutputPair, number: int, width: int) -> Iterator[Table | str]:
    got, expected = np.ascontiguousarray(pair.got), np.ascontiguousarray(pair.expected)
    desc = pair.tensor.desc
    rows = f", its first {len(got)} rows" if got.shape != desc.dims else ""
    head = f"[bold]{escape(f'{pair.tensor.id}{list(desc.dims)} {desc.dtype.value}{rows}')}[/]"
    comparison = compare(got, expected, desc.dtype, [criterion.kind for criterion in pair.criteria])
    profile = profile_of(pair.tensor.id, got, expected, desc.dtype, (_MAX_ROWS, max(8, min(_MAX_COLUMNS, width))))
    if profile is None:
        bits = f" ({comparison.bits_unequal} differ in their bits)" if comparison.bits_unequal else ""
        yield f"{head}: [green]all elements are equal[/]{bits}"
        return
    threshold = allowed_error(pair.criteria)
    beyond = count_beyond(got, expected, desc.dtype, threshold) if threshold else comparison.unequal
    share = share_words(
        beyond, comparison.unequal, comparison.bits_unequal, comparison.compared, equality=threshold == 0
    )
    yield f"{head}: {escape(share)}"
    yield _worst(got, expected, desc.dtype, number)
    yield from _map(profile, got)


def _worst(got: Array, expected: Array, dtype: DType, number: int) -> Table:
    table = table_of((("index",), LINE), (("flat", "got", "expected", "error", "relative"), RIGHT))
    for element in worst_elements(got, expected, dtype, number):
        index = tuple(int(i) for i in np.unravel_index(element.flat, got.shape))
        values = [value_text(side[index], dtype) for side in (got, expected)]
        figures = [f"{element.error:.4g}", f"{element.scaled:.4g}"]
        table.add_row(escape(str(list(index))), str(element.flat), *values, *figures)
    return table


def _map(profile: Profile, got: Array) -> Iterator[str]:
    across = profile.width or (got.shape[-1] if got.shape else 1)
    down = -(-got.size // across)
    yield f"largest relative error per cell, {across} elements from left to right:"
    for row in range(profile.rows):
        cells = profile.cells[row * profile.columns : (row + 1) * profile.columns]
        first = -(-row * down // profile.rows) * across
        # The last line of a folded output may end before the others.
        there = [first - (-column * across // profile.columns) < got.size for column in range(profile.columns)]
        yield f"{first:>12}  {''.join(_sign(cell) for cell, exists in zip(cells, there, strict=True) if exists)}"


def _sign(error: float) -> str:
    if error == 0:
        return _EQUAL
    if not np.isfinite(error):
        return f"[red]{_LOST}[/]"
    return next(f"[{colour}]{sign}[/]" for limit, sign, colour in _SIGNS if error < limit)
