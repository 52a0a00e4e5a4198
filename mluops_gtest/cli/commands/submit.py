"""`mluops-test submit` and `mluops-test check-submission`: results handed to others, and what holds of them."""

import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from mluops_gtest.base.errors import UsageError
from mluops_gtest.base.gc_tuning import no_garbage_collection
from mluops_gtest.base.text import FILE, pluralize, strip_to_line
from mluops_gtest.cli.echo import echo, print_json
from mluops_gtest.cli.options import (
    RESULTS,
    adapter_options,
    backend_option,
    isolate_option,
    json_option,
    operators_option,
    root_option,
    stands_in_settings,
    timeout_option,
    typed_options,
    value_option,
)
from mluops_gtest.core.report import backend_of
from mluops_gtest.results.gate_reference import machine_of

if TYPE_CHECKING:
    from mluops_gtest.results.submission import Finding, Submission

_MAX_DETAILS = 5
_HEADINGS = {"holds": "Checked", "not checked": "Not checked", "open": "Too little to check", "refuted": "Refuted"}
_VERDICTS = {0: "holds as far as it was checked", 1: "refuted", 5: "too little could be checked"}
_MAX_LETTERS = 1000
_FOREWORD = (
    "Files that were forged so that they agree are not found by this: only by running cases again (--backend), or by a "
    "signature of somebody you trust (mluops-test docs submit-results)."
)


@click.command("submit")
@click.argument("results", type=RESULTS)
@value_option("--out FILE", "file", "The archive to write, e.g. --out claim.zip.", required=True)
@value_option(
    "--level",
    click.Choice(["core", "full"]),
    "What is claimed to be covered: the default set, or every case but those tagged undefined or subnormal.",
    default="core",
)
@operators_option("Claim this operator alone, e.g. --op voxel_pooling_forward (repeat it for several).")
@value_option("--waivers FILE", "existing file", "Known failures, as for `gate`, e.g. --waivers waivers.yaml.")
@no_garbage_collection()
def command(results: Path, out: Path, level: Any, operators: tuple[str, ...], waivers: Path | None) -> None:
    """Pack RESULTS, a results folder or a report.json, into an archive that says what it claims.

    Results that do not cover the level are refused; the message names what is missing and what to run. Failing cases
    are no reason to refuse: the claim counts them.

    Examples:
      mluops-test run --backend c:./libmykernels.so --out results
      mluops-test submit results --out claim.zip                          the default set is complete
      mluops-test submit results --out claim.zip --op ball_query          a claim about one operator
      mluops-test submit results --out claim.zip --waivers waivers.yaml   with known failures
      mluops-test submit results --out claim.zip --level full             network, race and heavy cases, too
      ssh-keygen -Y sign -f ~/.ssh/id_ed25519 -n mluops-test claim.zip    sign it
    """
    from mluops_gtest.base.typed_files import file_bytes
    from mluops_gtest.catalog.root import recorded_roots
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.results import submission as parts
    from mluops_gtest.results.folder import REPORT, RUN, read_report
    from mluops_gtest.results.gate_reference import load_waivers
    from mluops_gtest.running.submission_check import check_submission

    report = read_report(results)
    session = Session(tuple(recorded_roots(report.selection)))
    known = session.catalogue.operators
    operators = tuple(dict.fromkeys(known.canonical(name) for name in operators))
    required = parts.required_cases(session.catalogue, level, operators or known)
    if gaps := parts.find_gaps(required, report):
        raise UsageError(
            f"{results} does not cover level {level}{_of(operators)}: {'; '.join(gaps)}. "
            f"Run `{parts.words_to_cover(level, operators)}`, or claim less: --op OPERATOR."
        )
    suite = parts.digests_of_suite(session.catalogue, operators or known)
    ledger = () if waivers is None else load_waivers(waivers)
    claim = parts.Claim(level, operators, suite, tuple(replace(waiver, file="", line=0) for waiver in ledger))
    folder = results if results.is_dir() else results.parent
    paths = {REPORT: folder / REPORT if results.is_dir() else results, RUN: folder / RUN}
    files = {name: file_bytes(path) for name, path in paths.items() if path.is_file()}
    made = parts.pack(claim, files)
    for finding in check_submission(made, session):
        if finding.verdict == "refuted":
            why = "; ".join(finding.details[:_MAX_DETAILS])
            raise UsageError(f"{results}: it is not true that {finding.what}: {why}. Run the cases again.")
    digest = parts.write_submission(out, made)
    echo("\n".join([*_claim_lines(made), f"{out}: sha256 {digest}"]))


@click.command("check-submission")
@click.argument("archive", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@backend_option("Run a sample of the cases again on your own build (named as for `run`), e.g. -b c:./libmykernels.so.")
@value_option("--sample N", click.IntRange(1), "With --backend: run N cases again, e.g. --sample 200.", default=20)
@value_option("--seed N", click.IntRange(0), "With --backend: draw the cases by this number.  [default: a new one]")
@adapter_options
@isolate_option("worker processes")
@timeout_option("Stop a case after so long, e.g. --timeout 20.")
@root_option
@json_option()
@click.pass_context
@no_garbage_collection()
def check(
    ctx: click.Context, /, archive: Path, backend: str | None, sample: int, seed: int | None, form: str, **given: Any
) -> int:
    """Check what somebody claims in an archive that `submit` wrote.

    Every figure that follows from the files is computed again and held against the suite of this installation. With
    --backend a random sample runs again on your own build. Nothing in the archive is executed. The page says what is
    claimed, what was checked and what was not.

    Examples:
      mluops-test check-submission claim.zip
      mluops-test check-submission claim.zip --backend c:./libmykernels.so --sample 200
      mluops-test check-submission claim.zip --backend my_kernels.py:backend --seed 7   the same sample again
      mluops-test check-submission claim.zip --format json                              for programs

    Exit codes: 0 the claim holds, 1 it is refuted, 2 wrong usage, 3 the archive is broken, 5 too little could be checked.
    """  # noqa: E501 - a line of the help page
    from mluops_gtest.catalog.selection import Session
    from mluops_gtest.cli.echo import echo_error
    from mluops_gtest.core.case import Query
    from mluops_gtest.documents import CHECK_SUBMISSION
    from mluops_gtest.results.shapes import fill
    from mluops_gtest.results.submission import read_submission, unchecked_fields
    from mluops_gtest.running.options import RunOptions
    from mluops_gtest.running.plan import refuse
    from mluops_gtest.running.submission_check import check_submission, exit_code_of, run_sample

    backend = None if stands_in_settings(ctx, "backend") else backend
    if backend is None and (typed := {"sample", "seed"} & typed_options(ctx).keys()):
        raise UsageError(f"--{min(typed)} is about cases that run again: name your own build with --backend.")
    session = Session(given["roots"])
    submission = read_submission(archive)
    findings = check_submission(submission, session)
    if backend is not None and exit_code_of(findings) == 0:
        request = RunOptions(Query(), backend=backend, **given)
        refuse(request)
        seed = secrets.randbelow(1 << 32) if seed is None else seed
        findings.append(run_sample(submission, session, request, sample, seed, echo_error))
    code = exit_code_of(findings)
    if form == "json":
        claimed = {"claim": submission.claim, "figures": submission.figures, "run": submission.report}
        about = {"findings": findings, "not_checked": unchecked_fields(), "exit_code": code}
        print_json(fill(CHECK_SUBMISSION, **claimed, **about))
    else:
        # A line of the page is a line: no text of the archive adds one.
        echo("\n".join(strip_to_line(line)[:_MAX_LETTERS] for line in _page(submission, findings, code)))
    return int(code)


def _of(operators: tuple[str, ...]) -> str:
    return f" of {', '.join(operators)}" if operators else ""


def _claim_lines(submission: "Submission") -> Iterator[str]:
    """Yields what is claimed, the restriction first."""
    claim, report, figures = submission.claim, submission.report, submission.figures
    yield f"Claimed: level {claim.level}{_of(claim.operators) or f', all {len(claim.suite)} operators'}"
    if report is None or figures is None:
        return
    counts = ", ".join(f"{number} {outcome}" for outcome, number in figures.summary.items())
    yield f"  {pluralize(figures.cases, 'case')}: {counts}; {figures.compared} compared; {len(figures.waived)} waived"
    skipped = [f"  {number} skipped: {reason}" for reason, number in figures.skipped.items()]
    more = len(skipped) - _MAX_DETAILS
    yield from (*skipped[:_MAX_DETAILS], *([f"  and for {more} further reasons"] if more > 0 else ()))
    yield f"  backend {backend_of(report)}; files: {report.labels.get(FILE, 'none recorded')}"
    machine = ", ".join(f"{name} {value}" for name, value in machine_of(report).items())
    device = (report.environment.get("device") or {}).get("name", "not described")
    yield f"  mluops-test {report.tool_version}; {machine}; device: {device}"
    values = "declared" if report.reseed is None else f"--reseed {report.reseed}"
    isolation = {True: "isolated", False: "not isolated", None: "isolation unknown"}[report.is_isolated]
    yield f"  values: {values}; {isolation}; not sealed"


def _page(submission: "Submission", findings: "Sequence[Finding]", code: int) -> Iterator[str]:
    """Yields a caution, the claim, what was checked, what was not, and the verdict last."""
    from mluops_gtest.results.submission import unchecked_fields

    yield from (_FOREWORD, "", *_claim_lines(submission))
    for verdict, heading in _HEADINGS.items():
        chosen = [finding for finding in findings if finding.verdict == verdict]
        yield from ("", f"{heading}:") if chosen else ()
        for finding in chosen:
            more = len(finding.details) - _MAX_DETAILS
            yield from (f"  {finding.what}", *(f"    {words}" for words in finding.details[:_MAX_DETAILS]))
            yield from (f"    and {more} more; --format json has all",) if more > 0 else ()
    yield from (
        "",
        "Claimed, not checked but for cases that ran again: the files agree, and that is all that is known of",
    )
    yield from (f"  {file}: {', '.join(names)}" for file, names in unchecked_fields().items())
    yield from ("", f"The claim: {_VERDICTS[code]}.")
