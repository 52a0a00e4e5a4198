"""Options that several commands share, so that they mean the same everywhere."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from mluops_gtest.model.case import TAGS

F = TypeVar("F", bound=Callable[..., Any])


def root_option(function: F) -> F:
    """--root."""
    return click.option(
        "--root",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        help="A folder with generators/, cases/ and prototxt/ of your own, e.g. --root ../my_operators.",
    )(function)


def selection_options(function: F) -> F:
    """SELECT…, --op, --tag, -k, --all, --root."""
    decorators = [
        click.argument("select", nargs=-1, shell_complete=_complete_ids),
        click.option("--op", "operators", multiple=True, help="Only this operator, e.g. --op get_indice_pairs."),
        click.option(
            "--tag",
            "tags",
            multiple=True,
            help=f"Only cases with this tag, e.g. --tag boundary (several: any of them). Tags: {', '.join(TAGS)}.",
        ),
        click.option(
            "-k",
            "keyword",
            default="",
            help="Only ids or tags that match, e.g. -k 'edge and not half'.",
            metavar="EXPR",
        ),
        click.option("--all", "everything", is_flag=True, help="Every declared case but those tagged undefined."),
        root_option,
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def file_options(function: F) -> F:
    """--strict, --allow-outside-paths: how case files are read."""
    decorators = [
        click.option("--strict", is_flag=True, help="Treat what is merely noted in a case file as an error."),
        click.option(
            "--allow-outside-paths",
            is_flag=True,
            help="Let a case file name data files outside its own folder (only for files you trust).",
        ),
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def _complete_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    from mluops_gtest.cli.session import Session

    try:
        drafts = Session(ctx.params.get("root")).catalogue.drafts
    except Exception:
        return []
    return [case_id for case_id in drafts if case_id.startswith(incomplete)]
