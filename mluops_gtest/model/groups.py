"""Failures that look like one mistake, together: what a run, the gate and every report show as one thing."""

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from mluops_gtest.model.result import CaseResult
from mluops_gtest.value import Value

T = TypeVar("T")


class Group(Value, Generic[T]):
    """Those that share a mark; the first is the smallest case, the easiest one to look at."""

    mark: Hashable
    members: tuple[T, ...]

    @property
    def first(self) -> T:
        return self.members[0]


def grouped(items: Iterable[T], mark: Callable[[T], Hashable], size: Callable[[T], tuple[int, str]]) -> list[Group[T]]:
    """The largest group first; `size` is an item's number of elements and its name, which decides where they tie."""
    found: dict[Hashable, list[T]] = {}
    for item in items:
        found.setdefault(mark(item), []).append(item)
    groups = [Group(key, tuple(sorted(members, key=size))) for key, members in found.items()]
    return sorted(groups, key=lambda group: (-len(group.members), size(group.first)[1]))


def mark_of(result: CaseResult) -> Hashable:
    """What cases with the same mistake have in common."""
    return result.fingerprint or (result.outcome, result.causes)
