"""Consoles that adapt: colours and width on a terminal, plain and unwrapped into a pipe or a file."""

import sys
from collections.abc import Iterable
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mluops_gtest.model.plain_text import plain

_WIDE = 200
_UNLIMITED = 10_000


def whole_table(console: Console, table: Table) -> None:
    """Print a table at its own width: a narrow terminal wraps its lines, but no name or number is cut."""
    before = console.width
    console.width = max(before, console.measure(table, options=console.options.update(max_width=_UNLIMITED)).maximum)
    try:
        console.print(table)
    finally:
        console.width = before


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
        return super().render_str(plain(text), **options)
