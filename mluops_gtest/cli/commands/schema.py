"""`mluops-test schema`."""

from pathlib import Path

import click

from mluops_gtest.cli.options import root_option

_EPILOG = """\b
Examples:
  mluops-test schema                              the schema of case files
  mluops-test schema mluops_gtest_expect.proto    our extension of it
  mluops-test schema --out proto/                 both, as files for protoc
"""
# Listed here so that --help loads no schema; a test compares the list with the files written.
_FILES = ("mluoptest.proto", "mluops_gtest_expect.proto")


@click.command("schema", epilog=_EPILOG)
@click.argument("file", type=click.Choice(_FILES), default=_FILES[0])
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write both files into this folder instead of printing one, e.g. --out proto.",
)
@root_option
def command(roots: tuple[str, ...], file: str, out: Path | None) -> None:
    """Print the .proto file that describes case files: mluoptest.proto, with the parameters of every known operator.

    With it, protobuf tools of any language can read case files. Cases that expect a status or need a special caller
    have one more field; mluops_gtest_expect.proto declares it.
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
