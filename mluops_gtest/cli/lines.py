"""Plain lines on stdout; without rich, so that commands that print nothing else start fast."""

import os
import sys

import click


def say(line: str) -> None:
    """One line, whether or not anybody still reads (`| head`): the work and its exit code still count."""
    try:
        click.echo(line)
    except BrokenPipeError:
        deafen(sys.stdout.fileno())


def deafen(descriptor: int) -> None:
    """Let everything written from now on disappear."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), descriptor)
