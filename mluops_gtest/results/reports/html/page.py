"""Pages for one run and for several: nothing is loaded from anywhere, and nothing is read as markup by mistake."""

import base64
import hashlib
import struct
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any, Final

from mluops_gtest.base.errors import UsageError
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.text import BRANCH, COMMIT, strip_controls, strip_to_line
from mluops_gtest.core.cause import format_reason
from mluops_gtest.core.outcome import GRAVEST_FIRST, Outcome
from mluops_gtest.core.report import RunReport
from mluops_gtest.core.result import CaseResult
from mluops_gtest.results.reports.html.payload import HistoryTrends, elements_of, json_line, payload, verdict
from mluops_gtest.results.reports.html.words import MATRIX_WORDS, WORDS

# What browsers and screen readers call the language.
LANGUAGE_TAGS = {"en": "en", "zh": "zh-CN"}


def styles() -> str:
    """The colours of every outcome, and all style sheets."""
    rules = "{{ --word: var(--{0}); --under: var(--{0}-ground); --solid: var(--fill-{0}); }}\n"
    tones = "".join(f".o-{outcome.value} {rules.format(outcome.tone.value)}" for outcome in Outcome)
    return tones + read_static(".css")


def read_static(ending: str) -> str:
    """All files of one kind, in the order of their names."""
    found = [file for file in files(__package__).joinpath("static").iterdir() if file.name.endswith(ending)]
    return "".join(file.read_text(encoding="utf-8") for file in sorted(found, key=lambda file: file.name))


def digest(text: str) -> str:
    """The source expression that allows this one inline text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


_SIZE = 32


def favicon(red: int, green: int, blue: int) -> str:
    """A PNG of a dot as a data address; a page without an icon makes browsers ask the server for one."""
    centre, radius = (_SIZE - 1) / 2, _SIZE / 2 - 1.5
    rows = bytearray()
    for y in range(_SIZE):
        rows.append(0)  # the row's filter: none
        for x in range(_SIZE):
            distance = ((x - centre) ** 2 + (y - centre) ** 2) ** 0.5
            opacity = min(max(radius + 0.5 - distance, 0.0), 1.0)
            rows += bytes((red, green, blue, round(255 * opacity)))
    header = struct.pack(">IIBBBBB", _SIZE, _SIZE, 8, 6, 0, 0, 0)
    png = (
        b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows, 9)) + _chunk(b"IEND", b"")
    )
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def head(lang: str, title: str, icon: tuple[int, int, int], style: str, script: str | None = None) -> str:
    """All up to the body; the policy allows this style and this script, and nothing else."""
    scripts = "" if script is None else f" script-src {digest(script)};"
    policy = f"default-src 'none'; img-src data:; style-src {digest(style)};{scripts} base-uri 'none'"
    return f"""<!DOCTYPE html>
<html lang="{LANGUAGE_TAGS[lang]}" data-theme="auto">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<link rel="icon" href="{favicon(*icon)}">
<style>{style}</style>
</head>
"""


# Differing cases that the page has room for.
_MAX_CASES: Final = 2000
_SHORT_COMMIT: Final = 10
_ICON: Final = (36, 87, 197)


class Column(Value):
    """One run: a title that tells it from the others, and its results by case."""

    title: str
    report: RunReport
    results: Mapping[str, CaseResult]


def make_columns(reports: Mapping[str, RunReport]) -> tuple[Column, ...]:
    """A column per run; runs of one backend are told apart by commit, host or the path that they were read from."""
    names = [str(report.backend.get("name", "?")) for report in reports.values()]
    columns = []
    for (path, report), name in zip(reports.items(), names, strict=True):
        title = name if names.count(name) == 1 else f"{name} · {_distinguish(path, report, reports)}"
        columns.append(Column(title, report, {result.case: result for result in report.results}))
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
    return f"""{head(lang, title, _ICON, style)}<body>
<main class="matrix">
<h1>{escape(title)}</h1>
{"".join(_sections(columns, words, lang))}
</main>
</body>
</html>
"""


def _sections(columns: Sequence[Column], words: Mapping[str, str], lang: str) -> Iterator[str]:
    yield f'<section class="panel"><h2>{escape(words["runs"])}</h2>{_runs(columns, words, lang)}</section>\n'
    yield f'<section class="panel"><h2>{escape(words["operators"])}</h2>{_operators(columns, words, lang)}</section>\n'
    everything = sorted({case for column in columns for case in column.results})
    differing = [case for case in everything if len({_outcome(column, case) for column in columns}) > 1]
    summary = words["all"].format(n=len(everything), same=len(everything) - len(differing))
    yield f'<section class="panel"><h2>{escape(words["differ"])}</h2><p>{escape(summary)}</p>'
    if not differing:
        yield f"<p>{escape(words['same'])}</p>"
    differing.sort(key=lambda case: min(_gravity(_outcome(column, case)) for column in columns))
    for case in differing[:_MAX_CASES]:
        yield _case(case, columns, words, lang)
    if len(differing) > _MAX_CASES:
        yield f"<p>{escape(words['more'].format(n=len(differing) - _MAX_CASES))}</p>"
    yield "</section>"


def _outcome(column: Column, case: str) -> Outcome | None:
    return column.results[case].outcome if case in column.results else None


def _gravity(outcome: Outcome | None) -> int:
    return len(GRAVEST_FIRST) if outcome is None else GRAVEST_FIRST.index(outcome)


def _runs(columns: Sequence[Column], words: Mapping[str, str], lang: str) -> str:
    rows = []
    for column in columns:
        report = column.report
        commit = " ".join(filter(None, (report.labels.get(BRANCH, ""), _commit(report))))
        counts = " ".join(
            _cell(Outcome.named(word), f"{number} {Outcome.named(word).words[lang]}")
            for word, number in report.summary.items()
        )
        started = report.started[:19].replace("T", " ")
        cells = [column.title, str(report.backend.get("spec", "")), _host(report), commit, started]
        rows.append("".join(f"<td>{_text(cell)}</td>" for cell in cells) + f"<td>{counts}</td>")
    heads = ["", words["backend"], words["machine"], words["commit"], words["started"], words["cases"]]
    return _outcome_table(heads, rows)


def _operators(columns: Sequence[Column], words: Mapping[str, str], lang: str) -> str:
    counts: dict[str, list[Counter[Outcome]]] = {}
    for number, column in enumerate(columns):
        for result in column.report.results:
            row = counts.setdefault(result.operator or "?", [Counter() for _ in columns])
            row[number][result.outcome] += 1
    rows = []
    for operator, row in sorted(counts.items()):
        cells = "".join(f"<td>{_tally(tally, lang) or _text(words['absent'])}</td>" for tally in row)
        rows.append(f"<th>{_text(operator)}</th>{cells}")
    return _outcome_table([words["operator"], *(column.title for column in columns)], rows)


def _tally(tally: Counter[Outcome], lang: str) -> str:
    present = [outcome for outcome in GRAVEST_FIRST if tally[outcome]]
    return " ".join(_cell(one, f"{one.sign} {tally[one]}", one.words[lang]) for one in present)


def _case(case: str, columns: Sequence[Column], words: Mapping[str, str], lang: str) -> str:
    cells = []
    for column in columns:
        outcome = _outcome(column, case)
        absent = f"<span>{_text(words['absent'])}</span>"
        cells.append(absent if outcome is None else _cell(outcome, f"{outcome.sign} {outcome.words[lang]}"))
    facts = "".join(
        f"<dt>{_text(column.title)}</dt><dd>{_result_words(column.results.get(case), words, lang)}</dd>"
        for column in columns
    )
    return (
        f'<details><summary><span class="id">{_text(case)}</span>{"".join(cells)}</summary><dl>{facts}</dl></details>\n'
    )


def _result_words(result: CaseResult | None, words: Mapping[str, str], lang: str) -> str:
    """What one run says of a case: why, the readings, and how to repeat it."""
    if result is None:
        return _text(words["absent"])
    lines = [format_reason(result.causes, lang) or result.outcome.words[lang]]
    lines += [f"{r.output}: {r.criterion} = {r.value:.4g}, ≤ {r.threshold:g}" for r in result.readings]
    if result.outcome.blocks and result.repro:
        lines.append(result.repro)
    return "<pre>" + "\n".join(map(_text, lines)) + "</pre>"


def _cell(outcome: Outcome, text: str, hint: str = "") -> str:
    title = f' title="{_text(hint)}"' if hint else ""
    return f'<span class="cell o-{outcome.value}"{title}>{_text(text)}</span>'


def _outcome_table(heads: Sequence[str], rows: Sequence[str]) -> str:
    head = "".join(f"<th>{_text(text)}</th>" for text in heads)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _text(text: str) -> str:
    return escape(strip_to_line(text))


_AMBER = (176, 116, 12)
_COLOURS = {"clear": (26, 127, 78), "blocked": (200, 50, 43), "empty": _AMBER, "interrupted": _AMBER}
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
    script = f'(() => {{\n"use strict";\n{read_static(".js")}}})();'
    backend = str(report.backend.get("name", "?"))
    title = f"{_headline(report, words)} · {strip_controls(backend)}"
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
    shown = [report.results[place] for place in blocking[:_MAX_LISTED]]
    listed = [
        [words[f"o_{one.outcome.value}"], one.case, format_reason(one.causes, lang).partition("\n")[0]] for one in shown
    ]
    present = list(report.summary)
    heads = [words["operator"], words["cases"], *(words[f"o_{outcome}"] for outcome in present)]
    rows = [[name, row.total(), *(row[outcome] for outcome in present)] for name, row in sorted(counts.items())]
    rest = len(blocking) - len(listed)
    return (
        f"<main><h1>{escape(_headline(report, words))}</h1><p>{escape(words['noscript'])}</p>"
        f"{_table(heads, rows)}"
        f"{_table([words['outcome'], words['cases'], words['reason']], listed) if listed else ''}"
        f"{f'<p>… + {rest}</p>' if rest else ''}</main>"
    )


def _table(heads: list[str], rows: list[list[Any]]) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(strip_controls(str(cell)))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f'<div class="scroll"><table class="plain"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
