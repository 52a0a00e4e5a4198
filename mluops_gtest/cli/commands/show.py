"""`mluops-test show`."""

import click

from mluops_gtest.cli.options import complete_ids, file_options, reseed_option, root_option

_EPILOG = """\b
Examples:
  mluops-test show masked_im2col_forward/edge_top_float
  mluops-test show path/to/case.prototxt
  mluops-test show masked_im2col_forward/edge_top_float --reseed 7
"""


@click.command("show", epilog=_EPILOG)
@click.argument("case", shell_complete=complete_ids)
@root_option
@reseed_option
@file_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    roots: tuple[str, ...],
    case: str,
    reseed: int | None,
    strict: bool,
    allow_outside_paths: bool,
) -> None:
    """Show one case: tensors with their value ranges, parameters, criteria, expected status, a repro line."""
    from mluops_gtest.catalog.root import root_words
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.cli.pages.case import case_page
    from mluops_gtest.cli.terminal import stdout, whole_table

    session = Session(roots)
    chosen = session.select_one(case)
    source = session.source((chosen,), strict=strict, allow_outside_paths=allow_outside_paths, reseed=reseed)
    loaded = source.load(chosen.id)
    note = chosen.draft.note if chosen.draft else ""
    console = stdout()
    for part in case_page(
        loaded, session.catalogue.operators.get(loaded.operator), note, (*root_words(roots, ctx.obj),)
    ):
        if isinstance(part, str):
            console.print(part)
        else:
            whole_table(console, part)
