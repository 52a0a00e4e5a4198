"""The report as one HTML file: nothing is loaded from anywhere, and nothing in it is read as markup by mistake."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from html import escape
from typing import Any

from mluops_gtest.errors import UsageError
from mluops_gtest.model.outcome import Outcome
from mluops_gtest.model.plain_text import plain
from mluops_gtest.model.reasons import reason_of
from mluops_gtest.model.report import RunReport
from mluops_gtest.model.result import CaseResult
from mluops_gtest.reports.html.embedding import elements_of, json_line
from mluops_gtest.reports.html.head import head
from mluops_gtest.reports.html.payload import payload, verdict
from mluops_gtest.reports.html.styles import static, styles
from mluops_gtest.reports.html.translations import WORDS
from mluops_gtest.reports.html.trends import HistoryTrends

_COLOURS = {
    "clear": (26, 127, 78),
    "blocked": (200, 50, 43),
    "empty": (176, 116, 12),
    "interrupted": (176, 116, 12),
}
_MAX_LISTED = 100


def render_html(
    report: RunReport,
    *,
    lang: str = "en",
    transitions: Mapping[str, str] | None = None,
    history: HistoryTrends | None = None,
    device: Mapping[str, Any] | None = None,
) -> str:
    """The page; the same report gives the same text.

    `transitions` says per case what became of it since a baseline, cases without a result included. `device` has
    `bandwidth` in bytes per second, `peak` in operations per second (a number, or one per data type) and a `name`.
    """
    if lang not in WORDS:
        raise UsageError(f"Unknown language {lang!r}; the page speaks {', '.join(WORDS)}.")
    words = WORDS[lang]
    style = styles()
    data, lines = payload(report, transitions, history, device, lang)
    script = f'(() => {{\n"use strict";\n{static(".js")}}})();'
    backend = str(report.backend.get("name", "?"))
    title = f"{_headline(report, words)} · {plain(backend)}"
    return f"""{head(lang, title, _COLOURS[verdict(report)], style, script)}<body>
<svg id="svg-namespace" width="0" height="0" hidden></svg>
<div id="page"></div>
<noscript>{_without_script(report, data, words, lang)}</noscript>
<script type="application/json" id="words">{json_line(words).decode()}</script>
{elements_of({"data": [json_line(data)], "lines": lines})}
<script>{script}</script>
</body>
</html>
"""


def _headline(report: RunReport, words: Mapping[str, str]) -> str:
    blocked = sum(count for word, count in report.summary.items() if Outcome.named(word).blocks)
    return words[f"verdict_{verdict(report)}"].format(n=blocked, all=len(report.results))


def _without_script(report: RunReport, data: Mapping[str, Any], words: Mapping[str, str], lang: str) -> str:
    """The counts per operator and the first blocking cases, for readers without JavaScript."""
    operators, found = (data["columns"].get(name, ()) for name in ("op", "outcome"))
    outcomes = list(Outcome)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for (operator, outcome), count in Counter(zip(operators, found, strict=True)).items():
        counts[data["pool"][operator]][outcomes[outcome].value] = count
    blocking = [place for place, outcome in enumerate(found) if outcomes[outcome].blocks]
    listed = [_blocking_line(report.results[place], words, lang) for place in blocking[:_MAX_LISTED]]
    present = list(report.summary)
    heads = [words["operator"], words["cases"], *(words[f"o_{outcome}"] for outcome in present)]
    rows = [[name, row.total(), *(row[outcome] for outcome in present)] for name, row in sorted(counts.items())]
    left = len(blocking) - len(listed)
    return (
        f"<main><h1>{escape(_headline(report, words))}</h1><p>{escape(words['noscript'])}</p>"
        f"{_table(heads, rows)}"
        f"{_table([words['outcome'], words['cases'], words['reason']], listed) if listed else ''}"
        f"{f'<p>… + {left}</p>' if left else ''}</main>"
    )


def _blocking_line(result: CaseResult, words: Mapping[str, str], lang: str) -> list[str]:
    return [words[f"o_{result.outcome.value}"], result.case, reason_of(result.causes, lang).partition("\n")[0]]


def _table(heads: list[str], rows: list[list[Any]]) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(plain(str(cell)))}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table class="plain"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
