"""`mluops-test report`."""

from pathlib import Path

import click

from mluops_gtest.base.errors import UsageError
from mluops_gtest.base.gc_tuning import no_garbage_collection
from mluops_gtest.cli.options import format_option, lang_option

_EPILOG = """\b
Examples:
  mluops-test report results -o report.html                     one page for the browser
  mluops-test report results --format markdown --lang zh        the test report that goes with a change
  mluops-test report results --format text                      the summary again, with every failed case
  mluops-test report results --format junit -o junit.xml        for the CI system
  mluops-test report results --against baseline.json -o report.html
  mluops-test report results --history .mluops-test/history.sqlite -o report.html
  mluops-test report numpy-run torch-run mlu-run -o matrix.html   several backends, machines or commits side by side
"""


@click.command("report", epilog=_EPILOG)
@click.argument("results", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@format_option("html", "markdown", "text", "junit", "ctrf", "json", words="What to write, e.g. --format markdown.")
@lang_option("Language of html and markdown, e.g. --lang zh.")
@click.option(
    "--against",
    type=click.Path(path_type=Path, exists=True),
    metavar="BASELINE",
    help="Show how every case changed since these results, e.g. --against baseline.json.",
)
@click.option(
    "--history",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Show the outcomes of earlier runs on this backend, e.g. --history .mluops-test/history.sqlite.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where to write, e.g. -o report.html.  [default: standard output]",
)
@no_garbage_collection()
def command(
    results: tuple[Path, ...], form: str, lang: str, against: Path | None, history: Path | None, output: Path | None
) -> None:
    """Write a report of RESULTS, a results folder or a report.json; of several, a page that shows them side by side.

    The exit code is 0 when the report was written, even if cases failed: `mluops-test gate` judges them.
    """
    from mluops_gtest.results.folder import read_report
    from mluops_gtest.results.reports.files import find_transitions, read_past, render, write

    if len(results) > 1:
        write([_matrix(results, form, lang, beside=against or history)], output)
        return
    report = read_report(results[0])
    transitions = None if against is None else find_transitions(report, against)
    past = None if history is None else read_past(report, history)
    write(render(report, form, lang, transitions, past), output)


def _matrix(results: tuple[Path, ...], form: str, lang: str, beside: Path | None) -> str:
    from mluops_gtest.results.folder import read_report
    from mluops_gtest.results.reports.html import render_matrix

    if form != "html":
        raise UsageError(f"--format {form} is for one run; several runs side by side are a page: --format html.")
    if beside is not None:
        raise UsageError("--against and --history are for one run; leave them out, or name one folder.")
    if len(set(results)) < len(results):
        raise UsageError("RESULTS: the same folder is named twice; name each run once.")
    return render_matrix({str(path): read_report(path) for path in results}, lang)
