"""HTML: a page of several runs side by side, with the cases on which they differ."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Final

from mluops_gtest.base.errors import UsageError
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.text import BRANCH, COMMIT
from mluops_gtest.core.cause import format_reason
from mluops_gtest.core.explanation import Explanation
from mluops_gtest.core.outcome import GRAVEST_FIRST, Outcome
from mluops_gtest.core.readings import format_explanation
from mluops_gtest.core.report import RunReport
from mluops_gtest.core.result import CaseResult
from mluops_gtest.results.reports.html import head, headline_of, read_static, styles, table_of, text_of
from mluops_gtest.results.reports.html_payload import find_causes, sample_cells
from mluops_gtest.results.reports.words import MATRIX_WORDS

if TYPE_CHECKING:
    from mluops_gtest.judging.groups import CauseGroup

# Differing cases that the page has room for.
_MAX_CASES: Final = 2000
_SHORT_COMMIT: Final = 10
_MAX_CAUSES: Final = 100
_ICON: Final = (36, 87, 197)


class Column(Value):
    """One run: a title that tells it from the others, its results by case, and why cases fail."""

    title: str
    report: RunReport
    results: Mapping[str, CaseResult]
    groups: tuple["CauseGroup", ...]
    # By case.
    causes: Mapping[str, "CauseGroup"]


def make_columns(reports: Mapping[str, RunReport]) -> tuple[Column, ...]:
    """A column per run; runs of one backend are told apart by commit, host or the path that they were read from."""
    names = [str(report.backend.get("name", "?")) for report in reports.values()]
    columns = []
    for (path, report), name in zip(reports.items(), names, strict=True):
        title = name if names.count(name) == 1 else f"{name} · {_distinguish(path, report, reports)}"
        groups = find_causes(report)
        causes = {result.case: group for group in groups for result in group.members}
        columns.append(Column(title, report, {result.case: result for result in report.results}, groups, causes))
    return tuple(columns)


def _distinguish(path: str, report: RunReport, reports: Mapping[str, RunReport]) -> str:
    for describe in (_commit, _host):
        words = [describe(one) for one in reports.values()]
        if all(words) and len(set(words)) == len(words):
            return describe(report)
    return path


def _commit(report: RunReport) -> str:
    return report.labels.get(COMMIT, "")[:_SHORT_COMMIT]


def _host(report: RunReport) -> str:
    hosts = sorted({result.host for result in report.results if result.host})
    return ", ".join(hosts) or str(report.environment.get("platform", ""))


def render_matrix(reports: Mapping[str, RunReport], lang: str = "en") -> str:
    """The page of these runs, by the paths that they were read from; the same reports give the same text."""
    if lang not in MATRIX_WORDS:
        raise UsageError(f"Unknown language {lang!r}; the page speaks {', '.join(MATRIX_WORDS)}.")
    words, columns = MATRIX_WORDS[lang], make_columns(reports)
    style = styles() + f":root {{ --runs: {len(columns)}; }}\n"
    title = words["title"].format(n=len(columns))
    script = read_static(".js", "static/matrix")
    return f"""{head(lang, title, _ICON, style, script)}<body>
<main class="matrix">
<h1>{escape(title)}</h1>
{"".join(_sections(columns, words, lang))}
</main>
<script>{script}</script>
</body>
</html>
"""


def _sections(columns: Sequence[Column], words: Mapping[str, str], lang: str) -> Iterator[str]:
    yield _panel("runs", _runs(columns, words, lang), words)
    yield _panel("operators", _operators(columns, words, lang), words)
    if any(column.groups for column in columns):
        yield _panel("causes", _causes(columns, words, lang), words)
    everything = sorted({case for column in columns for case in column.results})
    differing = [case for case in everything if len({_outcome(column, case) for column in columns} - {None}) > 1]
    gravity = {outcome: place for place, outcome in enumerate((*GRAVEST_FIRST, None))}
    differing.sort(key=lambda case: min(gravity[_outcome(column, case)] for column in columns))
    yield _panel("differ", "".join(_differing(columns, everything, differing, words, lang)), words)
    lacking = [(column.title, [case for case in everything if case not in column.results]) for column in columns]
    lists = [
        f"<details><summary>{text_of(title)}{_cell(None, str(len(cases)))}</summary>"
        f"<ul>{''.join(f'<li>{text_of(case)}</li>' for case in cases[:_MAX_CASES])}</ul></details>"
        for title, cases in lacking
        if cases
    ]
    if lists:
        yield _panel("lacking", f'<div class="lacking">{"".join(lists)}</div>', words)


def _panel(key: str, body: str, words: Mapping[str, str]) -> str:
    return f'<section class="panel" id="{key}"><h2>{escape(words[key])}</h2>{body}</section>\n'


def _differing(
    columns: Sequence[Column], everything: Sequence[str], differing: Sequence[str], words: Mapping[str, str], lang: str
) -> Iterator[str]:
    """The cases with different outcomes, those of one run alone left out; a heading and a filter above them."""
    yield f"<p>{escape(words['all'].format(n=len(everything), same=len(everything) - len(differing)))}</p>"
    if not differing:
        is_shared = any(sum(case in column.results for column in columns) > 1 for case in everything)
        yield f"<p>{escape(words['same' if is_shared else 'apart'])}</p>"
        return
    find = escape(words["find"])
    yield f'<p class="finding"><input type="search" id="find" placeholder="{find}" aria-label="{find}">'
    yield f'<output id="count" data-words="{escape(words["shown"])}"></output></p>'
    heads = "".join(f"<span>{text_of(title)}</span>" for title in (words["case"], *(one.title for one in columns)))
    yield f'<div class="scroll"><div class="heads">{heads}</div>'
    for case in differing[:_MAX_CASES]:
        yield _case(case, columns, words, lang)
    yield "</div>"
    if len(differing) > _MAX_CASES:
        yield f"<p>{escape(words['more'].format(n=len(differing) - _MAX_CASES))}</p>"


def _outcome(column: Column, case: str) -> Outcome | None:
    return column.results[case].outcome if case in column.results else None


def _runs(columns: Sequence[Column], words: Mapping[str, str], lang: str) -> str:
    rows = []
    heads = ["", words["backend"], words["machine"], words["commit"], words["started"], words["cases"]]
    for column in columns:
        report = column.report
        commit = " ".join(filter(None, (report.labels.get(BRANCH, ""), _commit(report))))
        counts = " ".join(
            _cell(Outcome.named(word), f"{number} {Outcome.named(word).words[lang]}")
            for word, number in report.summary.items()
        )
        started = report.started[:19].replace("T", " ")
        facts = [column.title, str(report.backend.get("spec", "")), _host(report), commit, started]
        cells = zip(heads, [*map(text_of, facts), counts], strict=True)
        rows.append("".join(f'<td data-head="{text_of(name)}">{cell}</td>' for name, cell in cells))
    return table_of(heads, rows, ' class="runs-table"')


def _operators(columns: Sequence[Column], words: Mapping[str, str], lang: str) -> str:
    counts: dict[str, list[Counter[Outcome]]] = {}
    for number, column in enumerate(columns):
        for result in column.report.results:
            row = counts.setdefault(result.operator or "?", [Counter() for _ in columns])
            row[number][result.outcome] += 1
    rows = []
    for operator, row in sorted(counts.items()):
        cells = "".join(f"<td>{_tally(tally, lang) or text_of(words['absent'])}</td>" for tally in row)
        rows.append(f"<th>{text_of(operator)}</th>{cells}")
    return table_of([words["operator"], *(column.title for column in columns)], rows, ' class="by-run"')


def _causes(columns: Sequence[Column], words: Mapping[str, str], lang: str) -> str:
    """How many cases each cause has in each run, the cause of most cases first."""
    counts: dict[str, list[int]] = {}
    headlines: dict[str, str] = {}
    for number, column in enumerate(columns):
        for group in column.groups:
            headline = headline_of(group, lang)
            key = group.mark or headline
            counts.setdefault(key, [0] * len(columns))[number] += len(group.members)
            headlines.setdefault(key, headline)
    ordered = sorted(counts.items(), key=lambda item: (-max(item[1]), item[0]))
    rows = []
    for key, row in ordered[:_MAX_CAUSES]:
        cells = "".join(f"<td>{_cell(Outcome.FAILED, str(count)) if count else '–'}</td>" for count in row)
        link = "" if headlines[key] == key else f' <a href="#{text_of(key)}"><code>{text_of(key)}</code></a>'
        rows.append(f"<th>{text_of(headlines[key])}{link}</th>{cells}")
    rest = len(ordered) - len(rows)
    more = f"<p>{escape(words['more_causes'].format(n=rest))}</p>" if rest else ""
    return table_of([words["cause"], *(column.title for column in columns)], rows, ' class="by-run"') + more


def _tally(tally: Counter[Outcome], lang: str) -> str:
    present = [outcome for outcome in GRAVEST_FIRST if tally[outcome]]
    return " ".join(_cell(one, f"{one.sign} {tally[one]}", one.words[lang]) for one in present)


def _case(case: str, columns: Sequence[Column], words: Mapping[str, str], lang: str) -> str:
    cells, facts, searched = [], [], [case]
    for column in columns:
        outcome, cause = _outcome(column, case), column.causes.get(case)
        cells.append(_cell(outcome, words["absent"] if outcome is None else f"{outcome.sign} {outcome.words[lang]}"))
        facts.append(f"<dt>{text_of(column.title)}</dt><dd>{_result_words(column, case, words, lang)}</dd>")
        searched += [] if outcome is None else [outcome.value, outcome.words[lang]]
        searched += [] if cause is None else [cause.mark]
    said = " ".join(dict.fromkeys(searched)).lower()
    summary = f'<summary><span class="id">{text_of(case)}</span>{"".join(cells)}</summary>'
    return f'<details id="{text_of(case)}" data-words="{text_of(said)}">{summary}<dl>{"".join(facts)}</dl></details>\n'


def _result_words(column: Column, case: str, words: Mapping[str, str], lang: str) -> str:
    """What one run says of a case: the headline of its cause, why, the readings, and how to repeat it."""
    result, cause = column.results.get(case), column.causes.get(case)
    if result is None:
        return text_of(words["absent"])
    headline = f"<b>{text_of(headline_of(cause, lang))}</b>" if cause and cause.headline is not None else ""
    lines = [line for one in result.explained for line in (format_explanation(one, lang), *_samples(one, words))]
    lines.append(format_reason(result.causes, lang) or result.outcome.words[lang])
    lines += [f"{r.output}: {r.criterion} = {r.value:.4g}, ≤ {r.threshold:g}" for r in result.readings]
    if result.outcome.blocks and result.repro:
        lines.append(result.repro)
    return headline + "<pre>" + "\n".join(map(text_of, lines)) + "</pre>"


def _samples(explained: Explanation, words: Mapping[str, str]) -> Iterator[str]:
    for element, got, expected in sample_cells(explained):
        yield "  " + words["sample"].format(element=element, got=got, expected=expected)


def _cell(outcome: Outcome | None, text: str, hint: str = "") -> str:
    title = f' title="{text_of(hint)}"' if hint else ""
    return f'<span class="cell o-{outcome.value if outcome else "absent"}"{title}>{text_of(text)}</span>'
