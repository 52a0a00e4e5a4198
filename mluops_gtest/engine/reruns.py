"""Failures tried again: a case that fails and passes is flaky, and no retry ever makes it pass."""

from collections.abc import Callable

from msgspec.structs import replace

from mluops_gtest.engine.fingerprint import fingerprint
from mluops_gtest.model.cause import PassedAtTry
from mluops_gtest.model.result import Attempt, CaseResult, Outcome


def run_with_retries(execute: Callable[[], CaseResult], reruns: int) -> CaseResult:
    """The verdict after at most `reruns` further tries of a failure; it shows the first failure and lists all tries."""
    first = execute()
    if reruns == 0 or not first.outcome.may_become_flaky or first.content_error:
        return first
    attempts = [attempt_of(first)]
    while len(attempts) <= reruns and attempts[-1].outcome is not Outcome.PASSED:
        attempts.append(attempt_of(execute()))
    result = replace(first, attempts=tuple(attempts))
    if attempts[-1].outcome is not Outcome.PASSED:
        return result
    causes = (PassedAtTry(len(attempts), first.outcome), *first.causes)
    mark = fingerprint((Outcome.FLAKY.value, first.fingerprint))
    return replace(result, outcome=Outcome.FLAKY, causes=causes, fingerprint=mark)


def attempt_of(result: CaseResult) -> Attempt:
    """What a result keeps of one of its tries."""
    return Attempt(result.outcome, result.causes)
