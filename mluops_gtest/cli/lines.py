"""Plain lines; without rich, so that commands that print nothing else start fast."""

import click

from mluops_gtest.model.plain_text import plain


def say(line: str) -> None:
    """Print a line, or several, on standard output."""
    click.echo(plain(line))


def complain(line: str) -> None:
    """The same on stderr."""
    click.echo(plain(line), err=True)
