"""`mluops-test convert`."""

from pathlib import Path

import click

from mluops_gtest.base.errors import ContentError, ExitCode, NothingSelectedError, UsageError
from mluops_gtest.base.files import BINARY, CASE_SUFFIXES, TEXT
from mluops_gtest.base.text import pluralize
from mluops_gtest.cli.options import root_option

_EPILOG = """\b
Examples:
  mluops-test convert case.prototxt case.pb
  mluops-test convert case.pb case.prototxt
  mluops-test convert my_cases/ binary_cases/ --to pb
"""


@click.command("convert", epilog=_EPILOG)
@click.argument("src", type=click.Path(path_type=Path, exists=True))
@click.argument("dst", type=click.Path(path_type=Path))
@click.option(
    "--to",
    "form",
    type=click.Choice(["prototxt", "pb"]),
    help="For folders: the format to write, e.g. --to pb.  [default: the other format of each file]",
)
@click.option("--drop-unknown", is_flag=True, help="Convert a text file even if unknown fields get lost.")
@root_option
def command(roots: tuple[str, ...], src: Path, dst: Path, form: str | None, drop_unknown: bool) -> int:
    """Convert case files between text (.prototxt) and binary (.pb): a file, or a folder and everything below it."""
    from mluops_gtest.base.files import place_below
    from mluops_gtest.casefiles.files import convert
    from mluops_gtest.casefiles.schema import Schema
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.cli.echo import echo, echo_error

    catalogue = Session(roots).catalogue
    schema = Schema.of(catalogue.operators.values())
    if src.is_file():
        if dst.is_dir():
            dst = dst / src.with_suffix(_target_suffix(src, form)).name
        if dst.suffix not in CASE_SUFFIXES:
            raise UsageError(f"{dst}: the name must end in {TEXT} or {BINARY}.")
        pairs = [(src, dst)]
    else:
        files = sorted(p for p in src.rglob("*") if p.suffix in CASE_SUFFIXES and p.is_file())
        if not files:
            raise NothingSelectedError(f"{src}: no {TEXT} or {BINARY} file in that folder.")
        pairs = [(p, (dst / p.relative_to(src)).with_suffix(_target_suffix(p, form))) for p in files]
    sources: dict[Path, Path] = {}
    for source, target in pairs:
        if target in sources:
            raise UsageError(f"{sources[target]} and {source} would both become {target}; convert them separately.")
        sources[target] = source
    failed = 0
    for source, target in pairs:
        try:
            if target != dst:
                place_below(dst, target.relative_to(dst))
            draft = catalogue.draft_of(source)
            degenerate = None if draft is None else draft.expect.degenerate
            dropped = convert(source, target, schema, drop_unknown=drop_unknown, degenerate=degenerate)
        except ContentError as error:
            failed += 1
            echo_error(f"error: {error}")
        else:
            for item in dropped:
                echo_error(f"dropped from {source}: {item}")
    echo(f"{pluralize(len(pairs) - failed, 'file')} converted" + (f", {failed} refused" if failed else ""))
    return int(ExitCode.CONTENT if failed else ExitCode.OK)


def _target_suffix(source: Path, form: str | None) -> str:
    if form:
        return f".{form}"
    return BINARY if source.suffix == TEXT else TEXT
