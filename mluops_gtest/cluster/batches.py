"""Cases in batches by cost: the largest first and alone, so that none of them is left for the end."""

from collections.abc import Mapping, Sequence
from typing import Final

from mluops_gtest.engine.costs import CASE_NS
from mluops_gtest.engine.lanes import PlannedCase

# A batch takes about this long on one worker: short against a run, long against what handing it out takes.
BATCH_NS: Final = 400_000_000
MAX_CASES: Final = 64

Batch = tuple[PlannedCase, ...]


def batches_of(
    cases: Sequence[PlannedCase], costs: Mapping[str, int], *, in_order: bool = False, workers: int = 1
) -> list[Batch]:
    """All cases, each in one batch; `in_order` keeps their order, for a run that stops at the first failure."""

    def cost(case: PlannedCase) -> int:
        return costs.get(case.id, CASE_NS)

    # The last batches shall not keep one worker busy while the others wait.
    fair = sum(map(cost, cases)) // (8 * max(workers, 1))
    room = max(CASE_NS, min(BATCH_NS, fair))
    batches: list[Batch] = []
    current: list[PlannedCase] = []
    spent = 0
    for case in cases if in_order else sorted(cases, key=cost, reverse=True):
        if current and (spent + cost(case) > room or len(current) == MAX_CASES):
            batches.append(tuple(current))
            current, spent = [], 0
        current.append(case)
        spent += cost(case)
    return [*batches, tuple(current)] if current else batches
