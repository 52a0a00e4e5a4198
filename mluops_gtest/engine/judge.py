"""From what a backend left in the buffers to a verdict."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from mluops_gtest.criteria import Comparison, allowed_error, compare, count_beyond, judge, judge_finite
from mluops_gtest.criteria.blocks import value_text
from mluops_gtest.criteria.elementwise import ElementErrors
from mluops_gtest.engine.buffers import pattern_of, places_holding, places_touched
from mluops_gtest.engine.expectation import Expectation
from mluops_gtest.engine.judgement import Judgement
from mluops_gtest.engine.profile import profile_of
from mluops_gtest.engine.second_look import SecondLook
from mluops_gtest.files.mapped import let_go
from mluops_gtest.model import cause
from mluops_gtest.model.binding import owned_rows, proves_little
from mluops_gtest.model.case import Case
from mluops_gtest.model.cause import BeyondBound, Excess, Places
from mluops_gtest.model.counted import counted
from mluops_gtest.model.criterion import Criterion, CriterionKind, exact
from mluops_gtest.model.dtypes import Array, DType
from mluops_gtest.model.explanation import Explanation
from mluops_gtest.model.operator import CheckVerdict, Operator, OutputSpec
from mluops_gtest.model.reasons import reason_of
from mluops_gtest.model.result import ElementReading, Reading, Worst
from mluops_gtest.model.tensor import Tensor
from mluops_gtest.value import Value

if TYPE_CHECKING:
    from mluops_gtest.engine.explaining import Explainer
    from mluops_gtest.engine.judgement import ArbiterMaker


def judge_untouched(case: Case, operator: Operator, buffers: Mapping[str, Array], answer: CheckVerdict) -> Judgement:
    """A call that fails or returns early must leave every output as it was."""
    judgement = Judgement(compared=True)
    for tensor in case.outputs:
        array = buffers.get(tensor.id)
        if array is None or array.size == 0:
            continue
        pattern = pattern_of(tensor.desc.dtype, operator.output(tensor.id).filling)
        touched = places_touched(array, pattern)
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
    arbiter: "ArbiterMaker | None" = None,
) -> Judgement:
    """Every output held to its criteria, every scalar result compared exactly; `look` sees each element by itself.

    `explainer` is made and asked where outputs fail, and only there; `arbiter` also where no order of operations
    explains an element.
    """
    judgement = Judgement()
    judgement.compare_scalars(expectation.results, scalars, arbiter)
    observers = _Observers(look, explainer, arbiter)
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
        _judge_output(judgement, tensor, criteria, operator, expectation, buffers[tensor.id], bitwise, observers)
        if tensor.id in operator.counts and len(judgement.failures) > failures:
            wrong_counts.add(tensor.id)
    judgement.doubt_constant()
    return judgement


def wanted_criteria(
    dtype: DType, criteria: tuple[Criterion, ...], spec: OutputSpec, *, recomputed: bool
) -> tuple[Criterion, ...]:
    """Integers are exact whatever a file names; a file without criteria gets the operator's own.

    So does one that asks diff3 = 0 of floats which the operator rounds and whose right values it does not store: right
    implementations differ from the reference in the last bits.
    """
    if dtype.is_integer:
        return exact()
    own = spec.criteria.get(dtype, ())
    asks_for_bits = any(c.kind.canonical is CriterionKind.DIFF3 and c.threshold == 0 for c in criteria)
    is_rounded = any(c.threshold > 0 for c in own)
    return own if not criteria or (recomputed and asks_for_bits and is_rounded) else criteria


class _Observers(Value):
    """Who looks at outputs beside the criteria; each may be absent."""

    look: SecondLook | None
    explainer: "Callable[[], Explainer] | None"
    arbiter: "ArbiterMaker | None"


class _Output(Value):
    """The rows of an output that the operator owns, as they came and as they should be, and what they are held to."""

    tensor: Tensor
    evaluated: Array
    baseline: Array
    wanted: tuple[Criterion, ...]


def _judge_output(
    judgement: Judgement,
    tensor: Tensor,
    criteria: tuple[Criterion, ...],
    operator: Operator,
    expectation: Expectation,
    array: Array,
    bitwise: bool,
    observers: _Observers,
) -> None:
    spec, dtype = operator.output(tensor.id), tensor.desc.dtype
    wanted = wanted_criteria(dtype, criteria, spec, recomputed=expectation.recomputed)
    if criteria and wanted != criteria and not dtype.is_integer:
        told = ", ".join(f"{criterion.kind.value} ≤ {criterion.threshold:g}" for criterion in wanted)
        judgement.notes.append(
            f"{tensor.id}: the file asks for diff3 = 0 and stores no values, but {operator.name} rounds; "
            f"the document's criteria decide: {told}"
        )
    if not wanted:
        judgement.suspicions.append(cause.NoCriterion(tensor.id, dtype.value))
        return
    rows = owned_rows(spec, expectation.counts)
    evaluated, baseline = array[:rows], tensor.values[:rows]
    if evaluated.size == 0:
        return
    evaluated, baseline = np.ascontiguousarray(evaluated), np.ascontiguousarray(baseline)
    out = _Output(tensor, evaluated, baseline, wanted)
    if spec.filling is None:
        unwritten = places_holding(evaluated, pattern_of(dtype, None))
        if unwritten.size:
            _judge_unwritten(judgement, out, unwritten, expectation.kept.get(tensor.id), observers)
            return
    kinds = tuple(criterion.kind for criterion in wanted)
    look = observers.look
    limits = None if look is None else partial(look.limits, tensor, evaluated)
    comparison = compare(evaluated, baseline, dtype, kinds, limits)
    judgement.compared = True
    failures, first_failure = len(judgement.failures), not judgement.failures
    bounded = look is not None and look.alone and comparison.unequal > 0 and look.covers(tensor)
    held_to = () if bounded else wanted
    beyond = _beyond(comparison, held_to, evaluated, baseline, dtype)
    _judge_comparison(judgement, tensor.id, comparison, held_to, beyond)
    if comparison.worst is not None and (judgement.worst is None or (first_failure and judgement.failures)):
        judgement.worst = _worst(tensor.id, dtype, comparison, evaluated, baseline, beyond)
        judgement.profile = profile_of(tensor.id, evaluated, baseline, dtype)
    if comparison.unequal:
        _observe(judgement, out, comparison.elements, observers, failures)
    if comparison.bits_unequal and not comparison.unequal and all(c.threshold == 0 for c in wanted):
        found = cause.BitsUnequal(tensor.id, comparison.bits_unequal)
        if bitwise:
            judgement.failures.append(found)
        else:
            judgement.notes.append(reason_of((found,)))
    if expectation.degenerate is None and tensor.id not in operator.counts:
        judgement.constant[tensor.id] = proves_little(tensor, operator, expectation.counts)
    let_go(baseline)


def _judge_unwritten(
    judgement: Judgement, out: _Output, unwritten: Array, kept: Array | None, observers: _Observers
) -> None:
    judgement.compared = True
    tensor, evaluated, baseline = out.tensor, out.evaluated, out.baseline
    index = _unravel(int(unwritten[0]), evaluated.shape)
    judgement.failures.append(cause.Unwritten(tensor.id, _places(unwritten, evaluated.size), index))
    explainer, arbiter = observers.explainer, observers.arbiter
    if explainer is not None:
        _explain(judgement, explainer, lambda one: one.unwritten(tensor, evaluated, baseline, unwritten, kept))
    if arbiter is not None:
        judgement.arbitrate(arbiter, lambda one: one.output(tensor, evaluated, baseline, out.wanted, unwritten))


def _observe(
    judgement: Judgement, out: _Output, found: ElementErrors | None, observers: _Observers, failures: int
) -> None:
    """An output that differs, seen by others; before it there were so many `failures`."""
    tensor, evaluated, baseline, wanted = out.tensor, out.evaluated, out.baseline, out.wanted
    explainer, arbiter = observers.explainer, observers.arbiter
    beyond = False
    if observers.look is not None and found is not None:
        beyond = _look_again(
            judgement, *observers.look.told(tensor, found, evaluated, baseline), observers.look.decides
        )
    fails = len(judgement.failures) > failures
    if explainer is not None and fails:
        threshold = allowed_error(wanted)
        _explain(judgement, explainer, lambda one: one.differing(tensor, evaluated, baseline, threshold))
    if arbiter is not None and (fails or beyond):
        judgement.arbitrate(arbiter, lambda one: one.output(tensor, evaluated, baseline, wanted))


def _explain(
    judgement: Judgement, explainer: "Callable[[], Explainer]", ask: "Callable[[Explainer], Explanation | None]"
) -> None:
    def asked() -> Explanation | None:
        found = ask(explainer())
        judgement.notes.extend(slip for slip in explainer().slips if slip not in judgement.notes)
        return found

    judgement.explain(asked)


def _look_again(judgement: Judgement, reading: ElementReading, found: BeyondBound, decides: bool) -> bool:
    """True where elements are beyond what any order of operations explains."""
    judgement.elements.append(reading)
    if reading.as_half:
        judgement.notes.append(f"{reading.output}: {counted(reading.as_half, 'element')} as half arithmetic gives")
    if reading.beyond and decides:
        judgement.failures.append(found)
    elif reading.beyond:
        judgement.notes.append(reason_of((found,)))
    return reading.beyond > 0


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
    if wanted and judged == 0:
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
