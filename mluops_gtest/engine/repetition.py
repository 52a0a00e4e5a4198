"""One case called more than once: guarded on either side, and from fresh poison again and again."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from mluops_gtest.engine.buffers import Side
from mluops_gtest.model import cause
from mluops_gtest.model.result import CaseResult, Outcome

# The owned bytes of each output of a call.
Snapshot = Callable[[], dict[str, bytes]]


def on_every_side(sides: Sequence[Side | None], run_on: Callable[[Side | None], CaseResult]) -> CaseResult:
    """Guarded on one side after the other; the first that does not pass decides, and tells its side."""
    results = []
    for side in sides:
        result = run_on(side)
        if result.outcome is not Outcome.PASSED:
            if side is None or not result.outcome.blocks:
                return result
            return replace(result, notes=(*result.notes, f"with an inaccessible page {side.value} every buffer"))
        results.append(result)
    return results[0]


class Reproducibility:
    """Holds the outputs of repeated calls against those of the first, bit for bit."""

    def __init__(self) -> None:
        self._first: dict[str, bytes] = {}
        self._calls = 0

    def held(self, result: CaseResult, outputs: Snapshot) -> CaseResult:
        """The result, failed where its outputs differ from those of the first call."""
        self._calls += 1
        if result.outcome is not Outcome.PASSED:
            return result
        now = outputs()
        changed = tuple(name for name in self._first if self._first[name] != now[name])
        self._first = self._first or now
        if not changed:
            return result
        return replace(result, outcome=Outcome.FAILED, causes=(cause.NotReproducible(self._calls, changed),))
