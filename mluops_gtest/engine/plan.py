"""Which cases a shard runs and which come first: decided by the ids and their costs alone."""

from collections.abc import Mapping, Sequence

from mluops_gtest.errors import UsageError
from mluops_gtest.value import Value


class Shard(Value):
    """Part `index` (from 1) of `count`."""

    index: int
    count: int

    @staticmethod
    def parse(text: str) -> "Shard":
        """`2/5`."""
        index, slash, count = text.partition("/")
        if not (slash and index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
            raise UsageError(f"--shard {text}: write I/N with 1 ≤ I ≤ N, e.g. --shard 2/5.")
        return Shard(int(index), int(count))

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def shard_of(ids: Sequence[str], costs: Mapping[str, int], shard: Shard) -> set[str]:
    """The ids of this shard: the longest first, ties by id, each to the shard with the least load so far."""
    loads = [0] * shard.count
    chosen = set()
    for case_id in sorted(ids, key=lambda one: (-costs[one], one)):
        lightest = loads.index(min(loads))
        loads[lightest] += costs[case_id]
        if lightest == shard.index - 1:
            chosen.add(case_id)
    return chosen


def smallest_first(ids: Sequence[str], costs: Mapping[str, int]) -> list[str]:
    """The ids by their costs; among equals the order stays."""
    return sorted(ids, key=lambda one: costs[one])


def ordered(ids: Sequence[str], costs: Mapping[str, int], shard: Shard | None, *, by_size: bool) -> list[str]:
    """The ids of the shard, or all of them, in the order in which they run."""
    mine = set(ids) if shard is None else shard_of(ids, costs, shard)
    kept = [case_id for case_id in ids if case_id in mine]
    return smallest_first(kept, costs) if by_size else kept
