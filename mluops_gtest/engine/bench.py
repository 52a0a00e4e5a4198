"""The cases of a bench, one after the other: each on all backends."""

from collections.abc import Iterator, Mapping, Sequence

from mluops_gtest.engine.execute import Executor
from mluops_gtest.engine.failures import not_loaded
from mluops_gtest.engine.perf import Sampling
from mluops_gtest.engine.perf_bench import bench_case
from mluops_gtest.model.case import CaseSource
from mluops_gtest.model.operator import Operator
from mluops_gtest.timing.duel import Benched


def benched(
    ids: Sequence[str],
    source: CaseSource,
    operators: Mapping[str, Operator],
    executors: Sequence[Executor],
    sampling: Sampling,
) -> Iterator[Benched]:
    """Every case on both backends."""
    for case_id in ids:
        try:
            case = source.load(case_id)
        except Exception as error:
            yield Benched((not_loaded(case_id, "", (), error),) * len(executors))
            continue
        yield Benched(bench_case(executors, case, operators.get(case.operator), sampling))
