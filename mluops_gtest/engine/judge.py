"""From what a backend left in the buffers to a verdict."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from mluops_gtest.criteria import Comparison, allowed_error, compare, count_beyond, judge, judge_finite
from mluops_gtest.criteria.elements import value_text
from mluops_gtest.engine.buffers import holding, pattern_of
from mluops_gtest.engine.expectation import Expectation
from mluops_gtest.engine.failures import traceback_of
from mluops_gtest.engine.fingerprint import fingerprinted
from mluops_gtest.engine.profile import profile_of
from mluops_gtest.engine.second_look import SecondLook
from mluops_gtest.model import cause
from mluops_gtest.model.case import Case
from mluops_gtest.model.cause import Cause, Excess, Places
from mluops_gtest.model.criterion import Criterion, exact
from mluops_gtest.model.degenerate import owned_rows, proves_little
from mluops_gtest.model.dtypes import Array, DType
from mluops_gtest.model.explanation import Explanation
from mluops_gtest.model.operator import CheckVerdict, Operator, OutputSpec
from mluops_gtest.model.reasons import reason_of
from mluops_gtest.model.result import CaseResult, ElementReading, Outcome, Profile, Reading, Worst
from mluops_gtest.model.tensor import Tensor

if TYPE_CHECKING:
    from mluops_gtest.engine.explaining import Explainer

# A wrong scalar may be any integer; what it is off by is told as a float.
_MAX_DIFFERENCE = 2**64


@dataclass(slots=True)
class Judgement:
    """What is found on one run of a case; the first of the failures is the main one."""

    readings: list[Reading] = field(default_factory=list)
    # Of the first output that fails, else of the first that differs at all.
    worst: Worst | None = None
    profile: Profile | None = None
    failures: list[Cause] = field(default_factory=list)
    suspicions: list[Cause] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    elements: list[ElementReading] = field(default_factory=list)
    explained: list[Explanation] = field(default_factory=list)
    compared: bool = False

    @property
    def outcome(self) -> Outcome:
        """Failed for a cause, suspect when the comparison proves nothing, else passed."""
        if self.failures:
            return Outcome.FAILED
        if self.suspicions or not self.compared:
            return Outcome.SUSPECT
        return Outcome.PASSED

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The failures, else the suspicions."""
        if self.failures or self.suspicions:
            return tuple(self.failures or self.suspicions)
        return () if self.compared else (cause.NothingCompared(),)

    def explain(self, ask: Callable[[], Explanation | None]) -> None:
        """Keep what is found out about an output that fails; the verdict stands without it."""
        try:
            found = ask()
        except Exception as error:
            self.notes.append(f"a bug of mluops-test: the failure is not explained: {traceback_of(error)}")
            return
        if found is not None:
            self.explained.append(found)

    def compare_scalars(self, expected: Mapping[str, int], scalars: Mapping[str, int]) -> None:
        """Results that are not tensors must be reported and equal."""
        for name, value in expected.items():
            self.compared = True
            got = scalars.get(name)
            error = float("nan") if got is None else float(min(abs(got - value), _MAX_DIFFERENCE))
            self.readings.append(Reading(name, "exact", error, 0.0, error == 0.0))
            if got is None:
                self.failures.append(cause.ScalarMissing(name, value))
            elif error:
                self.failures.append(cause.ScalarWrong(name, str(got), value))
                self.explain(partial(_scalar_explained, name, got, value))


def _scalar_explained(name: str, got: int, value: int) -> Explanation:
    # Late: what explains failures is loaded when there is one.
    from mluops_gtest.engine.explaining import scalar_explained

    return scalar_explained(name, got, value)


def judge_untouched(case: Case, operator: Operator, buffers: Mapping[str, Array], answer: CheckVerdict) -> Judgement:
    """A call that fails or returns early must leave every output as it was."""
    judgement = Judgement(compared=True)
    for tensor in case.outputs:
        array = buffers.get(tensor.id)
        if array is None or array.size == 0:
            continue
        pattern = pattern_of(tensor.desc.dtype, operator.output(tensor.id).filling)
        touched = np.flatnonzero(~holding(array, pattern))
        if touched.size:
            places = _places(touched, array.size)
            judgement.failures.append(cause.WrittenAnyway(tensor.id, places, answer.status.name, str(answer.check)))
    return judgement


def judge_values(
    case: Case,
    operator: Operator,
    expectation: Expectation,
    buffers: Mapping[str, Array],
    scalars: Mapping[str, int],
    *,
    bitwise: bool,
    look: SecondLook | None = None,
    explainer: "Callable[[], Explainer] | None" = None,
) -> Judgement:
    """Every output held to its criteria, every scalar result compared exactly; `look` sees each element by itself.

    `explainer` is made and asked where outputs fail, and only there.
    """
    judgement = Judgement()
    judgement.compare_scalars(expectation.results, scalars)
    wrong_counts: set[str] = set()
    pairs = list(zip(expectation.outputs, case.criteria, strict=True))
    # What counts the rows of others comes first: where it is wrong, nobody knows which rows to compare.
    for tensor, criteria in sorted(pairs, key=lambda pair: pair[0].id not in operator.counts):
        count = operator.output(tensor.id).rows_owned
        if count in wrong_counts:
            judgement.notes.append(f"{tensor.id} is not compared, because {count} is wrong")
            continue
        if criteria is None:
            judgement.notes.append(f"{tensor.id} is not compared (threshold_use: 0)")
            continue
        if tensor.desc.is_empty:
            continue
        failures = len(judgement.failures)
        _judge_output(judgement, tensor, criteria, operator, expectation, buffers[tensor.id], bitwise, look, explainer)
        if tensor.id in operator.counts and len(judgement.failures) > failures:
            wrong_counts.add(tensor.id)
    return judgement


def judged(result: CaseResult, judgement: Judgement) -> CaseResult:
    """The result with what was found, and with its fingerprint."""
    found = replace(
        result,
        outcome=judgement.outcome,
        readings=tuple(judgement.readings),
        worst=judgement.worst,
        profile=judgement.profile,
        elements=tuple(judgement.elements),
        explained=tuple(judgement.explained),
        causes=judgement.causes,
        notes=(*result.notes, *judgement.notes),
        compared=judgement.compared,
    )
    return fingerprinted(found)


def wanted_criteria(dtype: DType, criteria: tuple[Criterion, ...], spec: OutputSpec) -> tuple[Criterion, ...]:
    """Integers are exact whatever a file names; a file without criteria gets the operator's own."""
    return exact() if dtype.is_integer else criteria or spec.criteria.get(dtype, ())


def _judge_output(
    judgement: Judgement,
    tensor: Tensor,
    criteria: tuple[Criterion, ...],
    operator: Operator,
    expectation: Expectation,
    array: Array,
    bitwise: bool,
    look: SecondLook | None,
    explainer: "Callable[[], Explainer] | None",
) -> None:
    spec, dtype = operator.output(tensor.id), tensor.desc.dtype
    wanted = wanted_criteria(dtype, criteria, spec)
    if not wanted:
        judgement.suspicions.append(cause.NoCriterion(tensor.id, dtype.value))
        return
    rows = owned_rows(spec, expectation.counts)
    evaluated, baseline = array[:rows], tensor.values[:rows]
    if evaluated.size == 0:
        return
    if spec.filling is None:
        unwritten = np.flatnonzero(holding(np.ascontiguousarray(evaluated), pattern_of(dtype, None)))
        if unwritten.size:
            judgement.compared = True
            index = _unravel(int(unwritten[0]), evaluated.shape)
            judgement.failures.append(cause.Unwritten(tensor.id, _places(unwritten, evaluated.size), index))
            if explainer is not None:
                kept = expectation.kept.get(tensor.id)
                _explain(judgement, explainer, lambda one: one.unwritten(tensor, evaluated, baseline, unwritten, kept))
            return
    kinds = tuple(criterion.kind for criterion in wanted)
    evaluated, baseline = np.ascontiguousarray(evaluated), np.ascontiguousarray(baseline)
    comparison = compare(evaluated, baseline, dtype, kinds)
    judgement.compared = True
    failures, first_failure = len(judgement.failures), not judgement.failures
    beyond = _beyond(comparison, wanted, evaluated, baseline, dtype)
    _judge_comparison(judgement, tensor.id, comparison, wanted, beyond)
    if comparison.worst is not None and (judgement.worst is None or (first_failure and judgement.failures)):
        judgement.worst = _worst(tensor.id, dtype, comparison, evaluated, baseline, beyond)
        judgement.profile = profile_of(tensor.id, evaluated, baseline, dtype)
    if look is not None and comparison.unequal:
        _look_again(judgement, look, tensor, evaluated, baseline)
    if explainer is not None and comparison.unequal and len(judgement.failures) > failures:
        threshold = allowed_error(wanted)
        _explain(judgement, explainer, lambda one: one.differing(tensor, evaluated, baseline, threshold))
    if comparison.bits_unequal and not comparison.unequal and all(c.threshold == 0 for c in wanted):
        found = cause.BitsUnequal(tensor.id, comparison.bits_unequal)
        if bitwise:
            judgement.failures.append(found)
        else:
            judgement.notes.append(reason_of((found,)))
    if expectation.degenerate is None and proves_little(tensor, operator, expectation.counts):
        judgement.suspicions.append(cause.ConstantBaseline(tensor.id))


def _explain(
    judgement: Judgement, explainer: "Callable[[], Explainer]", ask: "Callable[[Explainer], Explanation | None]"
) -> None:
    def asked() -> Explanation | None:
        found = ask(explainer())
        judgement.notes.extend(slip for slip in explainer().slips if slip not in judgement.notes)
        return found

    judgement.explain(asked)


def _look_again(judgement: Judgement, look: SecondLook, tensor: Tensor, evaluated: Array, baseline: Array) -> None:
    seen = look.at(tensor, evaluated, baseline)
    if seen is None:
        return
    reading, found = seen
    judgement.elements.append(reading)
    if reading.beyond and look.decides:
        judgement.failures.append(found)
    elif reading.beyond:
        judgement.notes.append(reason_of((found,)))


def _beyond(
    comparison: Comparison, wanted: tuple[Criterion, ...], evaluated: Array, baseline: Array, dtype: DType
) -> int | None:
    """The elements beyond tolerance of an output that fails; of one within its criteria nobody counts them."""
    readings = ((c, comparison.readings[c.kind.canonical]) for c in wanted)
    if all(judge(c.kind, value, c.threshold, comparison) is not False for c, value in readings):
        return None
    threshold = allowed_error(wanted)
    return comparison.unequal if threshold == 0 else count_beyond(evaluated, baseline, dtype, threshold)


def _judge_comparison(
    judgement: Judgement, output: str, comparison: Comparison, wanted: tuple[Criterion, ...], beyond: int | None
) -> None:
    # A mismatch fails the output; what is said of a criterion is what it measured on the finite positions.
    mismatches = comparison.nonfinite_mismatches
    differing = Places(comparison.unequal, comparison.compared, comparison.first_unequal, comparison.last_unequal)
    if mismatches:
        names = tuple(criterion.kind.canonical.value for criterion in wanted)
        first = comparison.first_nonfinite_mismatch
        assert first is not None, "a mismatch has a place"
        judgement.failures.append(cause.NonFinite(output, mismatches, first, names, differing))
    judged = 0
    exceeded = []
    for criterion in wanted:
        name = criterion.kind.canonical.value
        value = comparison.readings[criterion.kind.canonical]
        within = judge_finite(criterion.kind, value, criterion.threshold, comparison)
        if within is None:
            judgement.notes.append(f"{output}: {name} is not judged on so few elements")
            continue
        judged += 1
        judgement.readings.append(Reading(output, name, value, criterion.threshold, within))
        if not within:
            exceeded.append(Excess(name, value, criterion.threshold))
    if exceeded:
        equality, bits = allowed_error(wanted) == 0, comparison.bits_unequal
        judgement.failures.append(
            cause.Exceeded(output, tuple(exceeded), differing, bool(mismatches), equality, beyond, bits)
        )
    if judged == 0:
        judgement.suspicions.append(cause.NotJudged(output))


def _places(found: Array, size: int) -> Places:
    return Places(found.size, size, int(found[0]), int(found[-1]))


def _worst(
    output: str, dtype: DType, comparison: Comparison, evaluated: Array, baseline: Array, beyond: int | None
) -> Worst:
    assert comparison.worst is not None
    index = _unravel(comparison.worst, evaluated.shape)
    return Worst(
        output,
        index,
        value_text(evaluated[index], dtype),
        value_text(baseline[index], dtype),
        comparison.unequal,
        comparison.compared,
        comparison.max_ulp,
        beyond,
        comparison.bits_unequal,
    )


def _unravel(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(flat, shape))
