"""Accuracy drift: cases that still pass, but by a smaller margin than before."""

import math
from collections.abc import Mapping

from mluops_gtest.model.drift import DRIFT_FACTOR, SIZELESS, reading_floor
from mluops_gtest.model.result import CaseResult
from mluops_gtest.value import Value


class Drift(Value):
    """A reading that grew by more than the limit; both readings are at least the floor."""

    case: str
    operator: str
    output: str
    criterion: str
    before: float
    after: float
    limit: float

    @property
    def factor(self) -> float:
        """How much larger the reading is now."""
        return self.after / self.before


class DriftLimits(Value):
    """The factor by which a reading may grow, with exceptions for single operators."""

    factor: float = DRIFT_FACTOR
    operators: Mapping[str, float] | None = None

    def of(self, operator: str) -> float:
        return (self.operators or {}).get(operator, self.factor)


def noted_readings(result: CaseResult) -> dict[str, float]:
    """The readings above the floor, by output and criterion: all that later comparisons need."""
    return {f"{output} {criterion}": value for output, criterion, value, floor in _sized(result) if value > floor}


def drifts_of(result: CaseResult, before: Mapping[str, float], limits: DriftLimits) -> list[Drift]:
    """The readings of a passing case that grew too much; one that was not noted was at or below the floor."""
    limit = limits.of(result.operator)
    found = []
    for output, criterion, value, floor in _sized(result):
        then, now = max(before.get(f"{output} {criterion}", floor), floor), max(value, floor)
        if now > limit * then:
            found.append(Drift(result.case, result.operator, output, criterion, then, now, limit))
    return found


def _sized(result: CaseResult) -> list[tuple[str, str, float, float]]:
    """Output, criterion, reading and floor of every reading that is the size of an error."""
    dtypes = {tensor.id: tensor.dtype for tensor in result.info.outputs}
    return [
        (reading.output, reading.criterion, reading.value, reading_floor(dtypes.get(reading.output, "")))
        for reading in result.readings
        if reading.criterion != SIZELESS and math.isfinite(reading.value)
    ]
