"""Cases that got no verdict: what could not be loaded, what the machine does not give, what is a bug of ours.

What is found on one run of a case, and the result that follows.

From what a backend left in the buffers to a verdict.
"""

import errno
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from mluops_gtest.base.errors import ContentError, UnwritableError
from mluops_gtest.base.files import let_go
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.text import pluralize
from mluops_gtest.core import cause
from mluops_gtest.core.binding import owned_rows, proves_little
from mluops_gtest.core.buffers import pattern_of, places_holding, places_touched
from mluops_gtest.core.case import Case
from mluops_gtest.core.cause import BeyondBound, Cause, Excess, Places
from mluops_gtest.core.explanation import Explanation
from mluops_gtest.core.operator import CheckVerdict, Operator, OutputSpec
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.reasons import reason_of
from mluops_gtest.core.result import Arbitration, CaseResult, ElementReading, Profile, Reading, Worst
from mluops_gtest.core.tensor import Array, Criterion, CriterionKind, DType, Tensor, exact
from mluops_gtest.judging.blocks import value_text
from mluops_gtest.judging.criteria import Comparison, allowed_error, compare, count_beyond, judge, judge_finite
from mluops_gtest.judging.elementwise import ElementErrors
from mluops_gtest.judging.elementwise_check import Expectation, SecondLook
from mluops_gtest.judging.fingerprint import fingerprinted
from mluops_gtest.judging.profile import profile_of

if TYPE_CHECKING:
    from mluops_gtest.judging.arbitration import Arbiter

    ArbiterMaker = Callable[[], Arbiter | None]
    from mluops_gtest.judging.explaining import Explainer


_SHORTAGES = (errno.ENOMEM, errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EAGAIN)


def not_loaded(case: str, operator: str, tags: tuple[str, ...], error: Exception) -> CaseResult:
    """Whatever goes wrong while a case is loaded costs that case alone."""
    blank = CaseResult(case, operator, tags, Outcome.ERROR, content_error=True)
    match error:
        case ContentError():
            result = replace(blank, causes=(cause.ContentError(str(error)),))
        case UnwritableError():
            result = replace(blank, causes=(cause.Unwritable(str(error)),), content_error=False)
        case OSError():
            result = replace(blank, causes=(cause.Unreadable(case, str(error.strerror or error)),))
        case MemoryError():
            result = replace(blank, causes=(cause.TooLarge(case),))
        case _:
            result = not_judged(replace(blank, content_error=False), error)
    return fingerprinted(result)


def not_judged(blank: CaseResult, error: BaseException) -> CaseResult:
    """Neither the case's doing nor the backend's: the system lacks something, or the harness is wrong."""
    name, text = type(error).__name__, str(error)
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _SHORTAGES):
        # Tensors in shared memory count as files, so that a limit on file sizes is met here as well.
        return replace(blank, outcome=Outcome.ERROR, causes=(cause.Shortage(name, text),))
    notes = (*blank.notes, traceback_of(error))
    return replace(blank, outcome=Outcome.ERROR, causes=(cause.Bug(name, text),), notes=notes, bug=True)


def traceback_of(error: BaseException) -> str:
    """The error's traceback in text."""
    return "".join(traceback.format_exception(error)).rstrip()


_NO_ELEMENTS: Final = "not arbitrated: the operator has no exact.py, which says what one element is"
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
    # Output → its baseline is constant; what counts rows and what the case declares so are not asked.
    constant: dict[str, bool] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    elements: list[ElementReading] = field(default_factory=list)
    explained: list[Explanation] = field(default_factory=list)
    arbitrated: list[Arbitration] = field(default_factory=list)
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

    def arbitrate(self, arbiter: "ArbiterMaker", ask: "Callable[[Arbiter], Arbitration | None]") -> None:
        """Keep who is right about an output; the verdict stands where that cannot be found out."""
        try:
            one = arbiter()
            found = None if one is None else ask(one)
        except Exception as error:
            self.notes.append(f"not arbitrated: {traceback_of(error)}")
            return
        if found is not None:
            self.arbitrated.append(found)
        elif one is None and _NO_ELEMENTS not in self.notes:
            self.notes.append(_NO_ELEMENTS)

    def doubt_constant(self) -> None:
        """Suspect where no output that was compared varies; beside one that does, a constant one is a remark."""
        names = [name for name, is_constant in self.constant.items() if is_constant]
        if len(names) == len(self.constant):
            self.suspicions.extend(cause.ConstantBaseline(name) for name in names)
        else:
            self.notes.extend(f"{reason_of((cause.ConstantBaseline(name),))}; other outputs vary" for name in names)

    def compare_scalars(
        self,
        expected: Mapping[str, int],
        scalars: Mapping[str, int],
        arbiter: "ArbiterMaker | None" = None,
    ) -> None:
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
                if arbiter is not None:
                    self.arbitrate(arbiter, methodcaller("scalar", name, got, value))


def _scalar_explained(name: str, got: int, value: int) -> Explanation:
    # Late: what explains failures is loaded when there is one.
    from mluops_gtest.judging.explaining import scalar_explained

    return scalar_explained(name, got, value)


def judged(result: CaseResult, judgement: Judgement) -> CaseResult:
    """The result with what was found, and with its fingerprint."""
    return fingerprinted(replace(result, **found_by(judgement, result.notes)))


def found_by(judgement: Judgement, notes: tuple[str, ...]) -> dict[str, Any]:
    """What was found, as fields of a result; `notes` are those that it has already."""
    return {
        "outcome": judgement.outcome,
        "readings": tuple(judgement.readings),
        "worst": judgement.worst,
        "profile": judgement.profile,
        "elements": tuple(judgement.elements),
        "explained": tuple(judgement.explained),
        "causes": judgement.causes,
        "notes": (*notes, *judgement.notes),
        "compared": judgement.compared,
    }


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
        judgement.notes.append(f"{reading.output}: {pluralize(reading.as_half, 'element')} as half arithmetic gives")
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
