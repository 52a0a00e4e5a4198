"""Consoles that adapt: colours and width on a terminal, plain and unwrapped into a pipe or a file."""

import sys
from typing import TextIO

from rich.console import Console

_WIDE = 200


def stdout() -> Console:
    """For what was asked for."""
    return _console(sys.stdout)


def stderr() -> Console:
    """For progress and remarks."""
    return _console(sys.stderr)


def _console(stream: TextIO) -> Console:
    # Into a pipe rich would assume 80 columns and cut tables; nobody counts columns there.
    width = None if stream.isatty() else _WIDE
    return Console(file=stream, width=width, highlight=False, soft_wrap=not stream.isatty())
