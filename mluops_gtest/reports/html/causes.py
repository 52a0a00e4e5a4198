"""Failures by their causes, as the page's script reads them: a headline, what it rests on, and a map of its example."""

from collections.abc import Sequence
from typing import Any, Final

from mluops_gtest.model.explanation import Explanation
from mluops_gtest.model.report import RunReport
from mluops_gtest.model.result import CaseResult

# A map of fewer elements shows little.
_TELLING: Final = 64


def cause_records(report: RunReport, lang: str) -> list[dict[str, Any]]:
    """The causes that have a headline, those of most cases first, with the names of their cases as rows."""
    failing = report.failing
    if not failing:
        return []
    # Late: the page of a run that passed needs none of it.
    from mluops_gtest.explain.groups import cause_groups
    from mluops_gtest.model.reasons.explained import explanation_words, headline_words, support_words

    groups = cause_groups(failing, report.results, report.shapes)
    records = []
    for group in groups:
        if group.headline is None:
            continue
        case, example = _example(group.members, group.headline.output)
        seen = example.map
        records.append(
            {
                "head": headline_words(group.headline, lang),
                "support": list(support_words(group.headline, lang)),
                "rows": [result.case for result in group.members],
                "case": case,
                "example": explanation_words(example, lang),
                "dims": list(example.dims),
                "map": None if seen is None else [seen.rows, seen.columns, seen.cells, seen.width],
            }
        )
    return records


def _example(members: Sequence[CaseResult], output: str) -> tuple[str, Explanation]:
    """The smallest case whose map tells something, else the largest, with how that output is wrong there."""
    known = [(result.case, one) for result in members for one in result.explained if one.output == output]
    return next(((case, one) for case, one in known if one.size >= _TELLING and one.map is not None), known[-1])
