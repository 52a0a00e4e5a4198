"""What is checked of a submission: its files, the suite here, its request, and a sample that is run again."""

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from mluops_gtest.base.errors import ContentError, ExitCode
from mluops_gtest.base.typed_files import Source, convert, decode_json
from mluops_gtest.catalog.selection import Selected, Session
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import RunReport, backend_of
from mluops_gtest.core.result import CaseResult
from mluops_gtest.results.folder import RUN
from mluops_gtest.results.gate_reference import DriftLimits, find_drifts, readings_above_floor
from mluops_gtest.results.records import with_words
from mluops_gtest.results.submission import Finding, Submission, Suite, check_files
from mluops_gtest.running.options import RunOptions, RunRecord
from mluops_gtest.running.run import with_commands
from mluops_gtest.running.session import CaseRunner, context_of


def check_submission(submission: Submission, session: Session) -> list[Finding]:
    """What follows from the files and from the suite of this installation."""
    findings, report, figures = [*check_files(submission)], submission.report, submission.figures
    if report is None or figures is None:
        return findings
    if not figures.compared:
        findings.append(Finding("a backend was asked", "open", ("no case of the claim was compared",)))
    return [*findings, *Suite(session.catalogue, submission.claim).check(report), _check_request(submission, report)]


def exit_code_of(findings: Iterable[Finding]) -> ExitCode:
    """Refuted, else too little checked, else it holds."""
    verdicts = {finding.verdict for finding in findings}
    return ExitCode.FAILED if "refuted" in verdicts else ExitCode.EMPTY if "open" in verdicts else ExitCode.OK


def _check_request(submission: Submission, report: RunReport) -> Finding:
    """Whether backend, selection, labels, cases and commands of the report are those that run.json asks for."""
    what = "the report is of the run that run.json asks for, and so are the commands in it"
    if RUN not in submission.files:
        return Finding(what, "not checked", (f"no {RUN}: results that `merge` put together have none",))
    try:
        options, planned = _read_request(submission)
    except ContentError as error:
        return Finding(what, "refuted", (str(error),))
    context = context_of(options, (), backend_of(report), len(planned.cases), planned.left_out, None)
    parts = ("backend", "selection", "labels")
    unlike = [part for part in parts if with_words(getattr(report, part)) != with_words(getattr(context, part))]
    unlike += ["cases"] if tuple(one.case for one in report.results) != planned.cases else []
    others = (one.case for one in report.results if one.repro != with_commands(one, context).repro)
    words = [f"the report has other {part}" for part in unlike]
    return Finding.of(what, [*words, *(f"{one}: another command" for one in others)])


def _read_request(submission: Submission) -> tuple[RunOptions, RunRecord]:
    source = Source(RUN, "`mluops-test run` writes this file.")
    record = convert(decode_json(submission.files[RUN], source), dict[str, Any], source)
    return RunOptions.from_json(record, source), convert(record, RunRecord, source)


def run_sample(
    submission: Submission, session: Session, request: RunOptions, number: int, seed: int, note: Callable[[str], None]
) -> Finding:
    """Whether cases of a claim that is not refuted so far, drawn by the seed, come out as claimed.

    Of the archive the request takes numbers alone: the values of --reseed, and how strictly was judged.
    """
    assert submission.report is not None, "it is not refuted"
    if RUN in submission.files:
        options, _ = _read_request(submission)
        request = replace(request, bitwise=options.bitwise, elementwise=options.elementwise)
    # No name of the archive's selects anything: it might be a path.
    drafts = session.catalogue.drafts_of(*submission.claim.suite)
    claimed = {one.case: one for one in submission.report.results if one.case in drafts}
    drawn = random.Random(seed).sample(sorted(claimed), min(number, len(claimed)))
    pairs = list[tuple[CaseResult, CaseResult]]()
    with CaseRunner(session, replace(request, reseed=submission.report.reseed)) as runner:
        for case in drawn:
            note(f"running {case}")
            now = runner.run(Selected(case, drafts[case].operator, drafts[case].tags, draft=drafts[case]))
            pairs.append((claimed[case], now))
    what = f"{len(drawn)} cases, drawn by seed {seed}, came out on {request.backend} as claimed"
    finding = Finding.of(what, (f"{one[0].case}: {words}" for one in pairs for words in _differences(*one)))
    if finding.verdict == "holds" and not any(now.outcome.was_called for _, now in pairs):
        return Finding(what, "open", ("none of them was compared",))
    return finding


def _differences(claimed: CaseResult, now: CaseResult) -> Iterator[str]:
    """In what a result is not as claimed; readings that pass may grow or shrink as the gate allows."""
    names = [getattr(one.status, "name", "none") for one in (claimed, now)]
    words = (("outcome", claimed.outcome.value, now.outcome.value), ("status", *names))
    yield from (f"{what} {one} claimed, {other} here" for what, one, other in words if one != other)
    if claimed.outcome is not now.outcome:
        return
    before, after = ([replace(one, value=0.0) for one in result.readings] for result in (claimed, now))
    if before != after:
        yield "other readings, or others within their thresholds"
    for first, second in ((claimed, now), (now, claimed)) if now.outcome is Outcome.PASSED else ():
        for drift in find_drifts(second, readings_above_floor(first), DriftLimits()):
            yield f"{drift.output} {drift.criterion}: {drift.before:.3g} and {drift.after:.3g}"
