"""One report in any format, with what a baseline and the history add to it."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mluops_gtest.base.errors import UnwritableError, UsageError
from mluops_gtest.base.files import replace_file
from mluops_gtest.base.typed_files import Source
from mluops_gtest.core.report import RunReport, TalliedResults
from mluops_gtest.results.folder import CAUSES, REPORT, RESULTS, RUN
from mluops_gtest.results.records import head_to_json, report_from_json, report_to_json, result_to_json

if TYPE_CHECKING:
    from mluops_gtest.core.report import ReportFormat
    from mluops_gtest.results.history import CaseTrend


# What the page and the table have room for.
_MAX_RUNS = 40


def rendered(
    report: RunReport,
    form: str,
    lang: str,
    transitions: Mapping[str, str] | None,
    past: "tuple[CaseTrend, ...] | None",
) -> Iterable[str]:
    """The text of the report in pieces, so that a long one need never be there as a whole."""
    device = report.environment.get("device")
    if form == "html":
        from mluops_gtest.results.reports.html import render_html

        history = None if past is None else {trend.case: trend.story for trend in past}
        return [render_html(report, lang=lang, transitions=transitions, history=history, device=device)]
    if form == "markdown":
        from mluops_gtest.results.reports.markdown import render_markdown

        return [render_markdown(report, lang=lang, transitions=transitions, history=past, device=device)]
    if form == "junit":
        from mluops_gtest.results.reports.junit import junit_pieces

        return junit_pieces(report, transitions)
    if form == "ctrf":
        from mluops_gtest.results.reports.ctrf import ctrf_pieces

        return ctrf_pieces(report, transitions)
    if form == "text":
        from mluops_gtest.results.reports.terminal import render_text

        return [render_text(report)]
    return _json(report, transitions, past)


def _json(
    report: RunReport, transitions: Mapping[str, str] | None, past: "tuple[CaseTrend, ...] | None"
) -> Iterable[str]:
    """report.json with a summary made anew, and what was asked for beside it."""
    from mluops_gtest.results.reports.ctrf import with_items

    document = head_to_json(report) | {"results": []}
    if transitions is not None:
        document["transitions"] = dict(transitions)
    if past is not None:
        document["history"] = {trend.case: trend.to_json() for trend in past}
    return with_items(document, ("results",), map(result_to_json, report.results))


def transitions_of(report: RunReport, baseline: Path) -> dict[str, str]:
    """How every case changed since the baseline, including those without a result."""
    from mluops_gtest.results.gate import transition
    from mluops_gtest.results.gate_request import read_reference

    before = {case: known.outcome for case, known in read_reference(baseline).cases.items()}
    now = {result.case: result.outcome for result in report.results}
    return {case: transition(before.get(case), now.get(case)).value for case in sorted(before | now)}


def past_of(report: RunReport, file: Path) -> "tuple[CaseTrend, ...]":
    """How the cases of this report went in the newest runs on its backend."""
    from mluops_gtest.results.history import History

    cases = {result.case for result in report.results}
    with History(file) as history:
        runs = history.runs(backend=str(report.backend.get("name", "")), last=_MAX_RUNS)
        return tuple(trend for trend in history.trends(runs) if trend.case in cases)


def write(pieces: Iterable[str], file: Path | None) -> None:
    """Write to the file, all of it or nothing, or to standard output; always in UTF-8."""
    data = (piece.encode() for piece in pieces)
    if file is None:
        sys.stdout.buffer.writelines(data)
        sys.stdout.buffer.flush()
    else:
        replace_file(file, data)


def check_reports(reports: "Mapping[ReportFormat, str]", results: Path) -> None:
    """Refuse, before anything runs, files of a run that cannot be written; `results` is the run's folder."""
    seen = {(results / name).resolve(): f"the run's own {name}" for name in (RUN, RESULTS, REPORT, CAUSES)}
    for form, name in reports.items():
        path = Path(name)
        if not path.parent.is_dir():
            raise UsageError(f"--{form} {name}: there is no folder {path.parent}; make it, or name another file.")
        if path.resolve() in seen:
            raise UsageError(f"--{form} {name} is {seen[path.resolve()]}; name another file.")
        seen[path.resolve()] = f"the file of --{form}"


def _as_stored(report: RunReport) -> RunReport:
    """The report as it would be read from its file; results that lie in one are."""
    source = Source(REPORT, "")
    if not isinstance(report.results, TalliedResults):
        return report_from_json(report_to_json(report), source)
    head = report_from_json(head_to_json(report) | {"results": [], "summary": None}, source)
    return replace(head, results=report.results)


def write_reports(report: RunReport, reports: "Mapping[ReportFormat, str]") -> Iterator[UnwritableError]:
    """Write the reports that the run asked for; if one cannot be written, the others still are."""
    if not reports:
        return
    # With the digits that report.json keeps, so that `report` writes the same later.
    stored = _as_stored(report)
    for form, name in reports.items():
        try:
            write(rendered(stored, form, "en", None, None), Path(name))
        except UnwritableError as error:
            yield error
