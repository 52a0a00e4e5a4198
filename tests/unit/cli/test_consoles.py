"""Tables without colours are laid out by ourselves, since rich takes a millisecond per row: they must look the same."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

from mluops_gtest.cli import terminal as consoles
from mluops_gtest.results.reports.terminal import escape

CELLS = st.one_of(
    st.text("ab [](){}/\\x1b中é△", max_size=9).map(escape),
    st.sampled_from(["", "[green]passed[/]", "[bold red]×4[/]", "-1.5"]),
)


def printed(table):
    text = io.StringIO()
    consoles.whole_table(consoles._console(text), table)
    return text.getvalue()


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=5))
def test_a_table_looks_as_rich_lays_it_out(rows):
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("case", overflow="fold")
    table.add_column("中文", justify="right", no_wrap=True)
    table.add_column("")
    for row in rows:
        table.add_row(*row)
    quick = printed(table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consoles, "_plain_lines", lambda *_: None)
        assert quick == printed(table)


@pytest.mark.parametrize("cell", ["two\nlines", "a\ttab", Table()])
def test_what_is_more_than_a_plain_cell_is_left_to_rich(cell):
    table = Table("head", box=None, pad_edge=False)
    table.add_row(cell)
    assert consoles._plain_lines(consoles._console(io.StringIO()), table) is None
