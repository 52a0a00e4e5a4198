"""The cases of a bench, each on all backends: judged as always, then timed in turn, sample by sample."""

from collections.abc import Iterator, Mapping, Sequence

from mluops_gtest.engine.caller import DisturbedError, LostDeviceError, undisturbed
from mluops_gtest.engine.execute import Executor, disturbed
from mluops_gtest.engine.failures import not_loaded
from mluops_gtest.engine.perf import Sampling, measure
from mluops_gtest.errors import BackendError
from mluops_gtest.model.case import Case, CaseSource
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.result import CaseResult
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
