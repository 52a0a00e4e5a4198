"""Why cases fail, for people: a headline per cause, what it rests on, and a small case that shows it, with a map."""

from collections.abc import Iterator
from typing import Final

from mluops_gtest.explain.groups import CauseGroup, cause_groups
from mluops_gtest.model.counted import counted
from mluops_gtest.model.explanation import Explanation, WrongMap
from mluops_gtest.model.reasons import reason_of
from mluops_gtest.model.reasons.explained import explanation_words, headline_words, support_words
from mluops_gtest.model.report import RunReport
from mluops_gtest.reports.markup import escape

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


def _said(lang: str, words: str, *values: object) -> str:
    return (words if lang == "en" else _CHINESE[words]).format(*values)


def explain_page(report: RunReport, operator: str | None, lang: str) -> Iterator[str]:
    """The causes, those of most cases first; every case that failed is in one of them."""
    failing = [r for r in report.failing if operator in (None, r.operator)]
    if not failing:
        if operator is None:
            yield _said(lang, "Nothing failed in these results.")
        else:
            yield _said(lang, "Nothing of {} failed in these results.", escape(operator))
        return
    groups = cause_groups(failing, report.results, report.shapes)
    for group in groups:
        yield from _group(group, lang)
        yield ""
    cases, causes = len(failing), len(groups)
    told = (counted(cases, "case"), counted(causes, "cause")) if lang == "en" else (cases, causes)
    yield _said(lang, "{} failed, for {}", *told)


def _group(group: CauseGroup, lang: str) -> Iterator[str]:
    if group.headline is None:
        outcome = group.example.outcome
        operator = escape(group.operator) or _said(lang, "several operators")
        yield f"[bold]{operator}: {outcome.value if lang == 'en' else outcome.words[lang]}[/]"
        yield f"  {escape(reason_of(group.example.causes, lang))}"
    else:
        yield f"[bold]{escape(headline_words(group.headline, lang))}[/]"
        yield from (f"  {escape(words)}" for words in support_words(group.headline, lang))
        yield f"  {_said(lang, 'cause: {}', group.mark)}"
    names = [escape(result.case) for result in group.members]
    listed = ", ".join(names[:_MAX_NAMES])
    if len(names) > _MAX_NAMES:
        listed = _said(lang, "{} and {} more", listed, len(names) - _MAX_NAMES)
    yield f"  {_said(lang, 'cases: {}', listed)}"
    output = "" if group.headline is None else group.headline.output
    # What the headline speaks of comes before what is wrong besides.
    for explanation in sorted(group.example.explained, key=lambda one: one.output != output):
        yield from _example(escape(group.example.case), explanation, lang)


def _example(case: str, explanation: Explanation, lang: str) -> Iterator[str]:
    yield f"  {_said(lang, 'in {}: {}', case, escape(explanation_words(explanation, lang)))}"
    for sample in explanation.samples[:_MAX_SAMPLES]:
        place = f"{explanation.output}{list(sample.index)}" if sample.index else explanation.output
        told = escape(place), escape(sample.evaluated), escape(sample.baseline)
        yield f"    {_said(lang, '{} = {}, expected {}', *told)}"
    if explanation.map is not None and len(explanation.map.cells) > 1:
        yield from _map(explanation.map, explanation, lang)


def _map(seen: WrongMap, explanation: Explanation, lang: str) -> Iterator[str]:
    across = seen.width or explanation.dims[-1]
    words = _said(lang, "wrong elements, {} from left to right (. none, 1–9 some, # all):", across)
    yield f"    {words}"
    for start in range(0, len(seen.cells), seen.columns):
        yield f"      {seen.cells[start : start + seen.columns]}"
