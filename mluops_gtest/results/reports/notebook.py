"""Reports, results and cases as pieces of HTML for notebooks: no scripts, nothing from elsewhere."""

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from mluops_gtest.base.text import pluralize, strip_to_line
from mluops_gtest.core.case import Case
from mluops_gtest.core.explanation import WrongMap
from mluops_gtest.core.outcome import GRAVEST_FIRST, Outcome, Tone
from mluops_gtest.core.reasons.explained import explanation_words
from mluops_gtest.core.report import RunReport
from mluops_gtest.core.result import CaseResult, Profile
from mluops_gtest.core.tensor import Tensor

# Readable on light and on dark pages; notebooks strip style sheets, so each element has its own.
_COLOURS: Final = {
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
    lines += [
        f"<details{' open' if number == 0 else ''}><summary>{_title(result)}</summary>{_body(result)}</details>"
        for number, result in enumerate(failing[:most])
    ]
    if len(failing) > most:
        lines.append(f"<p>{len(failing) - most} more did not pass.</p>")
    return "\n".join([*lines, "</div>"])


def result_html(result: CaseResult) -> str:
    """One result: its verdict, readings, explanation and pictures."""
    return f"<div>{_title(result)}{_body(result)}</div>"


def case_html(case: Case) -> str:
    """One case: parameters, tensors and what must come back."""
    rows = [
        *(_tensor_row("input", tensor) for tensor in case.inputs),
        *(_tensor_row("output", tensor) for tensor in case.outputs),
    ]
    params = ", ".join(f"{_text(name)} = {_text(str(value))}" for name, value in case.params.items())
    status = case.expect.status.name + (f" by the check {case.expect.check}" if case.expect.check else "")
    head = f"<b>{_text(case.id)}</b> must answer {_text(status)}<br>{_text(case.doc)}"
    return f"<div>{head}<br>{params}{_table(('', 'tensor', 'type', 'shape', 'smallest', 'largest'), rows)}</div>"


def _title(result: CaseResult) -> str:
    sign, word = (_coloured(text, result.outcome) for text in (result.outcome.sign, result.outcome.words["en"]))
    return f"{sign} <b>{_text(result.case)}</b> {word}"


def _body(result: CaseResult) -> str:
    return "".join(_parts(result))


def _parts(result: CaseResult) -> Iterator[str]:
    if result.reason:
        yield f"<p>{_text(result.reason)}</p>"
    for explanation in result.explained:
        yield f"<p>{_text(explanation_words(explanation))}</p>"
        if explanation.map is not None and len(explanation.map.cells) > 1:
            yield _figure(f"wrong elements of {explanation.output}", _wrong_map(explanation.map))
    if result.profile is not None:
        yield _figure(f"relative errors of {result.profile.output}, where they are", _error_map(result.profile))
        yield _figure("how many, from 2^-30 to 1 and beyond", _histogram(result.profile.histogram))
    if result.readings:
        rows = [
            (r.output, r.criterion, f"{r.value:.4g}", f"{r.threshold:g}", "yes" if r.within else "no")
            for r in result.readings
        ]
        yield _table(("output", "criterion", "value", "threshold", "within"), rows)
    if result.repro:
        yield f"<p><code>{_text(result.repro)}</code></p>"


def _coloured(text: str, outcome: Outcome) -> str:
    return f'<span style="color:{_COLOURS[outcome.tone]}">{_text(text)}</span>'


def _tensor_row(kind: str, tensor: Tensor) -> tuple[str, ...]:
    desc = tensor.desc
    ends = ("", "")
    if tensor.data is not None and tensor.data.size and tensor.data.dtype.kind in "fiu":
        ends = (f"{tensor.data.min():g}", f"{tensor.data.max():g}")
    return (kind, tensor.id, desc.dtype.value, " × ".join(map(str, desc.dims)), *ends)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    titles = "".join(f"<th>{_text(title)}</th>" for title in head)
    lines = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{titles}</tr>{lines}</table>"


def _figure(caption: str, picture: str) -> str:
    return f"<figure style='margin:4px 0'><figcaption>{_text(caption)}</figcaption>{picture}</figure>"


def _wrong_map(seen: WrongMap) -> str:
    shares = {".": 0.0, "#": 1.0}
    return _grid(seen.columns, [shares.get(sign) if sign in shares else int(sign) / 10 for sign in seen.cells])


def _error_map(profile: Profile) -> str:
    return _grid(profile.columns, [_share(cell) for cell in profile.cells])


def _share(error: float) -> float:
    """How strongly an error is shown, by its binary exponent; NaN and infinity are the strongest."""
    if not math.isfinite(error):
        return 1.0
    if error <= 0.0:
        return 0.0
    return min(1.0, max(0.05, 1.0 - (math.frexp(error)[1] - 1) / _LEAST_EXPONENT))


def _grid(columns: int, shares: Sequence[float | None]) -> str:
    """Red squares, the stronger the larger the share; equal neighbours of a row are one rectangle."""
    rows = -(-len(shares) // columns)
    parts = []
    for row in range(rows):
        start = row * columns
        line = [0.0 if share is None else share for share in shares[start : start + columns]]
        column = 0
        while column < len(line):
            end = column
            while end < len(line) and line[end] == line[column]:
                end += 1
            if line[column]:
                parts.append(
                    f'<rect x="{column * _CELL}" y="{row * _CELL}" width="{(end - column) * _CELL}" height="{_CELL}" '
                    f'fill="{_COLOURS[Tone.BAD]}" fill-opacity="{line[column]:.2f}"/>'
                )
            column = end
    return _svg(columns * _CELL, rows * _CELL, parts)


def _histogram(counts: Sequence[int]) -> str:
    largest = max(counts, default=0)
    bars = []
    for number, count in enumerate(counts):
        height = math.ceil(_HISTOGRAM_HEIGHT * math.log1p(count) / math.log1p(largest)) if largest else 0
        if height:
            bars.append(
                f'<rect x="{number * _CELL}" y="{_HISTOGRAM_HEIGHT - height}" width="{_CELL - 1}" height="{height}" '
                f'fill="{_COLOURS[Tone.CALM]}"/>'
            )
    return _svg(len(counts) * _CELL, _HISTOGRAM_HEIGHT, bars)


def _svg(width: int, height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'style="border:1px solid {_COLOURS[Tone.CALM]}">{"".join(parts)}</svg>'
    )


def _text(text: str) -> str:
    return escape(strip_to_line(text))
