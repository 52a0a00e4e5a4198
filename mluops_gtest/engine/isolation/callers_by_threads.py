"""One backend in several worker processes, each told to use another number of threads; one at a time is called."""

import contextlib
from collections.abc import Callable

from mluops_gtest.engine.isolation.caller import IsolatedCaller
from mluops_gtest.engine.isolation.shared import SharedArena
from mluops_gtest.engine.reply import Reply
from mluops_gtest.model.call import OpCall
from mluops_gtest.model.precision import WorkingPrecision


class CallersByThreads:
    """Seen from outside one caller; libraries read how many threads to use when they are loaded, so each is its own."""

    def __init__(self, plain: IsolatedCaller, caller_with: Callable[[int], IsolatedCaller]) -> None:
        """`plain` is in use until a number of threads is asked for; `caller_with` makes a caller for a number."""
        self._now = plain
        self._plain = plain
        self._make = caller_with
        self._by_threads: dict[int, IsolatedCaller] = {}

    def use_threads(self, threads: int) -> None:
        """From the next call on: a worker whose libraries were told to use so many threads."""
        if threads not in self._by_threads:
            self._by_threads[threads] = self._make(threads)
        self._now = self._by_threads[threads]

    @property
    def name(self) -> str:
        return self._plain.name

    @property
    def version(self) -> str:
        return self._plain.version

    @property
    def is_reference(self) -> bool:
        return self._plain.is_reference

    @property
    def precision(self) -> WorkingPrecision:
        return self._plain.precision

    @property
    def tensors(self) -> SharedArena:
        return self._now.tensors

    @property
    def workspace(self) -> SharedArena:
        return self._now.workspace

    def start(self) -> None:
        """Load the backend once, to know what it is."""
        self._plain.start()

    @property
    def growth(self) -> int:
        return self._now.growth

    @property
    def has_run(self) -> bool:
        return self._now.has_run

    @property
    def was_changed(self) -> bool:
        return self._now.was_changed

    def stopped(self) -> contextlib.AbstractContextManager[None]:
        return self._now.stopped()

    def settle(self, *, give_up: bool = False) -> tuple[str, ...]:
        return self._now.settle(give_up=give_up)

    def mark_memory(self) -> None:
        self._now.mark_memory()

    def turn(self, *, alone: bool = False, fresh: bool = False) -> contextlib.AbstractContextManager[None]:
        return self._now.turn(alone=alone, fresh=fresh)

    def supports(self, operator: str) -> bool:
        return self._now.supports(operator)

    def begin(self, call: OpCall, timeout: float | None) -> Reply | int:
        return self._now.begin(call, timeout)

    def run(self, call: OpCall, timeout: float | None) -> Reply:
        return self._now.run(call, timeout)

    def run_empty(self, call: OpCall, timeout: float | None) -> Reply:
        return self._now.run_empty(call, timeout)

    def close(self) -> None:
        for caller in (*self._by_threads.values(), self._plain):
            caller.close()
