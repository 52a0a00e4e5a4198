"""`run --arbitrate`: disputed elements recomputed exactly, and both sides held to what comes out."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Final

import numpy as np
from msgspec.structs import replace

from mluops_gtest.base.errors import ContentError
from mluops_gtest.core import cause
from mluops_gtest.core.buffers import bind_values
from mluops_gtest.core.call import ExactElement, ExactElements, ExactValue
from mluops_gtest.core.case import Case
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import MAX_EXAMINED, MAX_EXAMPLES, Arbitration, CaseResult, DisputedElement, Side
from mluops_gtest.core.tensor import Array, Criterion, DType, Precision, Tensor, widened
from mluops_gtest.judging.blocks import index_of, value_text
from mluops_gtest.judging.criteria import allowed_error, beyond_tolerance, worst_elements
from mluops_gtest.judging.elementwise import ElementwiseCheck

# Significant bits, and the exponents of the smallest and the largest normal number (2^e ≤ x < 2^(e+1)).
_FORMATS: Final = {
    DType.HALF: (11, -14, 15),
    DType.BFLOAT16: (8, -126, 127),
    DType.FLOAT: (24, -126, 127),
    DType.DOUBLE: (53, -1022, 1023),
}


def stored_number(value: object, dtype: DType) -> ExactValue:
    """A stored element as the number that it is."""
    scalar = widened(np.asarray(value), dtype)
    if scalar.dtype.kind != "f":
        return int(scalar)
    number = float(scalar)
    return Fraction(number) if math.isfinite(number) else number


def ulp(value: ExactValue, dtype: DType) -> Fraction:
    """The distance of neighbouring numbers of that type around the value; 1 for integers."""
    if dtype not in _FORMATS:
        return Fraction(1)
    bits, smallest, largest = _FORMATS[dtype]
    if not math.isfinite(value):
        return Fraction(2) ** (largest - bits + 1)
    return Fraction(2) ** (min(max(_exponent(Fraction(value)), smallest), largest) - bits + 1)


def rounded(value: ExactValue, dtype: DType) -> ExactValue:
    """The value as that type has it: to the nearest number, ties to even, infinite beyond the largest one."""
    if dtype not in _FORMATS or not math.isfinite(value):
        return value
    bits, _, largest = _FORMATS[dtype]
    unit = ulp(value, dtype)
    nearest = round(Fraction(value) / unit) * unit
    if abs(nearest) > (2 - Fraction(2) ** (1 - bits)) * Fraction(2) ** largest:
        return math.copysign(math.inf, nearest)
    return nearest


def error(value: ExactValue, exact: ExactValue) -> Fraction | float:
    """|value − exact|; infinite where a NaN or an infinity does not meet its like, 0 where it does."""
    if math.isfinite(value) and math.isfinite(exact):
        return abs(Fraction(value) - Fraction(exact))
    both_nan = math.isnan(value) and math.isnan(exact)
    return Fraction(0) if both_nan or value == exact else math.inf


def _exponent(value: Fraction) -> int:
    """The e with 2^e ≤ |value| < 2^(e+1); of 0 that of the smallest numbers there are."""
    if value == 0:
        return -(1 << 20)
    guess = abs(value.numerator).bit_length() - value.denominator.bit_length()
    return guess if abs(value) >= Fraction(2) ** guess else guess - 1


_SIDES: Final[Mapping[tuple[bool, bool], Side]] = {
    (False, True): "baseline",
    (True, False): "backend",
    (True, True): "both",
    (False, False): "neither",
}


class Arbiter:
    """Recomputes the disputed elements of one case."""

    def __init__(
        self, case: Case, operator: Operator, look: ElementwiseCheck | None, elements: ExactElements, *, ours: bool
    ) -> None:
        """`ours`: the reference made the baseline, which therefore is the exact value rounded once."""
        self._case, self._operator, self._define, self._ours = case, operator, elements, ours
        self._look = look

    @cached_property
    def _elements(self) -> Mapping[str, ExactElement]:
        return self._define(bind_values(self._case, self._operator))

    def _element(self, name: str) -> ExactElement:
        if name not in self._elements:
            raise ContentError(
                f"`exact` of {self._operator.name} does not say what {name} is: add it to what it gives."
            )
        return self._elements[name]

    def output(
        self,
        tensor: Tensor,
        evaluated: Array,
        baseline: Array,
        criteria: Sequence[Criterion],
        unwritten: Array | None = None,
    ) -> Arbitration | None:
        """The owned rows of an output that is in dispute: the worst elements, or those that were never written."""
        dtype = tensor.desc.dtype
        disputed, chosen = (
            self._disputed(tensor, evaluated, baseline)
            if unwritten is None
            else (unwritten.size, unwritten[:MAX_EXAMINED])
        )
        if not len(chosen):
            return None
        places = np.unravel_index(chosen, evaluated.shape)
        indices = [index_of(place, evaluated.shape) for place in chosen]
        element = self._element(tensor.id)
        exact = [element(*index) for index in indices]
        truths = _stored([rounded(value, dtype) for value in exact], dtype)
        got, expected = evaluated[places], baseline[places]
        backend_right = self._right(tensor, places, got, truths, criteria)
        if self._ours:
            baseline_right = ~beyond_tolerance(expected, truths, dtype, 0.0)
        else:
            # A file's baseline may come from any right kernel, in floats or wider.
            baseline_right = self._right(tensor, places, expected, truths, criteria, Precision.FLOAT)
        return _settled(
            tensor.id,
            dtype,
            disputed,
            [
                _element(index, value, stored, dtype, _SIDES[bool(right), bool(stored_right)])
                for index, value, stored, right, stored_right in zip(
                    indices, exact, zip(got, expected, strict=True), backend_right, baseline_right, strict=True
                )
            ],
        )

    def scalar(self, name: str, got: int, expected: int) -> Arbitration:
        """A result that is no tensor."""
        exact = int(self._element(name)())
        side = _SIDES[got == exact, expected == exact]
        errors = [float(min(abs(value - exact), 2**1000)) for value in (got, expected)]
        one = DisputedElement((), side, str(exact), str(got), str(expected), errors[0], errors[0], errors[1], errors[1])
        return _settled(name, DType.INT64, 1, [one])

    def _disputed(self, tensor: Tensor, evaluated: Array, baseline: Array) -> tuple[int, Array]:
        """How many elements are in dispute, and the flat indices of the worst.

        Those beyond what arithmetic allows; where none is, or nothing says what it allows, all that are unequal.
        """
        if self._look is not None:
            places, ratios = self._look.beyond(tensor, evaluated, baseline)
            if places.size:
                return places.size, places[np.argsort(-ratios, kind="stable")[:MAX_EXAMINED]]
        dtype = tensor.desc.dtype
        unequal = int(np.count_nonzero(beyond_tolerance(evaluated, baseline, dtype, 0.0)))
        return unequal, np.array([one.flat for one in worst_elements(evaluated, baseline, dtype, MAX_EXAMINED)], int)

    def _right(
        self,
        tensor: Tensor,
        places: tuple[Array, ...],
        values: Array,
        truths: Array,
        criteria: Sequence[Criterion],
        precision: Precision | None = None,
    ) -> Array:
        """Which values a right kernel may give: the truths stand in the place of a baseline."""
        dtype = tensor.desc.dtype
        beyond = None
        if self._look is not None:
            beyond = self._look.beyond_at(tensor, places, values, truths, precision)
        if beyond is None:
            beyond = beyond_tolerance(values, truths, dtype, 0.0 if dtype.is_integer else allowed_error(criteria))
        return ~beyond


def with_arbitration(result: CaseResult, found: Sequence[Arbitration], *, ours: bool) -> CaseResult:
    """The result with what was found: no backend can be held to a baseline that is refuted."""
    result = replace(result, arbitrated=tuple(found))
    refuted = next((one for one in found if one.baseline_wrong), None)
    if refuted is None:
        return result
    example = refuted.examples[0]
    why = cause.BaselineWrong(
        refuted.output,
        refuted.baseline_wrong,
        refuted.examined,
        example.index,
        example.exact,
        example.baseline,
        ours,
    )
    return replace(
        result,
        outcome=Outcome.ERROR,
        causes=(why, *result.causes),
        bug=ours,
        content_error=not ours,
        fingerprint="",
    )


def _stored(values: Sequence[ExactValue], dtype: DType) -> Array:
    """Numbers that the type has, as it stores them."""
    if dtype is DType.BFLOAT16:
        patterns = np.array([float(value) for value in values], "<f4").view("<u4") >> np.uint32(16)
        return patterns.astype("<u2")
    return np.array([int(v) if dtype.is_integer else float(v) for v in values], dtype.storage)


def _element(
    index: tuple[int, ...], exact: ExactValue, stored: tuple[object, object], dtype: DType, right: Side
) -> DisputedElement:
    unit, figures = ulp(exact, dtype), []
    for number in (stored_number(value, dtype) for value in stored):
        # An infinity that meets what rounds to infinity is no error.
        off = error(number, exact if math.isfinite(number) else rounded(exact, dtype))
        figures += [_float(off), _float(off / unit)]
    text = str(exact) if isinstance(exact, int) else repr(_float(exact))
    backend, baseline = (value_text(value, dtype) for value in stored)
    return DisputedElement(index, right, text, backend, baseline, *figures)


def _settled(output: str, dtype: DType, disputed: int, elements: Sequence[DisputedElement]) -> Arbitration:
    right = Counter(one.right for one in elements)
    first = sorted(elements, key=lambda one: one.right in ("baseline", "both"))
    return Arbitration(
        output,
        disputed,
        right["baseline"],
        right["backend"],
        right["both"],
        right["neither"],
        not dtype.is_integer,
        tuple(first[:MAX_EXAMPLES]),
        max(one.backend_error for one in elements),
        max(one.backend_ulp for one in elements),
        max(one.baseline_error for one in elements),
        max(one.baseline_ulp for one in elements),
    )


def _float(value: ExactValue) -> float:
    """A float of that size; infinite beyond the largest one."""
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)
