"""Which cases of a reference a run was asked for, by the selection that its report records."""

import fnmatch
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any

from mluops_gtest.content.keyword import Keyword
from mluops_gtest.errors import ContentError, UsageError
from mluops_gtest.gate.reference import ReferenceCase


def cases_asked_for(
    selection: Mapping[str, Any], cases: Mapping[str, ReferenceCase], canonical: Callable[[str], str]
) -> set[str]:
    """The ids that the selection names; `canonical` turns a user's word into an id, a glob or an operator."""
    if selection.get("shard"):
        raise UsageError(
            f"--subset: RESULTS is shard {selection['shard']} of a run; `mluops-test merge` all of them first."
        )
    try:
        patterns = [canonical(str(word)) for word in selection["select"]]
        operators = {canonical(str(word)) for word in selection["operators"]}
        tags = set(selection["tags"])
        keyword = Keyword(selection["keyword"]) if selection["keyword"] else None
        everything = bool(selection["everything"])
    except (KeyError, TypeError) as error:
        raise ContentError(f"--subset: RESULTS does not record what was selected ({error!r}).") from error
    default = not (patterns or operators or tags or keyword or everything)

    def asked_for(case: str, known: ReferenceCase) -> bool:
        if default:
            return not {"network", "undefined"}.intersection(known.tags)
        if patterns and not any(_means(pattern, case) for pattern in patterns):
            return False
        if "undefined" in known.tags and case not in patterns and "undefined" not in tags:
            return False
        return (
            (not operators or known.operator in operators)
            and (not tags or not tags.isdisjoint(known.tags))
            and (keyword is None or keyword.matches(case, known.tags))
        )

    return {case for case, known in cases.items() if asked_for(case, known)}


def _means(pattern: str, case: str) -> bool:
    """The id itself, its operator, a glob over ids, or the folder that a case file is in."""
    return fnmatch.fnmatch(case, pattern) or PurePosixPath(case).is_relative_to(PurePosixPath(pattern))
