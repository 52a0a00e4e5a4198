"""`mluops-test gate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mluops_gtest.cli.plain_options import format_option
from mluops_gtest.garbage import no_garbage_collection

if TYPE_CHECKING:
    from mluops_gtest.gate.decision import Decision

_EPILOG = """\b
Examples:
  mluops-test gate results --against baseline.json --update           start: write the file, then commit it
  mluops-test gate results --against baseline.json                    may this change be merged?
  mluops-test gate results --against baseline.json --waivers waivers.yaml
  mluops-test gate results --against last-night/                      any results folder or report.json works
  mluops-test gate results --against baseline.json --subset           RESULTS has only some of the cases
  mluops-test gate results --against baseline.json --format github    annotations on the change
  mluops-test gate results --against baseline.json --strict-accuracy --drift-factor voxel_pooling_forward=8
  mluops-test gate results --against baseline.json --update --accept missing     cases were removed on purpose
  mluops-test gate perf-1 --aa perf-2 --aa perf-3 --against baseline.json --update

\b
Exit codes: 0 may be merged, 1 blocked, 2 wrong usage, 3 waivers or baseline broken, 5 nothing compared.
"""
_FOLDER_OR_FILE = click.Path(path_type=Path, exists=True)


@click.command("gate", epilog=_EPILOG)
@click.argument("results", type=_FOLDER_OR_FILE)
@click.option(
    "--against",
    required=True,
    type=click.Path(path_type=Path),
    metavar="BASELINE",
    help="A results folder, a report.json or a committed baseline file, e.g. --against baseline.json.",
)
@click.option(
    "--waivers",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Known failures, each with an owner, a reason and an end date, e.g. --waivers waivers.yaml.",
)
@click.option("--update", is_flag=True, help="Write RESULTS to the baseline file, unless the gate blocks them.")
@click.option(
    "--accept",
    multiple=True,
    type=click.Choice(["missing", "skipped", "slower"]),
    help="With --update: accept and list these changes, still refuse all others, e.g. --accept missing.",
)
@click.option("--subset", is_flag=True, help="Only require the cases that RESULTS selected.")
@click.option("--cross-backend", is_flag=True, help="Allow RESULTS and BASELINE from different backends.")
@click.option("--strict-accuracy", is_flag=True, help="Also block when a reading drifted.")
@click.option(
    "--drift-factor",
    multiple=True,
    metavar="[OP=]N",
    help="Report drift when a reading grew by more than this factor, for all operators or for one, "
    "e.g. --drift-factor voxel_pooling_forward=8.  [default: 4]",
)
@click.option(
    "--allow-outliers", is_flag=True, help="Let cases pass whose first elements beyond arithmetic appear now."
)
@click.option("--strict-perf", is_flag=True, help="Also block when times are inconclusive.")
@click.option(
    "--min-effect",
    type=click.FloatRange(0, 100, min_open=True),
    default=5.0,
    show_default=True,
    metavar="PERCENT",
    help="Ignore changes of time smaller than this, e.g. --min-effect 3.",
)
@click.option(
    "--aa",
    "again",
    multiple=True,
    type=_FOLDER_OR_FILE,
    metavar="DIR",
    help="Another --perf run of the baseline's build (with --update: of the build in RESULTS), to learn how much times "
    "vary without a change, e.g. --aa perf-2.",
)
@format_option("table", "json", "markdown", "github", "gitlab", words="What to print, e.g. --format github.")
@no_garbage_collection()
def command(form: str, update: bool, **options: Any) -> int:
    """Decide whether a change may be merged: compare RESULTS, a results folder or a report.json, with BASELINE.

    Cases block a merge when they regressed, fail newly, fail still without a waiver, are missing, newly skipped,
    suspect, not reached or slower, or pass with elements beyond what arithmetic allows where they had none.
    Waivers that are out of date block, too.
    """
    from mluops_gtest.api.gate_request import GateRequest, make_update, reach_decision, write_baseline
    from mluops_gtest.errors import ExitCode, UsageError

    request = GateRequest(**options)
    if request.accept and not update:
        raise UsageError("--accept needs --update: it tells --update which changes to write.")
    if not update:
        decision = reach_decision(request)
        _print(decision, form, str(request.against))
        return int(decision.exit_code)
    from mluops_gtest.cli.consoles import print_page, stdout
    from mluops_gtest.cli.pages.gate import update_page

    made = make_update(request)
    if not made.decision.blocked:
        write_baseline(options["against"], made)
    print_page(stdout(), update_page(made, str(request.against)))
    return int(ExitCode.FAILED if made.decision.blocked else ExitCode.OK)


def _print(decision: "Decision", form: str, against: str) -> None:
    from mluops_gtest.cli.lines import say

    if form == "table":
        from mluops_gtest.cli.consoles import print_page, stdout
        from mluops_gtest.cli.pages.gate import decision_page

        print_page(stdout(), decision_page(decision))
    elif form == "json":
        import json

        from mluops_gtest.gate.decision_json import decision_to_json

        say(json.dumps(decision_to_json(decision), indent=1, ensure_ascii=False, allow_nan=False))
    elif form == "markdown":
        from mluops_gtest.gate.markdown import markdown

        say(markdown(decision))
    else:
        from mluops_gtest.gate.annotations import github, gitlab

        say(github(decision) if form == "github" else gitlab(decision, against))
