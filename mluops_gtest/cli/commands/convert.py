"""`mluops-test convert`, `export` and `schema`: case files for other programs."""

from pathlib import Path
from typing import Any

import click

from mluops_gtest.base.errors import ContentError, ExitCode, NothingSelectedError, UsageError
from mluops_gtest.base.files import BINARY, CASE_SUFFIXES, TEXT
from mluops_gtest.base.text import pluralize
from mluops_gtest.cli.options import (
    file_options,
    flag_option,
    format_option,
    root_option,
    selection_options,
    value_option,
)
from mluops_gtest.core.case import Query


@click.command("convert")
@click.argument("src", type=click.Path(path_type=Path, exists=True))
@click.argument("dst", type=click.Path(path_type=Path))
@value_option(
    "--to form",
    click.Choice(["prototxt", "pb"]),
    "For folders: the format to write, e.g. --to pb.  [default: the other format of each file]",
)
@flag_option("--drop-unknown", "Convert a text file even if unknown fields get lost.")
@root_option
def command(roots: tuple[str, ...], src: Path, dst: Path, form: str | None, drop_unknown: bool) -> int:
    """Convert case files between text (.prototxt) and binary (.pb): a file, or a folder and everything below it.

    Examples:
      mluops-test convert case.prototxt case.pb
      mluops-test convert case.pb case.prototxt
      mluops-test convert my_cases/ binary_cases/ --to pb
    """
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


@click.command("export")
@selection_options
@value_option("--out", "folder", "Write to this new or empty folder, e.g. --out released.", required=True)
@format_option("prototxt", "pb", words="Text or binary files, e.g. --format pb.")
@file_options
def export_cases(query: Query, roots: tuple[str, ...], out: Path, form: str, **reading: Any) -> int:
    """Write cases for the released runner (mluop_gtest).

    Each case becomes OPERATOR/test_case/NAME with only the fields of the schema and the ids input1, …, output1, …;
    index.json lists them. The runner can only compare values, all of them, so cases that expect a status, need a
    special caller or leave rows of an output free are left out and listed with the reason.

    Examples:
      mluops-test export --out released                        the default set
      mluops-test export --op voxel_pooling_forward --tag network --out released --format pb
      mluops-test export my_cases/ --out released              files of your own
    """
    from mluops_gtest.catalog.produce import Export, not_exportable
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.cli.echo import echo, echo_error
    from mluops_gtest.cli.terminal import stderr, track
    from mluops_gtest.version import __version__

    session = Session(roots)
    chosen = session.select(query).cases
    source = session.source(chosen, **reading)
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


# Listed here so that --help loads no schema; a test compares the list with the files written.
_FILES = ("mluoptest.proto", "mluops_gtest_expect.proto")


@click.command("schema")
@click.argument("file", type=click.Choice(_FILES), default=_FILES[0])
@value_option("--out", "folder", "Write both files into this folder instead of printing one, e.g. --out proto.")
@root_option
def schema(roots: tuple[str, ...], file: str, out: Path | None) -> None:
    """Print the .proto file that describes case files: mluoptest.proto, with the parameters of every known operator.

    With it, protobuf tools of any language can read case files. Cases that expect a status or need a special caller
    have one more field; mluops_gtest_expect.proto declares it.

    Examples:
      mluops-test schema                              the schema of case files
      mluops-test schema mluops_gtest_expect.proto    our extension of it
      mluops-test schema --out proto/                 both, as files for protoc
    """
    from mluops_gtest.base.files import replace_file
    from mluops_gtest.casefiles.schema import Schema, proto_files
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.cli.echo import echo

    texts = proto_files(Schema.of(Session(roots).catalogue.operators.values()))
    if out is None:
        echo(texts[file].removesuffix("\n"))
        return
    for name, text in texts.items():
        replace_file(out / name, [text.encode()])
        echo(f"{out / name}")
