"""HTML: a page for one run, one for several, and pieces for notebooks, which have no scripts.

Nothing is loaded from anywhere, and nothing is read as markup by mistake.
"""

import base64
import hashlib
import math
import struct
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from itertools import groupby
from typing import Any, Final

from mluops_gtest.base.errors import UsageError
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.text import BRANCH, COMMIT, pluralize, strip_controls, strip_to_line
from mluops_gtest.core.case import Case
from mluops_gtest.core.cause import format_reason
from mluops_gtest.core.explanation import WrongMap
from mluops_gtest.core.outcome import GRAVEST_FIRST, Outcome, Tone
from mluops_gtest.core.readings import format_explanation
from mluops_gtest.core.report import RunReport
from mluops_gtest.core.result import CaseResult
from mluops_gtest.core.tensor import Tensor
from mluops_gtest.results.reports.html_payload import HistoryTrends, elements_of, json_line, payload, verdict
from mluops_gtest.results.reports.words import MATRIX_WORDS, PAGE_WORDS

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
    gravity = {outcome: place for place, outcome in enumerate((*GRAVEST_FIRST, None))}
    differing.sort(key=lambda case: min(gravity[_outcome(column, case)] for column in columns))
    for case in differing[:_MAX_CASES]:
        yield _case(case, columns, words, lang)
    if len(differing) > _MAX_CASES:
        yield f"<p>{escape(words['more'].format(n=len(differing) - _MAX_CASES))}</p>"
    yield "</section>"


def _outcome(column: Column, case: str) -> Outcome | None:
    return column.results[case].outcome if case in column.results else None


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
        rows.append(f"{_row(cells)}<td>{counts}</td>")
    heads = ["", words["backend"], words["machine"], words["commit"], words["started"], words["cases"]]
    return _table(heads, rows)


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
    return _table([words["operator"], *(column.title for column in columns)], rows)


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


def _row(cells: Iterable[str], tag: str = "td") -> str:
    return "".join(f"<{tag}>{_text(cell)}</{tag}>" for cell in cells)


def _table(heads: Sequence[str], rows: Iterable[str], kind: str = "") -> str:
    head = _row(heads, "th")
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="scroll"><table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _text(text: str) -> str:
    return escape(strip_to_line(text))


_AMBER = (176, 116, 12)
_ICONS = {"clear": (26, 127, 78), "blocked": (200, 50, 43), "empty": _AMBER, "interrupted": _AMBER}
_MAX_LISTED = 100


def render_html(
    report: RunReport,
    *,
    lang: str = "en",
    transitions: Mapping[str, str] | None = None,
    history: HistoryTrends | None = None,
) -> str:
    """The page; the same report gives the same text.

    `transitions` says per case what became of it since a baseline, cases without a result included.
    """
    if lang not in PAGE_WORDS:
        raise UsageError(f"Unknown language {lang!r}; the page speaks {', '.join(PAGE_WORDS)}.")
    words = PAGE_WORDS[lang]
    style = styles()
    data, lines = payload(report, transitions, history, lang)
    script = f'(() => {{\n"use strict";\n{read_static(".js")}}})();'
    backend = str(report.backend.get("name", "?"))
    title = f"{_headline(report, words)} · {strip_controls(backend)}"
    return f"""{head(lang, title, _ICONS[verdict(report)], style, script)}<body>
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
        f"{_plain_table(heads, rows)}"
        f"{_plain_table([words['outcome'], words['cases'], words['reason']], listed) if listed else ''}"
        f"{f'<p>… + {rest}</p>' if rest else ''}</main>"
    )


def _plain_table(heads: list[str], rows: list[list[Any]]) -> str:
    cells = ("".join(f"<td>{escape(strip_controls(str(cell)))}</td>" for cell in row) for row in rows)
    return _table(heads, cells, ' class="plain"')


# Readable on light and on dark pages; notebooks strip style sheets, so each element has its own.
_TONES: Final = {
    Tone.GOOD: "#1a7f37",
    Tone.BAD: "#d1242f",
    Tone.ODD: "#8250df",
    Tone.WARN: "#9a6700",
    Tone.CALM: "#6e7781",
}
_CELL: Final = 6
_HISTOGRAM_HEIGHT: Final = 40
# An error of 2^-30 or less is hardly seen, one of 1 or more is red.
_LEAST_EXPONENT: Final = -30


def report_html(report: RunReport, most: int) -> str:
    """The summary, and what is known of the gravest failures, at most so many."""
    name = str(report.backend.get("name", "?"))
    failing = sorted(report.failing, key=lambda result: GRAVEST_FIRST.index(result.outcome))
    counts = ((Outcome.named(word), number) for word, number in report.summary.items())
    lines = [
        f"<div><b>{pluralize(len(report.results), 'case')} on {_text(name)}</b>, {report.seconds:.1f} s: "
        + ", ".join(_coloured(f"{number} {one.words['en']}", one) for one, number in counts)
    ]
    for number, result in enumerate(failing[:most]):
        opened = " open" if number == 0 else ""
        lines.append(f"<details{opened}><summary>{_title(result)}</summary>{''.join(_parts(result))}</details>")
    if len(failing) > most:
        lines.append(f"<p>{len(failing) - most} more did not pass.</p>")
    return "\n".join([*lines, "</div>"])


def result_html(result: CaseResult) -> str:
    """One result: its verdict, readings, explanation and pictures."""
    return f"<div>{_title(result)}{''.join(_parts(result))}</div>"


def case_html(case: Case) -> str:
    """One case: parameters, tensors and what must come back."""
    sides = {"input": case.inputs, "output": case.outputs}
    rows = [_tensor_row(kind, tensor) for kind, tensors in sides.items() for tensor in tensors]
    params = ", ".join(f"{_text(name)} = {_text(str(value))}" for name, value in case.params.items())
    status = case.expect.status.name + (f" by the check {case.expect.check}" if case.expect.check else "")
    head = f"<b>{_text(case.id)}</b> must answer {_text(status)}<br>{_text(case.doc)}"
    return f"<div>{head}<br>{params}{_bare_table(('', 'tensor', 'type', 'shape', 'smallest', 'largest'), rows)}</div>"


def _title(result: CaseResult) -> str:
    sign, word = (_coloured(text, result.outcome) for text in (result.outcome.sign, result.outcome.words["en"]))
    return f"{sign} <b>{_text(result.case)}</b> {word}"


def _parts(result: CaseResult) -> Iterator[str]:
    if result.reason:
        yield f"<p>{_text(result.reason)}</p>"
    for explanation in result.explained:
        yield f"<p>{_text(format_explanation(explanation))}</p>"
        if explanation.map is not None and len(explanation.map.cells) > 1:
            yield _figure(f"wrong elements of {explanation.output}", _wrong_map(explanation.map))
    if result.profile is not None:
        yield _figure(
            f"relative errors of {result.profile.output}, where they are",
            _grid(result.profile.columns, list(map(_share, result.profile.cells))),
        )
        yield _figure("how many, from 2^-30 to 1 and beyond", _histogram(result.profile.histogram))
    if result.readings:
        rows = [
            (r.output, r.criterion, f"{r.value:.4g}", f"{r.threshold:g}", "yes" if r.within else "no")
            for r in result.readings
        ]
        yield _bare_table(("output", "criterion", "value", "threshold", "within"), rows)
    if result.repro:
        yield f"<p><code>{_text(result.repro)}</code></p>"


def _coloured(text: str, outcome: Outcome) -> str:
    return f'<span style="color:{_TONES[outcome.tone]}">{_text(text)}</span>'


def _tensor_row(kind: str, tensor: Tensor) -> tuple[str, ...]:
    desc = tensor.desc
    ends = ("", "")
    if tensor.data is not None and tensor.data.size and tensor.data.dtype.kind in "fiu":
        ends = (f"{tensor.data.min():g}", f"{tensor.data.max():g}")
    return (kind, tensor.id, desc.dtype.value, " × ".join(map(str, desc.dims)), *ends)


def _bare_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = "".join(f"<tr>{_row(row)}</tr>" for row in rows)
    return f"<table><tr>{_row(head, 'th')}</tr>{lines}</table>"


def _figure(caption: str, picture: str) -> str:
    return f"<figure style='margin:4px 0'><figcaption>{_text(caption)}</figcaption>{picture}</figure>"


def _wrong_map(seen: WrongMap) -> str:
    shares = {".": 0.0, "#": 1.0, **{str(tenth): tenth / 10 for tenth in range(10)}}
    return _grid(seen.columns, [shares[sign] for sign in seen.cells])


def _share(error: float) -> float:
    """How strongly an error is shown, by its binary exponent; NaN and infinity are the strongest."""
    if not math.isfinite(error):
        return 1.0
    if error <= 0.0:
        return 0.0
    return min(1.0, max(0.05, 1.0 - (math.frexp(error)[1] - 1) / _LEAST_EXPONENT))


def _grid(columns: int, shares: Sequence[float]) -> str:
    """Red squares, the stronger the larger the share; equal neighbours of a row are one rectangle."""
    rows = -(-len(shares) // columns)
    parts = []
    for row in range(rows):
        column = 0
        for share, neighbours in groupby(shares[row * columns : (row + 1) * columns]):
            width = len(list(neighbours))
            if share:
                parts.append(
                    f'<rect x="{column * _CELL}" y="{row * _CELL}" width="{width * _CELL}" height="{_CELL}" '
                    f'fill="{_TONES[Tone.BAD]}" fill-opacity="{share:.2f}"/>'
                )
            column += width
    return _svg(columns * _CELL, rows * _CELL, parts)


def _histogram(counts: Sequence[int]) -> str:
    largest = max(counts, default=0)
    bars = []
    for number, count in enumerate(counts):
        height = math.ceil(_HISTOGRAM_HEIGHT * math.log1p(count) / math.log1p(largest)) if largest else 0
        if height:
            bars.append(
                f'<rect x="{number * _CELL}" y="{_HISTOGRAM_HEIGHT - height}" width="{_CELL - 1}" height="{height}" '
                f'fill="{_TONES[Tone.CALM]}"/>'
            )
    return _svg(len(counts) * _CELL, _HISTOGRAM_HEIGHT, bars)


def _svg(width: int, height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'style="border:1px solid {_TONES[Tone.CALM]}">{"".join(parts)}</svg>'
    )
