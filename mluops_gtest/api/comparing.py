"""Two arrays held to criteria, without any case."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mluops_gtest.authoring.calls import dtype_of
from mluops_gtest.criteria import compare as measured
from mluops_gtest.criteria.comparison import judge
from mluops_gtest.engine.float_state import own_floats
from mluops_gtest.errors import UsageError
from mluops_gtest.model.criterion import Criterion, CriterionKind
from mluops_gtest.model.dtypes import Array, DType
from mluops_gtest.value import Value


class ArrayVerdict(Value):
    """What two arrays came to: every criterion's value, and the worst element."""

    # By criterion: its value, its threshold, and whether it is within; None where there are too few elements to say.
    readings: Mapping[str, tuple[float, float, bool | None]]
    compared: int
    unequal: int
    # Of the worst element; None where all are equal.
    index: tuple[int, ...] | None
    got: Any
    expected: Any
    max_ulp: int | None

    @property
    def passed(self) -> bool:
        """Something was compared, and no criterion is exceeded."""
        return self.compared > 0 and all(within is not False for _, _, within in self.readings.values())

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        told = ", ".join(
            f"{kind} {value:.4g} {'≤' if within is not False else '>'} {threshold:.4g}"
            for kind, (value, threshold, within) in self.readings.items()
        )
        worst = "" if self.index is None else f"; worst at {list(self.index)}: {self.got}, expected {self.expected}"
        word = "passed" if self.passed else "failed"
        return f"<{word}: {told}; {self.unequal} of {self.compared} elements differ{worst}>"


@own_floats()
def compare(
    got: Any, expected: Any, criteria: Mapping[str, float] | Sequence[Criterion], *, dtype: str | None = None
) -> ArrayVerdict:
    """Hold `got` to `expected`: `criteria` as in `{"diff1": 3e-3, "diff2": 3e-3}`.

    Both must be of one type and shape. `dtype` names a type that numpy lacks, e.g. "bfloat16" for uint16 bits.
    """
    evaluated, baseline = np.asarray(got), np.asarray(expected)
    element = _dtype(baseline, dtype)
    if evaluated.dtype != element.storage or evaluated.shape != baseline.shape:
        raise UsageError(
            f"got is {evaluated.dtype.name} {list(evaluated.shape)}, expected is {baseline.dtype.name} "
            f"{list(baseline.shape)}; both must be {element.storage.name} of one shape."
        )
    wanted = _criteria(criteria)
    evaluated, baseline = np.ascontiguousarray(evaluated), np.ascontiguousarray(baseline)
    found = measured(evaluated, baseline, element, [criterion.kind for criterion in wanted])
    readings = {}
    for criterion in wanted:
        value = found.readings[criterion.kind.canonical]
        within = judge(criterion.kind, value, criterion.threshold, found)
        readings[criterion.kind.value] = (value, criterion.threshold, within)
    worst = None if found.worst is None else tuple(map(int, np.unravel_index(found.worst, baseline.shape)))
    got_there, expected_there = (None, None) if worst is None else (evaluated[worst], baseline[worst])
    return ArrayVerdict(readings, found.compared, found.unequal, worst, got_there, expected_there, found.max_ulp)


def _dtype(array: Array, word: str | None) -> DType:
    if word is not None:
        try:
            return DType.named(word)
        except KeyError:
            raise UsageError(f"dtype={word!r}: unknown; known are {', '.join(d.value for d in DType)}.") from None
    try:
        return dtype_of(array)
    except KeyError:
        raise UsageError(f"expected is {array.dtype.name}; name the type that it stands for with dtype=….") from None


def _criteria(criteria: Mapping[str, float] | Sequence[Criterion]) -> list[Criterion]:
    if not criteria:
        raise UsageError('criteria: give at least one, e.g. {"diff1": 3e-3, "diff2": 3e-3}.')
    if not isinstance(criteria, Mapping):
        return list(criteria)
    known = {kind.value: kind for kind in CriterionKind if kind.has_formula}
    for name in criteria.keys() - known.keys():
        raise UsageError(f"criteria: {name!r} is unknown; known are {', '.join(known)}.")
    return [Criterion(known[name], float(threshold)) for name, threshold in criteria.items()]
