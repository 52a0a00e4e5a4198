"""Consoles that adapt: colours and width on a terminal, plain and unwrapped into a pipe or a file."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO, TypeVar

from rich.cells import cell_len
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from mluops_gtest.base.text import strip_controls

T = TypeVar("T")


def track(items: Iterable[T], total: int, console: Console) -> Iterator[T]:
    """The items, with a bar on a terminal and nothing elsewhere."""
    if not console.is_terminal:  # where even a disabled bar of older rich ends with an empty line
        yield from items
        return
    with Progress(console=console, transient=True) as progress:
        yield from progress.track(items, total=total)


_WIDE = 200
_UNLIMITED = 10_000


def whole_table(console: Console, table: Table) -> None:
    """Print a table at its own width: a narrow terminal wraps its lines, but no name or number is cut."""
    lines = _plain_lines(console, table) if console.color_system is None else None
    if lines is not None:
        console.file.writelines(lines)
        return
    before = console.width
    console.width = max(before, console.measure(table, options=console.options.update(max_width=_UNLIMITED)).maximum)
    try:
        console.print(table)
    finally:
        console.width = before


def _plain_lines(console: Console, table: Table) -> Iterator[str] | None:
    """The lines that rich prints without colours, but many times faster; None for a table of more than plain cells."""
    known: dict[str, str] = {}

    def shown(cell: Any) -> str:
        if cell not in known:
            known[cell] = console.render_str(cell).plain if "[" in cell or not cell.isprintable() else cell
        return known[cell]

    columns = [[column.header, *column.cells] for column in table.columns]
    if table.box is not None or table.pad_edge or table.title or table.caption or not table.show_header:
        return None
    if not all(isinstance(cell, str) for column in columns for cell in column):
        return None
    texts = [[shown(cell) for cell in column] for column in columns]
    if not all(text.isprintable() for text in known.values()):
        return None
    padded = [_padded(column, right=kind.justify == "right") for column, kind in zip(texts, table.columns, strict=True)]
    return ("  ".join(cells) + "\n" for cells in zip(*padded, strict=True))


def _padded(cells: Sequence[str], *, right: bool) -> Iterator[str]:
    width = max(map(_width, cells))
    for cell in cells:
        # At the right edge rich has no spaces of the cell's own.
        text = cell.rstrip() if right else cell
        room = " " * (width - _width(text))
        yield room + text if right else text + room


def _width(cell: str) -> int:
    return len(cell) if cell.isascii() else cell_len(cell)


def print_page(console: Console, parts: Iterable[Table | str]) -> None:
    """Print lines and tables one below the other, nothing cut."""
    for part in parts:
        if isinstance(part, Table):
            whole_table(console, part)
        else:
            console.print(part, soft_wrap=True)


def stdout() -> Console:
    """For the output that the user asked for."""
    return _console(sys.stdout)


def stderr() -> Console:
    """For progress and remarks."""
    return _console(sys.stderr)


def _console(stream: TextIO) -> Console:
    # In a pipe rich would assume 80 columns and cut tables, where width does not matter.
    width = None if stream.isatty() else _WIDE
    return _Console(file=stream, width=width, highlight=False, emoji=False, soft_wrap=not stream.isatty())


class _Console(Console):
    """Prints no control characters except those of its own colours."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Every printed string passes through here, table cells included."""
        return super().render_str(strip_controls(text), **options)
