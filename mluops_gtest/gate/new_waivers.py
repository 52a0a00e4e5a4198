"""Entries for the ledger that cover what blocks now: by the cause where a failure has one, else by its fingerprint."""

import datetime
import glob
from collections import defaultdict
from typing import Any

import yaml

from mluops_gtest.gate.decision import CaseChange, Decision
from mluops_gtest.model.counted import counted
from mluops_gtest.model.plain_text import is_plain, plain_line
from mluops_gtest.model.result import Outcome

_LONGEST_COMMENT = 200


def new_waivers(
    decision: Decision, owner: str, expires: datetime.date, reason: str
) -> tuple[list[str], dict[str, list[str]]]:
    """Entries as YAML, one per cause or fingerprint; and the blocking cases that have none, by the reason."""
    terms = {"reason": reason, "owner": owner, "expires": expires}
    if decision.backend:
        terms["backend"] = decision.backend
    by_cause: dict[str, list[CaseChange]] = defaultdict(list)
    by_mark: dict[tuple[str, str], list[CaseChange]] = defaultdict(list)
    left_out: dict[str, list[str]] = defaultdict(list)
    for change in decision.blocking:
        if change.now is None or not change.now.fails:
            # The ledger's own findings are about those that pass now.
            if change.now is not Outcome.XPASSED:
                left_out[f"{change.transition.value} cannot be waived"].append(change.case)
        elif change.now.has_no_answer or change.now is Outcome.MEMORY or not change.fingerprint:
            # Nobody knows what these hide: a person who does may waive them by hand.
            left_out[f"{change.now.value}: fix it, or waive it by hand"].append(change.case)
        elif change.has_cause:
            by_cause[change.cause].append(change)
        else:
            by_mark[change.operator, change.fingerprint].append(change)
    entries = [_entry(changes, {"cause": cause, **terms}) for cause, changes in by_cause.items()]
    for (_, fingerprint), changes in by_mark.items():
        first, *more = names = [glob.escape(change.case) for change in changes]
        entries.append(_entry(changes, {"case": names if more else first, "fingerprint": fingerprint, **terms}))
    return entries, left_out


def _entry(changes: list[CaseChange], entry: dict[str, Any]) -> str:
    words = f"{counted(len(changes), 'case')}: {changes[0].headline or changes[0].reason}"
    # Characters that YAML would take for the end of a line are written as escapes.
    texts = (text for value in entry.values() for text in (value if isinstance(value, list) else [str(value)]))
    is_readable = all(map(is_plain, texts))
    text: str = yaml.safe_dump([entry], allow_unicode=is_readable, sort_keys=False, width=float("inf"))
    return f"# {plain_line(words)[:_LONGEST_COMMENT]}\n{text}"
