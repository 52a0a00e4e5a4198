"""`mluops-test report`, `merge` and `explain`: what results say, put together and written for people and programs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from mluops_gtest.base.errors import UsageError
from mluops_gtest.base.gc_tuning import no_garbage_collection
from mluops_gtest.base.text import pluralize
from mluops_gtest.cli.options import RESULTS, flag_option, format_option, json_option, lang_option, value_option
from mluops_gtest.core.cause import format_reason
from mluops_gtest.core.explanation import Explanation
from mluops_gtest.core.readings import format_explanation, format_headline, format_support
from mluops_gtest.core.report import REPORT_KINDS, RunReport
from mluops_gtest.judging.groups import CauseGroup, cause_groups
from mluops_gtest.results.reports.terminal import escape


@click.command("report")
@click.argument("results", nargs=-1, required=True, type=RESULTS)
@format_option(*REPORT_KINDS, words="What to write, e.g. --format markdown.")
@lang_option("Language of html and markdown, e.g. --lang zh.")
@value_option(
    "--against BASELINE", "existing", "Show how every case changed since these results, e.g. --against baseline.json."
)
@value_option(
    "--history FILE",
    "existing file",
    "Show the outcomes of earlier runs on this backend, e.g. --history .mluops-test/history.sqlite. [default for html: "
    "the file that `history` uses, if it has this run]",
)
@value_option(
    "--reference-times FILE",
    "existing file",
    "Times of a competitor for the markdown report: YAML with a line `CASE: µs` each, e.g. --reference-times gpu.yaml.",
)
@value_option("-o --output FILE", "file", "Where to write, e.g. -o report.html.  [default: standard output]")
@no_garbage_collection()
def command(
    results: tuple[Path, ...],
    form: str,
    lang: str,
    against: Path | None,
    history: Path | None,
    reference_times: Path | None,
    output: Path | None,
) -> None:
    """Write a report of RESULTS, a results folder or a report.json; of several, a page that shows them side by side.

    The exit code is 0 when the report was written, even if cases failed: `mluops-test gate` judges them.

    Examples:
      mluops-test report results -o report.html                     one page for the browser
      mluops-test report latest -o report.html                      the newest run under ./mluops-results
      mluops-test report results --format markdown --lang zh        the test report that goes with a change
      mluops-test report results --format markdown --reference-times gpu.yaml   beside the times of a competitor
      mluops-test report results --format text                      the summary again, with every failed case
      mluops-test report results --format junit -o junit.xml        for the CI system
      mluops-test report results --format sarif -o crashes.sarif    crashes at their lines, for code scanning
      mluops-test report results --against baseline.json -o report.html
      mluops-test report results --history .mluops-test/history.sqlite -o report.html
      mluops-test report numpy-run torch-run mlu-run -o matrix.html   several backends, machines or commits side by side
    """
    from mluops_gtest.results.folder import read_report
    from mluops_gtest.results.reports.files import find_past, find_transitions, read_past, render, write

    if reference_times is not None and form != "markdown":
        raise UsageError(f"--reference-times is for --format markdown, not for {form}.")
    if len(results) == 1:
        report = read_report(results[0])
        transitions = None if against is None else find_transitions(report, against)
        past = read_past(report, history) if history else find_past(report) if form == "html" else None
        if reference_times is None:
            write(render(report, form, lang, transitions, past), output)
            return
        from mluops_gtest.results.reports.markdown import render_markdown
        from mluops_gtest.results.times import read_competitor_times

        competitor = read_competitor_times(reference_times, report)
        write(render_markdown(report, transitions, lang, past, competitor), output)
        return
    from mluops_gtest.results.reports.html_matrix import render_matrix

    if form != "html":
        raise UsageError(f"--format {form} is for one run; several runs side by side are a page: --format html.")
    if against or history:
        raise UsageError("--against and --history are for one run; leave them out, or name one folder.")
    if len(set(results)) < len(results):
        raise UsageError("RESULTS: the same folder is named twice; name each run once.")
    write([render_matrix({str(path): read_report(path) for path in results}, lang)], output)


@click.command("merge")
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True), metavar="DIR…")
@value_option(
    "--out", "folder", "Folder for the merged results.jsonl and report.json, e.g. --out results.", required=True
)
@flag_option("--overwrite", "Replace the run in the --out folder, e.g. --out results --overwrite.")
@no_garbage_collection()
def merge_shards(folders: tuple[Path, ...], out: Path, overwrite: bool) -> int:
    """Put the results of all shards of one run together.

    It refuses cases that occur twice, missing shards and different backends. The exit code is that of the whole run.

    Examples:
      mluops-test merge results-1 results-2 results-3 --out results
    """
    from mluops_gtest.cli.echo import echo
    from mluops_gtest.cli.terminal import stdout
    from mluops_gtest.results.folder import ResultsFolder, merge, read_report
    from mluops_gtest.results.reports.terminal import RunFacts, operator_table
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
    stdout().print(operator_table(RunFacts(merged.results)))
    counts = ", ".join(f"{n} {outcome}" for outcome, n in merged.summary.items())
    echo(f"{counts}{merged.tally.coverage_words(merged.required_coverage)}\nResults: {out}")
    return int(merged.exit_code)


_MAX_SAMPLES = 3
_MAX_NAMES = 5
_CHINESE: Final = {
    "Nothing failed in these results.": "这些结果中没有失败的用例。",
    "Nothing of {} failed in these results.": "这些结果中，{} 没有失败的用例。",
    "{} failed, for {}": "{} 个用例失败，{} 个原因",
    "cause: {}": "原因：{}",
    "cases: {}": "用例：{}",
    "{} and {} more": "{} 等，另有 {} 个",
    "in {}: {}": "{}：{}",
    "{} = {}, expected {}": "{} = {}，应为 {}",
    "several operators": "多个算子",
    "wrong elements, {} from left to right (. none, 1–9 some, # all):": (
        "错误元素，每行 {} 个（. 无，1–9 部分，# 全部）："
    ),
}


def _translate(lang: str, words: str, *values: object) -> str:
    return (words if lang == "en" else _CHINESE[words]).format(*values)


def _page(report: RunReport, operator: str | None, lang: str) -> Iterator[str]:
    """The causes, those of most cases first; every case that failed is in one of them."""
    failing = [r for r in report.failing if operator in (None, r.operator)]
    if not failing:
        if operator is None:
            yield _translate(lang, "Nothing failed in these results.")
        else:
            yield _translate(lang, "Nothing of {} failed in these results.", escape(operator))
        return
    groups = cause_groups(failing, report.results, report.shapes)
    for group in groups:
        yield from _describe_group(group, lang)
        yield ""
    cases, causes = len(failing), len(groups)
    counts = (pluralize(cases, "case"), pluralize(causes, "cause")) if lang == "en" else (cases, causes)
    yield _translate(lang, "{} failed, for {}", *counts)


def _describe_group(group: CauseGroup, lang: str) -> Iterator[str]:
    if group.headline is None:
        outcome = group.example.outcome
        operator = escape(group.operator) or _translate(lang, "several operators")
        yield f"[bold]{operator}: {outcome.value if lang == 'en' else outcome.words[lang]}[/]"
        yield f"  {escape(format_reason(group.example.causes, lang))}"
    else:
        yield f"[bold]{escape(format_headline(group.headline, lang))}[/]"
        yield from (f"  {escape(words)}" for words in format_support(group.headline, lang))
        yield f"  {_translate(lang, 'cause: {}', group.mark)}"
    names = [escape(result.case) for result in group.members]
    listed = ", ".join(names[:_MAX_NAMES])
    if len(names) > _MAX_NAMES:
        listed = _translate(lang, "{} and {} more", listed, len(names) - _MAX_NAMES)
    yield f"  {_translate(lang, 'cases: {}', listed)}"
    output = "" if group.headline is None else group.headline.output
    # What the headline speaks of comes before what is wrong besides.
    for explanation in sorted(group.example.explained, key=lambda one: one.output != output):
        yield from _describe_example(escape(group.example.case), explanation, lang)


def _describe_example(case: str, explanation: Explanation, lang: str) -> Iterator[str]:
    yield f"  {_translate(lang, 'in {}: {}', case, escape(format_explanation(explanation, lang)))}"
    for sample in explanation.samples[:_MAX_SAMPLES]:
        place = f"{explanation.output}{list(sample.index)}" if sample.index else explanation.output
        values = escape(place), escape(sample.evaluated), escape(sample.baseline)
        yield f"    {_translate(lang, '{} = {}, expected {}', *values)}"
    error_map = explanation.map
    if error_map is not None and len(error_map.cells) > 1:
        across = error_map.width or explanation.dims[-1]
        words = _translate(lang, "wrong elements, {} from left to right (. none, 1–9 some, # all):", across)
        yield f"    {words}"
        for start in range(0, len(error_map.cells), error_map.columns):
            yield f"      {error_map.cells[start : start + error_map.columns]}"


@click.command("explain")
@click.argument("results", type=RESULTS)
@click.option("--op", metavar="OP", help="Only this operator, e.g. --op voxel_pooling_forward.")
@json_option()
@lang_option("Language of the explanations, e.g. --lang zh; JSON is in English.")
@no_garbage_collection()
def explain(results: Path, op: str | None, form: str, lang: str) -> None:
    """Say what is wrong in RESULTS, a results folder or a report.json: where, how, and in which cases.

    Failures with one cause stand together under one headline. The exit code is 0 even if cases failed: `mluops-test
    gate` judges them.

    Examples:
      mluops-test explain results                          why cases fail, cause by cause
      mluops-test explain latest                           of the newest run under ./mluops-results
      mluops-test explain results --op get_indice_pairs    of one operator
      mluops-test explain report.json --lang zh            in Chinese
      mluops-test explain results --format json            for programs
    """
    from mluops_gtest.base.errors import NothingSelectedError, suggestion
    from mluops_gtest.cli.terminal import print_page, stdout
    from mluops_gtest.results.folder import read_report

    report = read_report(results)
    known = sorted({result.operator for result in report.results})
    if op is not None and op not in known:
        raise NothingSelectedError(f"{results} has no case of {op!r}.{suggestion(op, known)}")
    if form == "json":
        from mluops_gtest.cli.echo import print_json
        from mluops_gtest.documents import to_json
        from mluops_gtest.results.writer import causes_of

        print_json(to_json(causes_of(report, op)))
    else:
        print_page(stdout(), _page(report, op, lang))
