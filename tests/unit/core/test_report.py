"""Which outcomes block, and what a run answers to the shell."""

import pytest

from mluops_gtest.base.errors import ExitCode
from mluops_gtest.core.call import Status
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import exit_code
from mluops_gtest.core.result import CaseResult


def result(outcome, *, compared=True, content_error=False):
    answered = {"status": Status.SUCCESS, "expected_status": Status.SUCCESS} if compared else {}
    return CaseResult("a/b", "a", (), outcome, compared=compared, content_error=content_error, **answered)


PASSED = result(Outcome.PASSED)
SKIPPED = result(Outcome.SKIPPED, compared=False)
BROKEN = result(Outcome.ERROR, compared=False, content_error=True)


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ([PASSED], ExitCode.OK),
        ([PASSED, SKIPPED], ExitCode.OK),
        ([SKIPPED], ExitCode.EMPTY),
        ([], ExitCode.EMPTY),
        ([PASSED, BROKEN], ExitCode.CONTENT),
        ([BROKEN, result(Outcome.FAILED)], ExitCode.CONTENT),
        ([result(Outcome.NOT_RUN, compared=False)], ExitCode.FAILED),
        *(([PASSED, result(outcome)], ExitCode.FAILED) for outcome in Outcome if outcome.blocks),
    ],
)
def test_the_worst_applies(results, code):
    assert exit_code(results) is code


def test_the_order_of_exit_codes():
    order = [ExitCode(number) for number in (70, 74, 4, 3, 1, 5, 0)]
    for i, code in enumerate(order):
        assert ExitCode.worst(order[i:]) is code
