"""Plain lines on stdout; without rich, so that commands that print nothing else start fast."""

import click


def say(line: str) -> None:
    """One line for whoever asked."""
    click.echo(line)
