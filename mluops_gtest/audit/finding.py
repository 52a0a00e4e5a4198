"""What an audit finds."""

from collections.abc import Iterator

from mluops_gtest.value import Value


class Problem(Value):
    """Where a rule is broken, what is wrong, and what to do."""

    place: str
    message: str
    remedy: str


Problems = Iterator[Problem]


class Finding(Value):
    """A problem with the rule and the operator that it belongs to."""

    rule: str
    operator: str
    place: str
    message: str
    remedy: str
