"""The suite without any backend: which wrong outputs its cases tell, by their criteria and by the second look."""

import math
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from mluops_gtest.audit.output_faults import MAX_DROPPED, faults_of, has_place, untouched_output, wrong_outputs
from mluops_gtest.codec.lock import LockedTensor
from mluops_gtest.engine.expectation import Expectation, expectation_of
from mluops_gtest.engine.judge import judge_values
from mluops_gtest.engine.second_look import SecondLook
from mluops_gtest.model.case import Case
from mluops_gtest.model.degenerate import owned_rows
from mluops_gtest.model.dtypes import Array
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.precision import Precision
from mluops_gtest.model.tensor import Tensor
from mluops_gtest.value import Value

_OFF_BY_ONE = "off by one"


class JudgedFault(Value):
    """One wrong output of one case: who tells it; `fault` names output and fault."""

    fault: str
    by_criteria: bool
    by_second_look: bool

    @property
    def told(self) -> bool:
        """Somebody does."""
        return self.by_criteria or self.by_second_look


def judged_faults(case: Case, operator: Operator, wanted: Container[str] | None = None) -> Iterator[JudgedFault]:
    """Every fault that changes an output of a case that computes, or of these only the `wanted` ones."""
    expectation = expectation_of(case, operator)
    look = None
    if operator.bound is not None:
        look = SecondLook(case, operator, Precision.FLOAT, decides=False)
    for name in expectation.results:
        if wanted is not None and label(name, _OFF_BY_ONE) not in wanted:
            continue
        wrong = {**expectation.results, name: expectation.results[name] + 1}
        silent = replace(case, criteria=tuple(None for _ in case.criteria))
        judgement = judge_values(silent, operator, expectation, {}, wrong, bitwise=False)
        yield JudgedFault(label(name, _OFF_BY_ONE), bool(judgement.failures), by_second_look=False)
    for tensor, criteria in zip(expectation.outputs, case.criteria, strict=True):
        if criteria is not None and not tensor.desc.is_empty:
            yield from _of_output(case, operator, expectation, tensor, look, wanted)


def _of_output(
    case: Case,
    operator: Operator,
    expectation: Expectation,
    tensor: Tensor,
    look: SecondLook | None,
    wanted: Container[str] | None,
) -> Iterator[JudgedFault]:
    spec, dtype = operator.output(tensor.id), tensor.desc.dtype
    whole = tensor.values
    right = whole[: owned_rows(spec, expectation.counts)]
    if right.size == 0:
        return
    alone = replace(
        case,
        criteria=tuple(
            criteria if one.id == tensor.id else None
            for one, criteria in zip(expectation.outputs, case.criteria, strict=True)
        ),
    )
    untouched = untouched_output(right, dtype, spec.filling, expectation.kept.get(tensor.id), spec.preset)
    faults = [name for name in faults_of(dtype) if wanted is None or label(tensor.id, name) in wanted]
    for name, wrong in wrong_outputs(right, untouched, faults, dtype):
        buffer = _in_place(whole, wrong)
        no_scalars = replace(expectation, results={})
        judgement = judge_values(alone, operator, no_scalars, {tensor.id: buffer}, {}, bitwise=False, look=look)
        beyond = any(reading.beyond for reading in judgement.elements)
        yield JudgedFault(label(tensor.id, name), bool(judgement.failures), beyond)


def _in_place(whole: Array, wrong: Array) -> Array:
    """The whole buffer with the rows that the operator owns."""
    if len(whole) == len(wrong):
        return wrong
    buffer = whole.copy()
    buffer[: len(wrong)] = wrong
    return buffer


def label(output: str, fault: str) -> str:
    """How tables and `accepted_faults` name a fault of an output."""
    return f"{output}: {fault}"


def faults_named(operator: Operator) -> list[str]:
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
    by_second_look: int = 0
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
            row.by_second_look += one.by_second_look
            row.told += one.told
            row.families.update(case.tags)
            if one.told:
                row.told_in.update(case.tags)
                self._told_by[one.fault].append(case.id)
            else:
                missed.append(one.fault)

    @property
    def untold(self) -> set[str]:
        """Faults that no case tells so far."""
        return {name for name, row in self.rows.items() if not row.told}

    @property
    def uncaught(self) -> list[str]:
        """Faults that no case tells and the operator does not accept."""
        return [name for name, row in self.rows.items() if not row.told and name not in self.accepted]

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


def has_room(outputs: Iterable[LockedTensor]) -> bool:
    """Every fault has room in these outputs: the first few such cases tell nearly all."""
    return any(math.prod(tensor["dims"]) > MAX_DROPPED for tensor in outputs)


def measured(operator: Operator, cases: Iterable[Case], *, first_catch: bool = False) -> MeasuredFaults:
    """All faults in all of these cases that compute; with `first_catch` each only until a case tells it."""
    found = MeasuredFaults(
        operator.name, operator.accepted_faults, {name: FaultRow() for name in faults_named(operator)}
    )
    for case in cases:
        untold = found.untold
        if first_catch and not untold - found.accepted.keys():
            break
        if operator.computes(case.expect.status, case.expect.check):
            found.add(case, judged_faults(case, operator, untold if first_catch else None))
    return found
