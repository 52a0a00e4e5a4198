"""`mluops-test compare`."""

from pathlib import Path

import click

from mluops_gtest.cli.plain_options import format_option
from mluops_gtest.errors import ExitCode
from mluops_gtest.garbage import no_garbage_collection

_EPILOG = """\b
Examples:
  mluops-test compare results-numpy results-mlu         what differs between two backends
  mluops-test compare before after --all                every case with readings and times
  mluops-test compare before after --gate               exit 1 when a case is worse in `after`
  mluops-test compare before after --format json        for programs
"""


@click.command("compare", epilog=_EPILOG)
@click.argument("before", metavar="A", type=click.Path(path_type=Path, exists=True))
@click.argument("after", metavar="B", type=click.Path(path_type=Path, exists=True))
@click.option("--all", "everything", is_flag=True, help="Also show the cases that differ only in time.")
@click.option("--gate", is_flag=True, help="Exit 1 when a case of A is missing in B or has a worse outcome there.")
@format_option("table", "json")
@no_garbage_collection()
def command(before: Path, after: Path, everything: bool, gate: bool, form: str) -> int:
    """Show two sets of results side by side: outcome, readings, time.

    A and B are results folders or report.json files; the backends may differ. The exit code is 0 unless you give
    --gate. Readings and times are shown, not judged: `mluops-test gate` judges them.
    """
    from mluops_gtest.reports.compare import compare, comparison_to_json
    from mluops_gtest.results.files import read_report

    both = compare(read_report(before), read_report(after))
    if form == "json":
        import json

        from mluops_gtest.cli.lines import say

        say(json.dumps(comparison_to_json(both), indent=1, allow_nan=False))
    else:
        from mluops_gtest.cli.consoles import print_page, stdout
        from mluops_gtest.cli.pages.compare import compare_page

        print_page(stdout(), compare_page(both, everything=everything))
    if not gate:
        return int(ExitCode.OK)
    if not both.rows:
        return int(ExitCode.EMPTY)
    return int(ExitCode.FAILED if both.worse else ExitCode.OK)
