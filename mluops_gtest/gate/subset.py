"""Which cases of a reference a run was asked for, by the selection that its report records."""

import fnmatch
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any

from mluops_gtest.content.selection import Filter
from mluops_gtest.errors import ContentError, UsageError
from mluops_gtest.gate.reference import ReferenceCase
from mluops_gtest.model.query import Query


def cases_asked_for(
    selection: Mapping[str, Any], cases: Mapping[str, ReferenceCase], canonical: Callable[[str], str]
) -> set[str]:
    """The ids that the selection names; `canonical` turns a user's word into an id, a glob or an operator."""
    if selection.get("shard"):
        raise UsageError(
            f"--subset: RESULTS is shard {selection['shard']} of a run; `mluops-test merge` all of them first."
        )
    query = Query.from_report(selection)
    if query is None:
        raise ContentError("--subset: RESULTS does not record what was selected; run the cases again.")
    patterns = [canonical(word) for word in query.select]
    operators = {canonical(word) for word in query.operators}
    demands = Filter(query)

    def asked_for(case: str, known: ReferenceCase) -> bool:
        if patterns and not any(_means(pattern, case) for pattern in patterns):
            return False
        return demands.passes(
            case, known.tags, named=case in patterns, of_operators=lambda: known.operator in operators
        )

    return {case for case, known in cases.items() if asked_for(case, known)}


def _means(pattern: str, case: str) -> bool:
    """The id itself, its operator, a glob over ids, or the folder that a case file is in."""
    return fnmatch.fnmatch(case, pattern) or PurePosixPath(case).is_relative_to(PurePosixPath(pattern))
