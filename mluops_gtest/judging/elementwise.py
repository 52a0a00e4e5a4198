"""What must come back from a case, decided before the backend runs, and what arithmetic allows each element of it.

diff1 and diff2 judge an output as a whole, so that one wrong element among a million passes. Here each element may be
off by γ(n) · Σ|terms|, with γ(n) = n·u / (1 − n·u), by underflow, and by the roundings of the result and of the stored
baseline; by nothing at all where every partial sum is exact. A half sum of n ≥ 1/u terms has no such bound: there it is
that of a sum of √n blocks which are rounded to half.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
from msgspec import field

from mluops_gtest.base.errors import CaseFileError, ContentError, OperatorError, UndefinedCallError
from mluops_gtest.base.files import let_go
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.native.arrays import NativeLimits
from mluops_gtest.core.buffers import (
    BoundSource,
    baseline_of,
    bind_values,
    computed_bounds,
    expected_results,
    owned_rows,
    places_changed,
    row_counts,
)
from mluops_gtest.core.call import UndefinedDataError
from mluops_gtest.core.case import BUFFER_LIMIT, Case
from mluops_gtest.core.cause import BeyondBound, Places
from mluops_gtest.core.declaration import Bound, CheckVerdict
from mluops_gtest.core.operator import Operator, T, call_operator_function, raised_by
from mluops_gtest.core.result import ElementReading
from mluops_gtest.core.tensor import Array, DType, Precision, Tensor, WorkingPrecision
from mluops_gtest.judging.blocks import BLOCK, elements_of, index_of, value_text
from mluops_gtest.judging.figures import WITHIN, ElementErrors

# Significant bits, and the exponent (as frexp has it) of the smallest normal number.
_FORMATS: Final = {DType.HALF: (11, -13), DType.BFLOAT16: (8, -125), DType.FLOAT: (24, -125), DType.DOUBLE: (53, -1021)}
# The smallest number above 0 of what sums are kept in: half of it is what a product may lose below the normal range.
_TINY: Final = {24: 2.0**-149, 11: 2.0**-24}
# So many roundings, by significant bits, and the bound is that of blocks: n·u reaches 1. No float sum is cut.
_BLOCKS_FROM: Final = {24: math.inf, 11: 2.0**11}


class Limits(NamedTuple):
    """What arithmetic allows an output, and the precision that its sums are kept in; or, no less, may be kept in."""

    bound: Bound
    precision: Precision = Precision.FLOAT
    excused: Precision | None = None


def can_be_bounded(dtype: DType) -> bool:
    """There is a rounding to speak of: real floating-point types."""
    return dtype in _FORMATS


def element_errors(
    evaluated: Array, baseline: Array, dtype: DType, bound: Bound, precision: Precision = Precision.FLOAT
) -> ElementErrors:
    """Every element held to the bound; a NaN or an infinity that does not meet its like is beyond any."""
    beyond, first, last, worst, ratio, allowed_there, _ = WITHIN
    for places, ratios, allowed in _unequal(evaluated, baseline, dtype, bound, precision):
        found = places[ratios > 1]
        if found.size:
            beyond += found.size
            first = int(found[0]) if first < 0 else first
            last = int(found[-1])
        place = int(ratios.argmax())
        if ratios[place] > ratio:
            ratio, worst = float(ratios[place]), int(places[place])
            # Sums of infinities allow no number; where one side is none, nothing is allowed.
            allowed_there = 0.0 if np.isnan(allowed[place]) else float(allowed[place])
    return ElementErrors(beyond, first, last, worst, ratio, allowed_there)


def half_excused(limits: Limits, hold: Callable[[Bound, Precision], ElementErrors]) -> ElementErrors:
    """What `hold` finds, without the elements of a half output that half arithmetic explains."""
    bound, precision, excused = limits
    errors = hold(bound, precision)
    if not errors.beyond or excused in (None, precision):
        return errors
    within = hold(bound, excused)
    as_half = errors.beyond - within.beyond
    return within._replace(as_half=as_half) if as_half else errors


def native_limits(bound: Bound, precision: Precision, dtype: DType, shape: tuple[int, ...]) -> NativeLimits:
    """The same for the C library, which follows `_allowed` and `_ratios` step by step."""
    significant, smallest = _FORMATS[dtype]
    loss, tiny, behind = _loss(bound, precision, dtype), _TINY[precision.bits], float(bound.afterwards)
    return NativeLimits(
        shape,
        bound.magnitude,
        bound.roundings,
        bound.unit,
        roundoff=2.0**-precision.bits,
        blocks_from=_BLOCKS_FROM[precision.bits],
        loss=loss * (2 + loss),
        tiny=tiny,
        behind=float(_gamma(np.float64(behind), precision.bits)),
        behind_underflow=behind * tiny / 2,
        sums=2.0**precision.bits,
        results=2.0**significant,
        smallest_unit=2.0 ** (smallest - significant),
        smallest=smallest,
        significant=significant,
        rounds_twice=significant < Precision.FLOAT.bits,
    )


def beyond_bound(
    evaluated: Array, baseline: Array, dtype: DType, bound: Bound, precision: Precision
) -> tuple[Array, Array]:
    """The flat indices of the elements beyond their bound, and their errors over what is allowed."""
    found = [(np.zeros(0, np.int64), np.zeros(0))]
    for places, ratios, _ in _unequal(evaluated, baseline, dtype, bound, precision):
        found.append((places[ratios > 1], ratios[ratios > 1]))
    return np.concatenate([places for places, _ in found]), np.concatenate([ratios for _, ratios in found])


def allowances(
    evaluated: Array, baseline: Array, dtype: DType, bound: Bound, precision: Precision = Precision.FLOAT
) -> Array:
    """What each element may be off by, in float64; one that is no number anywhere has NaN or what its number has."""
    with np.errstate(all="ignore"):
        e, b = (elements_of(dtype).values(array).astype(np.float64) for array in (evaluated, baseline))
        return np.broadcast_to(_allowed(e, b, dtype, bound, precision), baseline.shape)


def _unequal(
    evaluated: Array, baseline: Array, dtype: DType, bound: Bound, precision: Precision
) -> Iterator[tuple[Array, Array, Array]]:
    """Block by block the flat indices of unequal elements, their errors over what is allowed, and what is allowed."""
    with np.errstate(all="ignore"):  # NaN and Inf are looked at as what they are
        for index, start in _blocks(baseline.shape):
            e, b = (elements_of(dtype).values(array[index]) for array in (evaluated, baseline))
            unequal = e != b
            if not unequal.any():
                continue
            unequal &= ~(np.isnan(e) & np.isnan(b))
            places = np.flatnonzero(unequal)
            if not places.size:
                continue
            block = bound.part(index, baseline.shape)
            here = block.part(unequal, unequal.shape)
            e, b = (values[unequal].astype(np.float64) for values in (e, b))
            allowed = np.broadcast_to(_allowed(e, b, dtype, here, precision), b.shape)
            yield start + places, _ratios(e, b, allowed), allowed
            let_go(baseline[index])
            let_go(np.asarray(block.magnitude))


def _blocks(shape: tuple[int, ...]) -> Iterator[tuple[tuple[int | slice, ...], int]]:
    """Indices that cut an array into parts of about a block, and the flat index where each begins."""
    axis = next((axis for axis in range(len(shape)) if math.prod(shape[axis + 1 :]) <= BLOCK), 0)
    row = math.prod(shape[axis + 1 :])
    step = max(1, BLOCK // max(row, 1))
    for number, outer in enumerate(np.ndindex(*shape[:axis])):
        for start in range(0, shape[axis], step):
            yield (*outer, slice(start, start + step)), (number * shape[axis] + start) * row


def _allowed(e: Array, b: Array, dtype: DType, bound: Bound, precision: Precision) -> Array:
    """What |e−b| may be."""
    magnitude, roundings, unit = (
        np.asarray(values, np.float64) for values in (bound.magnitude, bound.roundings, bound.unit)
    )
    # Float sums of √n terms lose less than one rounding to half; then a block is rounded, and added to the others.
    is_cut = roundings >= _BLOCKS_FROM[precision.bits]
    roundings = np.where(is_cut, np.ceil(np.sqrt(roundings)) + 1, roundings)
    tiny = _TINY[precision.bits]
    loss = _loss(bound, precision, dtype)
    summing = magnitude * (_gamma(roundings, precision.bits) + loss * (2 + loss)) + (roundings + 1) * tiny / 2
    no_sum_rounds = (magnitude <= 2.0**precision.bits * unit) & (unit >= tiny) & (loss == 0)
    summing = np.where(no_sum_rounds | (roundings == 0) | (magnitude == 0), 0.0, summing)
    behind = np.float64(bound.afterwards)
    allowed: Array = summing + (magnitude * _gamma(behind, precision.bits) + behind * tiny / 2) * (magnitude > 0)
    significant, smallest = _FORMATS[dtype]
    # What can be represented exactly is not rounded; and a float result that is kept as it was summed was already.
    is_representable = (magnitude <= 2.0**significant * unit) & (unit >= 2.0 ** (smallest - significant))
    rounding = _half_ulp(b, dtype) + (_half_ulp(e, dtype) if significant < Precision.FLOAT.bits else 0.0)
    return np.where((allowed == 0) & (is_representable | (magnitude == 0)), 0.0, allowed + rounding)


def _loss(bound: Bound, precision: Precision, dtype: DType) -> float:
    """What factors lose; those of a half output are half, which tf32 and half hold as they are."""
    is_lossless = dtype is DType.HALF and precision.factor_loss <= Precision.HALF.factor_loss
    return precision.factor_loss if bound.products and not is_lossless else 0.0


def _gamma(roundings: Array | np.float64, bits: int) -> Array:
    """γ(n) = n·u / (1 − n·u); no bound at all where n·u reaches 1."""
    lost = np.asarray(roundings * 2.0**-bits)
    gamma: Array = np.where(lost < 1, lost / (1 - lost), np.inf)
    return gamma


def _half_ulp(values: Array, dtype: DType) -> Array:
    significant, smallest = _FORMATS[dtype]
    _, exponents = np.frexp(values)
    # frexp gives 0 the exponent of 1; what was rounded to 0 was at most half of the smallest number.
    exponents = np.where(values == 0, smallest, exponents)
    half: Array = np.ldexp(0.5, np.maximum(exponents, smallest) - significant)
    return half


def _ratios(e: Array, b: Array, allowed: Array) -> Array:
    """|e−b| of unequal elements over what is allowed; infinite where one of the two is no number."""
    ratios: Array = np.abs(e - b) / allowed
    # Where no number bounds an element, or infinity does, nothing that is finite is beyond.
    ratios[~(allowed < np.inf)] = 0.0
    ratios[~(np.isfinite(e) & np.isfinite(b))] = np.inf
    return ratios


class ElementwiseCheck:
    """The bound of one case, computed from its inputs when an output first differs from its baseline."""

    def __init__(
        self,
        case: Case,
        operator: Operator,
        precision: WorkingPrecision,
        *,
        decides: bool,
        alone: bool = False,
        bounds: BoundSource = computed_bounds,
    ) -> None:
        """`decides`: an element beyond the bound fails the case; `alone`: nothing else about its values does."""
        self._case, self._operator, self._source, self._declared = case, operator, bounds, precision
        self.decides, self.alone = decides, alone
        self._bounds: Mapping[str, Bound] | None = None

    def limits(self, tensor: Tensor, evaluated: Array) -> Limits | None:
        """What the rows that the operator owns are held to; None where nothing is declared for that output."""
        dtype, bound = tensor.desc.dtype, self._bound(tensor)
        if bound is None:
            return None
        rows = bound.part(slice(0, evaluated.shape[0]), tensor.desc.dims)
        return Limits(rows, self._precision(dtype), self._excused(dtype))

    def describe(
        self, tensor: Tensor, errors: ElementErrors, evaluated: Array, baseline: Array
    ) -> tuple[ElementReading, BeyondBound]:
        """What the rows that the operator owns come to, held to their limits."""
        dtype = tensor.desc.dtype
        precision = (self._excused(dtype) if errors.as_half else self._precision(dtype)).value
        index = index_of(max(errors.worst, 0), evaluated.shape)
        reading = ElementReading(
            tensor.id,
            precision,
            errors.beyond,
            baseline.size,
            errors.ratio,
            index,
            value_text(evaluated[index], dtype),
            value_text(baseline[index], dtype),
            errors.allowed,
            errors.as_half,
        )
        places = Places(errors.beyond, baseline.size, errors.first, errors.last)
        return reading, BeyondBound(tensor.id, places, precision)

    def covers(self, tensor: Tensor) -> bool:
        """The operator declares what arithmetic allows this output."""
        return self._bound(tensor) is not None

    def beyond(self, tensor: Tensor, evaluated: Array, baseline: Array) -> tuple[Array, Array]:
        """The flat indices that neither the bound nor half excuses, and their errors over what is allowed.

        None of them where nothing is declared.
        """
        limits = self.limits(tensor, evaluated)
        if limits is None:
            return np.zeros(0, np.int64), np.zeros(0)
        dtype = tensor.desc.dtype
        return beyond_bound(evaluated, baseline, dtype, limits.bound, self._excused(dtype))

    def beyond_at(
        self,
        tensor: Tensor,
        places: tuple[Array, ...],
        values: Array,
        baseline: Array,
        precision: Precision | None = None,
    ) -> Array | None:
        """Which of the values at these places no arithmetic explains: that of `precision`, else what is excused."""
        dtype, bound = tensor.desc.dtype, self._bound(tensor)
        if bound is None:
            return None
        here = bound.part(places, tensor.desc.dims)
        beyond = np.zeros(values.size, bool)
        beyond[beyond_bound(values, baseline, dtype, here, precision or self._excused(dtype))[0]] = True
        return beyond

    def allowed(self, tensor: Tensor, evaluated: Array, baseline: Array) -> Array | None:
        """What each element may be off by, half included; None where nothing is declared."""
        limits, dtype = self.limits(tensor, evaluated), tensor.desc.dtype
        return None if limits is None else allowances(evaluated, baseline, dtype, limits.bound, self._excused(dtype))

    def _precision(self, dtype: DType) -> Precision:
        return self._declared.of(self._operator.name, dtype)

    def _excused(self, dtype: DType) -> Precision:
        return self._declared.excused(self._operator.name, dtype)

    def _bound(self, tensor: Tensor) -> Bound | None:
        if not can_be_bounded(tensor.desc.dtype):
            return None
        if self._bounds is None:
            self._bounds = self._source(self._case, self._operator)
        return self._bounds.get(tensor.id)


# What a baseline that is recomputed may take per output.
_MAX_BYTES = 2 << 30


class Expectation(Value):
    """The right answer to a case, and whether it was recomputed here rather than stored."""

    answer: CheckVerdict
    outputs: tuple[Tensor, ...]
    results: Mapping[str, int]
    degenerate: str | None
    recomputed: bool = False
    # How many rows the operator owns, by the result or the output that says so.
    counts: Mapping[str, int] = field(default_factory=dict)
    # Outputs: True where the operator leaves what the caller preset. Inputs: what it may make of them.
    preserved_rows: Mapping[str, Array] = field(default_factory=dict)
    allowed_input_changes: Mapping[str, Array] = field(default_factory=dict)
    # Outputs that may be as they were before the call, each whole.
    may_stay: frozenset[str] = frozenset()

    def preserved_elements(self, tensor: Tensor) -> Array:
        """True where a call that computes leaves what the output held, for each of its elements."""
        rows, dims = self.preserved_rows.get(tensor.id), tensor.desc.dims
        if rows is None:
            return np.zeros(dims, bool)
        return np.broadcast_to(rows.reshape(rows.shape + (1,) * (len(dims) - rows.ndim)), dims)


def expectation_of(case: Case, operator: Operator) -> Expectation:
    """The right answer; an error where the case and the operator contradict each other."""
    call = bind_values(case, operator)
    answer = _ask_operator(case, operator, lambda: operator.answer(call))
    if answer.status != case.expect.status or (case.expect.check is not None and answer.check != case.expect.check):
        raise CaseFileError(
            f"{case.id}: the case expects {case.expect.status.name}"
            f"{f' from the check {case.expect.check}' if case.expect.check else ''}, but the operator's checks say "
            f"{answer.status.name}"
            f"{f' ({answer.check}: {operator.check(answer.check).message})' if answer.check else ''}. "
            "Correct the case, or give it the expected status in an Expect field."
        )
    results = expected_results(case, operator)
    degenerate = case.expect.degenerate
    if not answer.computes:
        return Expectation(answer, case.outputs, results, degenerate)
    _refuse_too_large(case)
    broken = _ask_operator(case, operator, lambda: operator.broken(call))
    if broken is not None:
        raise UndefinedCallError(case.id, case.operator, broken)
    outputs = case.outputs
    if not case.baseline_stored or len(results) < len(operator.results):
        # A file may leave out what is no tensor (num_act_out), too: only the reference can tell it.
        baseline = _ask_operator(case, operator, lambda: baseline_of(operator, call))
        results = {**results, **baseline.scalars}
        if not case.baseline_stored:
            outputs = tuple(_with_values(tensor, baseline.outputs[tensor.id], case) for tensor in case.outputs)
    counts = row_counts(operator, outputs, results)
    for tensor in outputs:
        rows = owned_rows(operator.output(tensor.id), counts)
        if rows is not None and not 0 <= rows <= tensor.desc.dims[0]:
            what = f"{tensor.id} has {tensor.desc.dims[0]} rows for {rows}"
            if not case.baseline_stored:
                raise UndefinedCallError(case.id, case.operator, what)
            raise CaseFileError(f"{case.id}: the case is broken: {what}. Correct the values that it stores.")
    preserved = {spec.id: spec.kept for spec in operator.outputs if spec.kept is not None}
    changed = {spec.id: spec.may_become for spec in operator.inputs if spec.may_become and case.has(spec.id)}
    preserved_rows = _ask_operator(case, operator, lambda: {name: rows(call) for name, rows in preserved.items()})
    for tensor in outputs:
        held, kept = case.initial_content(tensor.id), preserved_rows.get(tensor.id)
        if held is None or kept is None:
            continue
        if places_changed(tensor.values[kept], held.values[kept], tensor.desc.dtype).size:
            what = f"the baseline of {tensor.id} changes rows that stay as {held.id} has them"
            raise CaseFileError(f"{case.id}: the case is broken: {what}. Correct it, or the operator.")
    return Expectation(
        answer,
        outputs,
        results,
        degenerate,
        recomputed=not case.baseline_stored,
        counts=counts,
        preserved_rows=preserved_rows,
        allowed_input_changes=_ask_operator(
            case, operator, lambda: {name: change(call) for name, change in changed.items()}
        ),
        may_stay=_ask_operator(case, operator, lambda: operator.may_stay(call)),
    )


def _ask_operator(case: Case, operator: Operator, ask: Callable[[], T]) -> T:
    """What an operator says of a case; data outside of what its document defines is the case's fault."""

    def refuse(error: Exception) -> ContentError | None:
        if isinstance(error, MemoryError | OperatorError):
            return None
        if isinstance(error, UndefinedDataError):
            return UndefinedCallError(case.id, case.operator, str(error))
        return CaseFileError(
            f"{case.id}: the data lie outside of what {case.operator} defines: {raised_by(error, operator.reference)}. "
            "Look at index ranges and at the lengths of lists in the parameters."
        )

    return call_operator_function(operator.reference, operator.name, ask, refuse)


def _refuse_too_large(case: Case) -> None:
    """A file of a few bytes must not claim gigabytes, nor a workspace larger than its buffer."""
    for tensor in case.outputs:
        if tensor.data is None and tensor.desc.nbytes > _MAX_BYTES:
            raise CaseFileError(
                f"{case.id}: the output {tensor.id!r} would take {tensor.desc.nbytes} bytes to recompute; "
                f"at most {_MAX_BYTES} are taken. Store its values."
            )
    if (case.expect.workspace_size or 0) > BUFFER_LIMIT:
        raise CaseFileError(
            f"{case.id}: workspace_size {case.expect.workspace_size} in a case that computes; at most {BUFFER_LIMIT}."
        )


def _with_values(tensor: Tensor, array: Array, case: Case) -> Tensor:
    if tuple(array.shape) != tensor.desc.dims:
        raise CaseFileError(
            f"{case.id}: the output {tensor.id!r} has dims {list(tensor.desc.dims)}, the reference gives "
            f"{list(array.shape)}. Correct the dims in the file."
        )
    return tensor.holding(array)
