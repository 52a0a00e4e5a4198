"""`mluops-test minimise`."""

from pathlib import Path
from typing import Any

import click

from mluops_gtest.cli.options import (
    ReseedType,
    adapter_options,
    backend_option,
    complete_ids,
    elementwise_option,
    file_options,
    isolate_option,
    root_option,
    timeout_option,
)
from mluops_gtest.search.minimise_candidates import LIMIT

_EPILOG = """\b
Examples:
  mluops-test minimise voxel_pooling_forward/bevdepth_twin --backend my_kernels.py
  mluops-test minimise failing.prototxt -b c:./libmykernels.so --out small.prototxt
  mluops-test minimise get_indice_pairs/subm_3x3x3 -b c:./libmykernels.so --standalone c
  mluops-test minimise ball_query/random_8_float -b my_kernels.py --standalone py
  mluops-test minimise hangs.prototxt -b my_kernels.py --timeout 5
"""


@click.command("minimise", epilog=_EPILOG)
@click.argument("case", shell_complete=complete_ids)
@backend_option(
    "What the case fails on, as for `run`, e.g. -b my_kernels.py or -b c:./libmykernels.so.",
    required=True,
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The smallest case, .prototxt or .pb, e.g. --out small.prototxt.  [default: ./<case>_minimised.prototxt]",
)
@click.option(
    "--standalone",
    type=click.Choice(["py", "c"]),
    help="Also write one file beside --out that shows the failure without mluops-test, e.g. --standalone py.",
)
@click.option(
    "--calls",
    type=click.IntRange(2),
    default=LIMIT,
    show_default=True,
    metavar="N",
    help="Call the backend at most so often, e.g. --calls 1000.",
)
@adapter_options
@isolate_option("a worker process")
@timeout_option("Take the case for hanging after so long, e.g. --timeout 5.")
@click.option("--guard-pages", is_flag=True, help="Also find reads and writes outside a buffer, as `run` does.")
@click.option("--bitwise", is_flag=True, help="Where a criterion is diff3 = 0, also require equal bits.")
@elementwise_option
@click.option(
    "--reseed", type=ReseedType(), metavar="N", help="Begin with the values of `run --reseed N`, e.g. --reseed 7."
)
@click.option("-q", "--quiet", is_flag=True, help="Print only the name of the file.")
@root_option
@file_options
@click.pass_context
def command(ctx: click.Context, /, case: str, **options: Any) -> int:
    """Find the smallest case that fails on a backend for the same cause as CASE, an id or a case file.

    Points, sites, channels, batches, spaces and kernels are taken away, and values become 0, 1 and small integers, as
    long as the failure stays: the same outcome, status and kind of mistake in the same output; a crash by the same
    signal, a hang. What the document takes for granted stays, too. Ctrl-C ends the search with the best case so far.

    Exit code 0: a smallest case is written. 5: the case does not fail, so there is nothing to minimise.
    """
    from mluops_gtest.cli.minimising import minimise

    settings = None if ctx.obj is None else str(ctx.obj.path)
    return int(minimise(case, settings=settings, **options))
