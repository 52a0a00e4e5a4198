"""Several backends on one case at the same time: judged as always, then timed in turn, sample by sample."""

from collections.abc import Sequence

from mluops_gtest.engine.caller import DisturbedError, LostDeviceError, undisturbed
from mluops_gtest.engine.execute import Executor, disturbed
from mluops_gtest.engine.perf import Sampling, measure
from mluops_gtest.errors import BackendError
from mluops_gtest.model.case import Case
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.result import CaseResult


def bench_case(
    executors: Sequence[Executor], case: Case, operator: Operator | None, sampling: Sampling
) -> tuple[CaseResult, ...]:
    """A result per executor; they have times only where every one of them computes and passes."""
    try:
        return undisturbed([one.caller for one in executors], lambda: _benched(executors, case, operator, sampling))
    except DisturbedError as error:
        return tuple(disturbed(case, error) for _ in executors)
    except LostDeviceError as error:
        raise BackendError(str(error)) from error


def _benched(
    executors: Sequence[Executor], case: Case, operator: Operator | None, sampling: Sampling
) -> tuple[CaseResult, ...]:
    begun = [executor.begin(case, operator) for executor in executors]
    timed = [ready for _, ready in begun if ready is not None]
    if len(timed) < len(begun):
        return tuple(result for result, _ in begun)
    measured = measure([ready.call for ready in timed], sampling)
    return tuple(ready.finish(samples) for ready, samples in zip(timed, measured, strict=True))
