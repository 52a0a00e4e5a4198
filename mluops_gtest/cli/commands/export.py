"""`mluops-test export`."""

from pathlib import Path

import click

from mluops_gtest.base.errors import ContentError, ExitCode
from mluops_gtest.base.text import pluralize
from mluops_gtest.cli.options import file_options, format_option, selection_options
from mluops_gtest.core.case import Query

_EPILOG = """\b
Examples:
  mluops-test export --out released                        the default set
  mluops-test export --op voxel_pooling_forward --tag network --out released --format pb
  mluops-test export my_cases/ --out released              files of your own
"""


@click.command("export", epilog=_EPILOG)
@selection_options
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Write to this new or empty folder, e.g. --out released.",
)
@format_option("prototxt", "pb", words="Text or binary files, e.g. --format pb.")
@file_options
def command(query: Query, roots: tuple[str, ...], out: Path, form: str, strict: bool, allow_outside_paths: bool) -> int:
    """Write cases for the released runner (mluop_gtest).

    Each case becomes OPERATOR/test_case/NAME with only the fields of the schema and the ids input1, …, output1, …;
    index.json lists them. The runner can only compare values, all of them, so cases that expect a status, need a
    special caller or leave rows of an output free are left out and listed with the reason.
    """
    from mluops_gtest.catalog.produce import Export, not_exportable
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.cli.echo import echo, echo_error
    from mluops_gtest.cli.terminal import stderr, track
    from mluops_gtest.version import __version__

    session = Session(roots)
    chosen = session.select(query).cases
    source = session.source(chosen, strict=strict, allow_outside_paths=allow_outside_paths)
    export = Export(out, f".{form}", source.schema)
    broken = 0
    for selected in track(chosen, len(chosen), stderr()):
        try:
            case = source.load(selected.id)
            operator = session.catalogue.operators.get(case.operator)
            reason = not_exportable(case, operator)
            if operator is not None and not reason:
                export.add(case, operator, Path(selected.id).name if selected.path is None else selected.path.stem)
                continue
            echo(f"left out {selected.id}: {reason}")
        except ContentError as error:
            broken += 1
            reason = str(error)
            echo_error(f"error: {reason}")
        export.left_out.append({"id": selected.id, "reason": reason})
    export.write_index(__version__)
    left_out = len(export.left_out) - broken
    cases = pluralize(len(export.written), "case")
    echo(f"{cases} written to {out}, {left_out} left out" + (f", {broken} broken" if broken else ""))
    if broken:
        return int(ExitCode.CONTENT)
    return int(ExitCode.OK if export.written else ExitCode.EMPTY)
