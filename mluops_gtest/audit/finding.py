"""What an audit finds."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """Where a rule is broken, what is wrong, and what to do."""

    place: str
    message: str
    remedy: str


Problems = Iterator[Problem]


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem with the rule and the operator that it belongs to."""

    rule: str
    operator: str
    place: str
    message: str
    remedy: str
