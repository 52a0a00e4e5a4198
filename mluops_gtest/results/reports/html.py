"""HTML: the page of a run, and pieces for notebooks, which have no scripts.

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
from typing import TYPE_CHECKING, Any, Final

from mluops_gtest.base.errors import UsageError
from mluops_gtest.base.text import pluralize, strip_controls, strip_to_line
from mluops_gtest.core.case import Case
from mluops_gtest.core.cause import format_reason
from mluops_gtest.core.explanation import WrongMap
from mluops_gtest.core.outcome import Outcome, Tone
from mluops_gtest.core.readings import format_explanation, format_headline
from mluops_gtest.core.report import RunReport
from mluops_gtest.core.result import CaseResult
from mluops_gtest.core.tensor import Tensor
from mluops_gtest.results.reports.html_payload import (
    HistoryTrends,
    elements_of,
    find_causes,
    json_line,
    payload,
    sample_cells,
    verdict,
)
from mluops_gtest.results.reports.words import PAGE_WORDS

if TYPE_CHECKING:
    from mluops_gtest.judging.groups import CauseGroup

# What browsers and screen readers call the language.
LANGUAGE_TAGS = {"en": "en", "zh": "zh-CN"}


def styles() -> str:
    """The colours of every outcome, and all style sheets."""
    rules = "{{ --word: var(--{0}); --under: var(--{0}-ground); --solid: var(--fill-{0}); }}\n"
    tones = "".join(f".o-{outcome.value} {rules.format(outcome.tone.value)}" for outcome in Outcome)
    return tones + read_static(".css")


def read_static(ending: str, folder: str = "static") -> str:
    """All files of one kind, in the order of their names."""
    found = [file for file in files(__package__).joinpath(folder).iterdir() if file.name.endswith(ending)]
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


def row_of(cells: Iterable[str], tag: str = "td") -> str:
    """The cells of a row."""
    return "".join(f"<{tag}>{text_of(cell)}</{tag}>" for cell in cells)


def table_of(heads: Sequence[str], rows: Iterable[str], kind: str = "") -> str:
    """A table with these headings; `rows` are the cells of each, `kind` an attribute."""
    head = row_of(heads, "th")
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="scroll"><table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def text_of(text: str) -> str:
    """The text on one line, none of it markup."""
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
    return table_of(heads, cells, ' class="plain"')


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
# Cases that a cause names in a notebook.
_MAX_NAMED: Final = 10
# An error of 2^-30 or less is hardly seen, one of 1 or more is red.
_LEAST_EXPONENT: Final = -30


def headline_of(group: "CauseGroup", lang: str) -> str:
    """What a group has in common in a line: its headline, else operator, outcome and reason of its smallest case."""
    if group.headline is not None:
        return format_headline(group.headline, lang)
    reason = format_reason(group.example.causes, lang).partition("\n")[0]
    return ": ".join(filter(None, (group.operator, group.example.outcome.words[lang], reason)))


def report_html(report: RunReport, most: int) -> str:
    """The summary, then why cases fail, at most so many causes, with all that is known of an example of each."""
    name = str(report.backend.get("name", "?"))
    counts = ((Outcome.named(word), number) for word, number in report.summary.items())
    lines = [
        f"<div><b>{pluralize(len(report.results), 'case')} on {text_of(name)}</b>, {report.seconds:.1f} s: "
        + ", ".join(_coloured(f"{number} {one.words['en']}", one) for one, number in counts)
    ]
    groups = find_causes(report)
    for number, group in enumerate(groups[:most]):
        opened = " open" if number == 0 else ""
        size = _coloured(pluralize(len(group.members), "case"), group.example.outcome)
        names = ", ".join(result.case for result in group.members[:_MAX_NAMED])
        rest = len(group.members) - _MAX_NAMED
        more = f" and {rest} more" if rest > 0 else ""
        lines.append(
            f"<details{opened}><summary>{size} <b>{text_of(headline_of(group, 'en'))}</b></summary>"
            f"<p>{text_of(names + more)}</p>{result_html(group.example)}</details>"
        )
    if len(groups) > most:
        lines.append(f"<p>{pluralize(len(groups) - most, 'more cause')}.</p>")
    return "\n".join([*lines, "</div>"])


def result_html(result: CaseResult) -> str:
    """One result: its verdict, readings, explanation and pictures."""
    return f"<div>{_title(result)}{''.join(_parts(result))}</div>"


def case_html(case: Case) -> str:
    """One case: parameters, tensors and what must come back."""
    sides = {"input": case.inputs, "output": case.outputs}
    rows = [_tensor_row(kind, tensor) for kind, tensors in sides.items() for tensor in tensors]
    params = ", ".join(f"{text_of(name)} = {text_of(str(value))}" for name, value in case.params.items())
    status = case.expect.status.name + (f" by the check {case.expect.check}" if case.expect.check else "")
    head = f"<b>{text_of(case.id)}</b> must answer {text_of(status)}<br>{text_of(case.doc)}"
    return f"<div>{head}<br>{params}{_bare_table(('', 'tensor', 'type', 'shape', 'smallest', 'largest'), rows)}</div>"


def _title(result: CaseResult) -> str:
    sign, word = (_coloured(text, result.outcome) for text in (result.outcome.sign, result.outcome.words["en"]))
    return f"{sign} <b>{text_of(result.case)}</b> {word}"


def _parts(result: CaseResult) -> Iterator[str]:
    for explanation in result.explained:
        yield f"<p>{text_of(format_explanation(explanation))}</p>"
        if explanation.samples:
            yield _bare_table(("element", "evaluated", "baseline"), sample_cells(explanation))
        if explanation.map is not None and len(explanation.map.cells) > 1:
            yield _figure(f"wrong elements of {explanation.output}", _wrong_map(explanation.map))
    if result.reason:
        yield f"<p>{text_of(result.reason)}</p>"
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
        yield f"<p><code>{text_of(result.repro)}</code></p>"


def _coloured(text: str, outcome: Outcome) -> str:
    return f'<span style="color:{_TONES[outcome.tone]}">{text_of(text)}</span>'


def _tensor_row(kind: str, tensor: Tensor) -> tuple[str, ...]:
    desc = tensor.desc
    ends = ("", "")
    if tensor.data is not None and tensor.data.size and tensor.data.dtype.kind in "fiu":
        ends = (f"{tensor.data.min():g}", f"{tensor.data.max():g}")
    return (kind, tensor.id, desc.dtype.value, " × ".join(map(str, desc.dims)), *ends)


def _bare_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = "".join(f"<tr>{row_of(row)}</tr>" for row in rows)
    return f"<table><tr>{row_of(head, 'th')}</tr>{lines}</table>"


def _figure(caption: str, picture: str) -> str:
    return f"<figure style='margin:4px 0'><figcaption>{text_of(caption)}</figcaption>{picture}</figure>"


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
