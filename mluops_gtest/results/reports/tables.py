"""Tables in a terminal: no lines, bold heads."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from rich.table import Table

# How the cells of a column stand: broken into lines where there is no room, never broken, or figures.
FOLD: Final[Mapping[str, Any]] = {"overflow": "fold"}
LINE: Final[Mapping[str, Any]] = {"no_wrap": True}
RIGHT: Final[Mapping[str, Any]] = {"justify": "right", "no_wrap": True}


def table_of(*groups: tuple[Iterable[str], Mapping[str, Any]]) -> Table:
    """A table with these columns; those of a group stand alike."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for columns, how in groups:
        for column in columns:
            table.add_column(column, **how)
    return table
