"""Options that many commands have, apart from those that know cases: a help page needs no more than click."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def together(*decorators: Callable[[Any], Any]) -> Callable[[F], F]:
    """One decorator for these, which stand in the order of the help page."""

    def decorate(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def format_option(*forms: str, words: str = "How to print, e.g. --format json.") -> Callable[[F], F]:
    """--format, by default the first of these, which the command gets as `form`."""
    choice = click.Choice(forms)
    return click.option("--format", "form", type=choice, default=forms[0], show_default=True, help=words)


def lang_option(words: str) -> Callable[[F], F]:
    """--lang."""
    return click.option("--lang", type=click.Choice(["en", "zh"]), default="en", show_default=True, help=words)


coverage_option = click.option(
    "--require-coverage",
    metavar="PERCENT",
    help="Exit 5 unless so many of the selected cases passed or failed, not skipped, e.g. --require-coverage 95%.",
)
# How many processes do the work.
jobs_option = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Use N processes, e.g. -j 2.",
)
