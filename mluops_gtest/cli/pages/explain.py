"""Why cases fail, for people: a headline per cause, what it rests on, and its smallest case with a map."""

from collections.abc import Iterator

from mluops_gtest.explain.groups import CauseGroup, cause_groups
from mluops_gtest.model.counted import counted
from mluops_gtest.model.explanation import Explanation, WrongMap
from mluops_gtest.model.reasons.explained import explanation_words, headline_words, support_words
from mluops_gtest.model.report import RunReport
from mluops_gtest.reports.markup import escape

_MAX_SAMPLES = 3
_MAX_NAMES = 5


def explain_page(report: RunReport, operator: str | None, lang: str) -> Iterator[str]:
    """The causes, those of most cases first; every case that failed is in one of them."""
    failing = [r for r in report.failing if operator in (None, r.operator)]
    if not failing:
        yield f"{'Nothing' if operator is None else f'Nothing of {escape(operator)}'} failed in these results."
        return
    groups = cause_groups(failing, report.results, report.shapes)
    for group in groups:
        yield from _group(group, lang)
        yield ""
    yield f"{counted(len(failing), 'case')} failed, for {counted(len(groups), 'cause')}"


def _group(group: CauseGroup, lang: str) -> Iterator[str]:
    if group.headline is None:
        yield f"[bold]{escape(group.operator)}: {escape(group.first.outcome.value)}[/]"
        yield f"  {escape(group.first.reason)}"
    else:
        yield f"[bold]{escape(headline_words(group.headline, lang))}[/]"
        yield from (f"  {escape(words)}" for words in support_words(group.headline, lang))
    names = [escape(result.case) for result in group.members]
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    yield f"  cases: {', '.join(names[:_MAX_NAMES])}{more}"
    for explanation in group.first.explained:
        yield from _example(names[0], explanation, lang)


def _example(case: str, explanation: Explanation, lang: str) -> Iterator[str]:
    yield f"  in {case}: {escape(explanation_words(explanation, lang))}"
    for sample in explanation.samples[:_MAX_SAMPLES]:
        place = f"{explanation.output}{list(sample.index)}" if sample.index else explanation.output
        yield f"    {escape(place)} = {escape(sample.evaluated)}, expected {escape(sample.baseline)}"
    if explanation.map is not None and len(explanation.map.cells) > 1:
        yield from _map(explanation.map, explanation)


def _map(seen: WrongMap, explanation: Explanation) -> Iterator[str]:
    across = seen.width or explanation.dims[-1]
    yield f"    wrong elements, {across} from left to right (. none, 1–9 some, # all):"
    for start in range(0, len(seen.cells), seen.columns):
        yield f"      {seen.cells[start : start + seen.columns]}"
