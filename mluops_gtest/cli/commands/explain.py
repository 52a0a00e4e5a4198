"""`mluops-test explain`."""

from pathlib import Path

import click

from mluops_gtest.cli.plain_options import lang_option
from mluops_gtest.garbage import no_garbage_collection

_EPILOG = """\b
Examples:
  mluops-test explain results                          why cases fail, cause by cause
  mluops-test explain results --op get_indice_pairs    of one operator
  mluops-test explain report.json --lang zh            in Chinese
"""


@click.command("explain", epilog=_EPILOG)
@click.argument("results", type=click.Path(path_type=Path, exists=True))
@click.option("--op", metavar="OP", help="Only this operator, e.g. --op voxel_pooling_forward.")
@lang_option("Language of the explanations, e.g. --lang zh.")
@no_garbage_collection()
def command(results: Path, op: str | None, lang: str) -> None:
    """Say what is wrong in RESULTS, a results folder or a report.json: where, how, and in which cases.

    Failures with one cause stand together under one headline. The exit code is 0 even if cases failed: `mluops-test
    gate` judges them.
    """
    from mluops_gtest.cli.consoles import print_page, stdout
    from mluops_gtest.cli.pages.explain import explain_page
    from mluops_gtest.errors import NothingSelectedError, suggestion
    from mluops_gtest.results.files import read_report

    report = read_report(results)
    known = sorted({result.operator for result in report.results})
    if op is not None and op not in known:
        raise NothingSelectedError(f"{results} has no case of {op!r}.{suggestion(op, known)}")
    print_page(stdout(), explain_page(report, op, lang))
