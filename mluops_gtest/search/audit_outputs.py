"""Wrong outputs made from baselines, without any backend: which of them criteria and element-wise check catch."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from msgspec.structs import replace

from mluops_gtest.base.frozen import Value
from mluops_gtest.casefiles.lock import LockedTensor
from mluops_gtest.core.buffers import owned_rows, pattern_of
from mluops_gtest.core.case import Case
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.tensor import Array, DType, Tensor, WorkingPrecision, narrowed, widened
from mluops_gtest.judging.elementwise import ElementwiseCheck, Expectation, expectation_of
from mluops_gtest.judging.verdict import judge_values

# Of a block that is written twice, and of what a last partial tile has.
_BLOCK: Final = 64
MAX_DROPPED: Final = 1024
# Within the loosest thresholds that documents have.
_SCALE: Final = 1.002

# The wrong output; None where the fault has no place in such an output.
Fault = Callable[[Array], Array | None]


def faults_of(dtype: DType) -> Mapping[str, Fault]:
    """The faults that an output of that type can have, by name; none where numpy has no such numbers."""
    if dtype.is_integer:
        return {**_ANY, **_INTEGER}
    if not dtype.is_float:
        return {}
    narrower = {name: fault for name, fault in _NARROWER.items() if dtype is not DType.HALF or name != "in half"}
    return {**_ANY, **_FLOAT, **narrower}


def has_place(fault: str, shape: str) -> bool:
    """The fault is one in outputs of that shape in symbols: a vector is its own transpose, one element has no order."""
    axes = shape.strip("[]").split(",")
    if len(axes) == 1 and fault == "transposed":
        return False
    return shape != "[1]" or fault in _OF_ONE_ELEMENT


def wrong_outputs(right: Array, untouched: Array, faults: Sequence[str], dtype: DType) -> Iterator[tuple[str, Array]]:
    """Those of the faults that change this output; `untouched` is what the buffer held before the call."""
    made = faults_of(dtype)
    for name in faults:
        with np.errstate(over="ignore", invalid="ignore"):
            wrong = untouched if name == _UNTOUCHED else made[name](right)
        if wrong is not None and _differs(wrong, right):
            yield name, wrong


def untouched_output(right: Array, dtype: DType, filling: int | None, kept: Array | None, preset: int | None) -> Array:
    """What the caller leaves in the buffer: poison or a preset value, and where rows are kept their preset."""
    pattern = np.frombuffer(pattern_of(dtype, filling), dtype.storage)
    untouched = np.broadcast_to(pattern, right.shape).copy()
    if kept is not None:
        untouched[kept[: len(untouched)]] = preset or 0
    return untouched


def _differs(wrong: Array, right: Array) -> bool:
    """Some element is another number; NaN is NaN, and −0 is 0."""
    return bool(((wrong != right) & ~(np.isnan(wrong) & np.isnan(right))).any())


def _some_place(right: Array) -> int:
    """The middle one of the elements that are finite and not 0; the middle where there is none."""
    flat = right.reshape(-1)
    numbers = np.flatnonzero((flat != 0) & np.isfinite(flat))
    return int(numbers[len(numbers) // 2]) if numbers.size else flat.size // 2


def _at_one_place(change: Callable[[Array, int], object]) -> Fault:
    def fault(right: Array) -> Array:
        wrong = right.copy()
        place = _some_place(right)
        wrong.reshape(-1)[place] = change(right.reshape(-1), place)
        return wrong

    return fault


def _another(flat: Array, place: int) -> object:
    """Off by as much as elements are large; an integer by 2."""
    if flat.dtype.kind != "f":
        return flat[place] ^ flat.dtype.type(2)
    numbers = np.abs(flat[np.isfinite(flat)].astype(np.float64))
    return flat.dtype.type(float(flat[place]) + max(float(numbers.mean()) if numbers.size else 0.0, 1e-3))


def _next(flat: Array, place: int) -> object:
    return np.nextafter(flat[place], flat.dtype.type(np.inf))


def _dropped(count: int) -> Fault:
    def fault(right: Array) -> Array | None:
        if right.size <= count:
            return None
        wrong = right.copy()
        wrong.reshape(-1)[-count:] = 0
        return wrong

    return fault


def _repeated(right: Array) -> Array | None:
    block = min(_BLOCK, right.size // 2)
    if not block:
        return None
    wrong = right.copy()
    flat = wrong.reshape(-1)
    flat[block : 2 * block] = flat[:block]
    return wrong


def _rows_swapped(right: Array) -> Array | None:
    """The first two rows that differ, along the first axis that has any."""
    axis = next((axis for axis, length in enumerate(right.shape) if length > 1), None)
    if axis is None:
        return None
    rows = np.moveaxis(right, axis, 0)
    for row in range(1, len(rows)):
        if _differs(rows[row], rows[row - 1]):
            wrong = right.copy()
            np.moveaxis(wrong, axis, 0)[[row - 1, row]] = rows[[row, row - 1]]
            return wrong
    return None


def _transposed(right: Array) -> Array | None:
    if right.ndim < 2:
        return None
    return np.ascontiguousarray(right.swapaxes(-1, -2)).reshape(right.shape)


def _through_bfloat16(right: Array) -> Array:
    return widened(narrowed(right.astype("<f4"), DType.BFLOAT16), DType.BFLOAT16).astype(right.dtype)


_UNTOUCHED: Final = "untouched"
_OF_ONE_ELEMENT: Final = frozenset({"zero", _UNTOUCHED, "one element", "off by one"})
_ANY: Final[Mapping[str, Fault]] = {
    "zero": np.zeros_like,
    # What that is, the caller's buffer says.
    _UNTOUCHED: lambda _: None,
    "one element": _at_one_place(_another),
    "last 1 dropped": _dropped(1),
    "last 64 dropped": _dropped(64),
    "last 1024 dropped": _dropped(MAX_DROPPED),
    "block repeated": _repeated,
    "rows swapped": _rows_swapped,
    "transposed": _transposed,
    "shifted by one": lambda right: np.roll(right.reshape(-1), 1).reshape(right.shape),
}
_OFF_BY_ONE: Final = "off by one"
_INTEGER: Final[Mapping[str, Fault]] = {_OFF_BY_ONE: lambda right: right + right.dtype.type(1)}
_FLOAT: Final[Mapping[str, Fault]] = {
    "one ulp": _at_one_place(_next),
    "scaled by 1.002": lambda right: (right.astype(np.float64) * _SCALE).astype(right.dtype),
    "NaN in one place": _at_one_place(lambda flat, _: flat.dtype.type(np.nan)),
}
_NARROWER: Final[Mapping[str, Fault]] = {
    "in half": lambda right: right.astype(np.float16).astype(right.dtype),
    "in bfloat16": _through_bfloat16,
}


class JudgedFault(Value):
    """One wrong output of one case: who tells it; `fault` names output and fault."""

    fault: str
    by_criteria: bool
    by_elementwise: bool

    @property
    def is_caught(self) -> bool:
        """Somebody does."""
        return self.by_criteria or self.by_elementwise


def judged_faults(case: Case, operator: Operator, wanted: Container[str] | None = None) -> Iterator[JudgedFault]:
    """Every fault that changes an output of a case that computes, or of these only the `wanted` ones."""
    expectation = expectation_of(case, operator)
    has_bound = operator.bound is not None
    look = ElementwiseCheck(case, operator, WorkingPrecision(), decides=False) if has_bound else None
    silent = replace(case, criteria=(None,) * len(case.criteria))
    for name, value in expectation.results.items():
        fault = label(name, _OFF_BY_ONE)
        if wanted is None or fault in wanted:
            wrong = {**expectation.results, name: value + 1}
            judgement = judge_values(silent, operator, expectation, {}, wrong, bitwise=False)
            yield JudgedFault(fault, bool(judgement.failures), by_elementwise=False)
    for tensor, criteria in zip(expectation.outputs, case.criteria, strict=True):
        if criteria is not None and not tensor.desc.is_empty:
            yield from _of_output(case, operator, expectation, tensor, look, wanted)


def _of_output(
    case: Case,
    operator: Operator,
    expectation: Expectation,
    tensor: Tensor,
    look: ElementwiseCheck | None,
    wanted: Container[str] | None,
) -> Iterator[JudgedFault]:
    spec, dtype = operator.output(tensor.id), tensor.desc.dtype
    whole = tensor.values
    right = whole[: owned_rows(spec, expectation.counts)]
    if right.size == 0:
        return
    of_outputs = zip(expectation.outputs, case.criteria, strict=True)
    alone = replace(case, criteria=tuple(own if one.id == tensor.id else None for one, own in of_outputs))
    held, rows = case.initial_content(tensor.id), expectation.preserved_rows.get(tensor.id)
    if held is not None and rows is None:
        untouched = held.values[: len(right)].copy()
    else:
        untouched = untouched_output(right, dtype, spec.filling, rows, spec.preset)
        if held is not None:
            untouched[rows] = held.values[rows]
    faults = [name for name in faults_of(dtype) if wanted is None or label(tensor.id, name) in wanted]
    for name, wrong in wrong_outputs(right, untouched, faults, dtype):
        # The whole buffer, with the rows that the operator owns.
        buffer = np.concatenate([wrong, whole[len(wrong) :]])
        no_scalars = replace(expectation, results={})
        judgement = judge_values(alone, operator, no_scalars, {tensor.id: buffer}, {}, bitwise=False, elementwise=look)
        beyond = any(reading.beyond for reading in judgement.elements)
        yield JudgedFault(label(tensor.id, name), bool(judgement.failures), beyond)


def label(output: str, fault: str) -> str:
    """How tables and `accepted_faults` name a fault of an output."""
    return f"{output}: {fault}"


def fault_names(operator: Operator) -> list[str]:
    """Every fault that an output of the operator may have, in the order of tables."""
    named = [
        label(spec.id, fault)
        for spec in operator.outputs
        for fault in dict.fromkeys(name for dtype in spec.dtypes for name in faults_of(dtype))
        if has_place(fault, spec.shape)
    ]
    return [*(label(result, _OFF_BY_ONE) for result in operator.results), *named]


@dataclass(slots=True)
class FaultRow:
    """A fault over all cases that it changes something in."""

    cases: int = 0
    by_criteria: int = 0
    by_elementwise: int = 0
    told: int = 0
    # Tag → cases with it, and those that tell.
    families: Counter[str] = field(default_factory=Counter)
    told_in: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class MeasuredFaults:
    """What the looked-at cases of one operator tell."""

    operator: str
    accepted: Mapping[str, str]
    rows: dict[str, FaultRow] = field(default_factory=dict)
    # Case → the faults that it lets through.
    let_through: dict[str, list[str]] = field(default_factory=dict)
    _told_by: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, case: Case, found: Iterable[JudgedFault]) -> None:
        """Count one case."""
        missed = self.let_through.setdefault(case.id, [])
        for one in found:
            row = self.rows.setdefault(one.fault, FaultRow())
            row.cases += 1
            row.by_criteria += one.by_criteria
            row.by_elementwise += one.by_elementwise
            row.told += one.is_caught
            row.families.update(case.tags)
            if one.is_caught:
                row.told_in.update(case.tags)
                self._told_by[one.fault].append(case.id)
            else:
                missed.append(one.fault)

    @property
    def unnoticed(self) -> list[str]:
        """Faults that no case tells so far."""
        return [name for name, row in self.rows.items() if not row.told]

    @property
    def uncaught(self) -> list[str]:
        """Faults that no case tells and the operator does not accept."""
        return [name for name in self.unnoticed if name not in self.accepted]

    @property
    def stale(self) -> list[str]:
        """Faults that the operator accepts although cases tell them, or that none of its outputs can have."""
        return [name for name in self.accepted if name not in self.rows or self.rows[name].told]

    @property
    def alone(self) -> dict[str, str]:
        """Faults that one case alone tells."""
        return {fault: cases[0] for fault, cases in self._told_by.items() if len(cases) == 1}

    @property
    def replaceable(self) -> list[str]:
        """Cases that tell nothing which others do not tell."""
        needed = set(self.alone.values())
        return [case for case in self.let_through if case not in needed]


def fits_memory(outputs: Iterable[LockedTensor]) -> bool:
    """Every fault has room in these outputs: the first few such cases tell nearly all."""
    return any(math.prod(tensor["dims"]) > MAX_DROPPED for tensor in outputs)


def measured(operator: Operator, cases: Iterable[Case], *, first_catch: bool = False) -> MeasuredFaults:
    """All faults in all of these cases that compute; with `first_catch` each only until a case tells it."""
    found = MeasuredFaults(
        operator.name, operator.accepted_faults, {name: FaultRow() for name in fault_names(operator)}
    )
    for case in cases:
        if first_catch and not found.uncaught:
            break
        if operator.computes(case.expect.status, case.expect.check):
            found.add(case, judged_faults(case, operator, found.unnoticed if first_catch else None))
    return found
