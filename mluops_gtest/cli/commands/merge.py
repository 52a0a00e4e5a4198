"""`mluops-test merge`."""

from pathlib import Path

import click

from mluops_gtest.base.gc_tuning import no_garbage_collection

_EPILOG = """\b
Examples:
  mluops-test merge results-1 results-2 results-3 --out results
"""


@click.command("merge", epilog=_EPILOG)
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True), metavar="DIR…")
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the merged results.jsonl and report.json, e.g. --out results.",
)
@click.option("--overwrite", is_flag=True, help="Replace the run in the --out folder, e.g. --out results --overwrite.")
@no_garbage_collection()
def command(folders: tuple[Path, ...], out: Path, overwrite: bool) -> int:
    """Put the results of all shards of one run together.

    It refuses cases that occur twice, missing shards and different backends. The exit code is that of the whole run.
    """
    from mluops_gtest.cli.echo import echo
    from mluops_gtest.cli.terminal import stdout
    from mluops_gtest.results.folder import ResultsFolder, merge, read_report
    from mluops_gtest.results.reports.terminal import operator_table
    from mluops_gtest.results.writer import write_causes, write_results

    reports = {}
    for number, folder in enumerate(folders, 1):
        name = str(folder) if str(folder) not in reports else f"{folder} (again, as number {number})"
        reports[name] = read_report(folder)
    merged = merge(reports)
    advice = "--overwrite replaces it, another --out keeps both"
    with ResultsFolder.new(out, overwrite=overwrite, advice=advice) as claimed:
        write_results(claimed, merged)
        write_causes(claimed.path, merged)
    stdout().print(operator_table(merged))
    counts = ", ".join(f"{n} {outcome}" for outcome, n in merged.summary.items())
    echo(f"{counts}{merged.tally.coverage_words(merged.required_coverage)}\nResults: {out}")
    return int(merged.exit_code)
