"""Candidates on the backend: judged as `run` judges, without waiting long for what hangs."""

from typing import Final

from msgspec.structs import replace

from mluops_gtest.engine.caller import Caller
from mluops_gtest.engine.execute import Executor, Options
from mluops_gtest.model.case import Case
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.outcome import Outcome
from mluops_gtest.model.result import CaseResult

# After the first hang a call gets so many seconds, or so many times what the slowest call took that did not hang.
_SHORT_SECONDS: Final = 1.0
_TIMES_THE_SLOWEST: Final = 20.0


class Trials:
    """Calls the backend with one candidate after the other."""

    def __init__(self, caller: Caller, options: Options, operator: Operator) -> None:
        self._caller, self._options, self._operator = caller, options, operator
        self._executor = Executor(caller, replace(options, explain=False))
        self._slowest = 0.0

    def __call__(self, case: Case) -> CaseResult:
        """The verdict, without an explanation."""
        result = self._executor.execute(case, self._operator)
        if result.outcome is Outcome.TIMED_OUT:
            self._hurry()
        else:
            self._slowest = max(self._slowest, result.seconds)
        return result

    def explained(self, case: Case) -> CaseResult:
        """The verdict with its explanation, and with all the time that a run gives."""
        return Executor(self._caller, self._options).execute(case, self._operator)

    def _hurry(self) -> None:
        short = max(_SHORT_SECONDS, _TIMES_THE_SLOWEST * self._slowest)
        limit = short if self._options.timeout is None else min(short, self._options.timeout)
        self._executor = Executor(self._caller, replace(self._executor.options, timeout=limit))
