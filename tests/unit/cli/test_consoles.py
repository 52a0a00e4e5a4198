"""Tables without colours are laid out by ourselves, since rich takes a millisecond per row: they must look the same."""

import contextlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table

from mluops_gtest.cli.terminal import stdout, whole_table
from mluops_gtest.results.reports.terminal import escape

CELLS = st.one_of(
    st.text("ab [](){}/\\x1b中é△", max_size=9).map(escape),
    st.sampled_from(["", "[green]passed[/]", "[bold red]×4[/]", "-1.5"]),
)


def printed(table, how):
    with contextlib.redirect_stdout(io.StringIO()) as text:
        how(stdout(), table)
    return text.getvalue()


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=5))
def test_a_table_looks_as_rich_lays_it_out(rows):
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("case", overflow="fold")
    table.add_column("中文", justify="right", no_wrap=True)
    table.add_column("")
    for row in rows:
        table.add_row(*row)
    assert printed(table, whole_table) == printed(table, Console.print)


@pytest.mark.parametrize("cell", ["two\nlines", "a\ttab", Table("inner")])
def test_what_is_more_than_a_plain_cell_is_left_to_rich(cell):
    table = Table("head", box=None, pad_edge=False)
    table.add_row(cell)
    assert printed(table, whole_table) == printed(table, Console.print)
