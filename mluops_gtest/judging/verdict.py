"""From what a backend left in the buffers to a verdict; of a case without one, why it has none."""

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
from mluops_gtest.base.text import pluralize
from mluops_gtest.core import cause
from mluops_gtest.core.buffers import (
    is_constant_baseline,
    owned_rows,
    pattern_of,
    places_changed,
    places_holding,
    places_touched,
)
from mluops_gtest.core.call import ParamValue
from mluops_gtest.core.case import Case
from mluops_gtest.core.cause import Cause, Excess, Places, format_reason
from mluops_gtest.core.declaration import CheckVerdict
from mluops_gtest.core.explanation import Explanation
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import Arbitration, CaseResult, ElementReading, Profile, Reading, Worst
from mluops_gtest.core.tensor import Array, Criterion, CriterionKind, DType, Tensor, exact
from mluops_gtest.judging.blocks import index_of, profile_of, value_text
from mluops_gtest.judging.criteria import Comparison, allowed_error, compare, count_beyond, judge, judge_finite
from mluops_gtest.judging.elementwise import ElementwiseCheck, Expectation
from mluops_gtest.judging.figures import ElementErrors
from mluops_gtest.judging.fingerprint import with_fingerprint

if TYPE_CHECKING:
    from mluops_gtest.judging.arbitration import Arbiter
    from mluops_gtest.judging.explaining import Explainer

_SHORTAGES: Final = (errno.ENOMEM, errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EAGAIN)
_NO_ELEMENTS: Final = "not arbitrated: the operator has no `exact`, which says what one element is"
# A wrong scalar may be any integer; what it is off by is told as a float.
_MAX_DIFFERENCE: Final = 2**64


def not_loaded(draft: CaseResult, error: Exception) -> CaseResult:
    """The result of a case that whatever went wrong while it was loaded costs, and it alone."""
    match error:
        case ContentError():
            result = replace(draft, causes=(cause.ContentError(str(error)),), content_error=True)
        case UnwritableError():
            result = replace(draft, causes=(cause.Unwritable(str(error)),))
        case OSError():
            unreadable = cause.Unreadable(draft.case, str(error.strerror or error))
            result = replace(draft, causes=(unreadable,), content_error=True)
        case MemoryError():
            result = replace(draft, causes=(cause.TooLarge(draft.case),), content_error=True)
        case _:
            result = not_judged(draft, error)
    return with_fingerprint(result)


def not_judged(draft: CaseResult, error: BaseException) -> CaseResult:
    """The result where neither case nor backend is to blame: the system lacks something, or the harness is wrong."""
    name, text = type(error).__name__, str(error)
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _SHORTAGES):
        # Tensors in shared memory count as files, so that a limit on file sizes is met here as well.
        return replace(draft, outcome=Outcome.ERROR, causes=(cause.Shortage(name, text),))
    notes = (*draft.notes, traceback_of(error))
    return replace(draft, outcome=Outcome.ERROR, causes=(cause.Bug(name, text),), notes=notes, bug=True)


def traceback_of(error: BaseException) -> str:
    """The error's traceback in text."""
    return "".join(traceback.format_exception(error)).rstrip()


@dataclass(slots=True)
class Judgement:
    """What is found on one run of a case; the first of the failures is the main one."""

    readings: list[Reading] = field(default_factory=list)
    # Of the first output that fails, else of the first that differs at all.
    worst: Worst | None = None
    profile: Profile | None = None
    failures: list[Cause] = field(default_factory=list)
    suspicions: list[Cause] = field(default_factory=list)
    # Output → its baseline is constant; what counts rows, may stay or is declared so is not asked.
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
            explanation = ask()
        except Exception as error:
            self.notes.append(f"a bug of mluops-test: the failure is not explained: {traceback_of(error)}")
            return
        if explanation is not None:
            self.explained.append(explanation)

    def arbitrate(
        self, arbiter: "Callable[[], Arbiter | None] | None", ask: "Callable[[Arbiter], Arbitration | None]"
    ) -> None:
        """Keep who is right about an output; the verdict stands where that cannot be found out."""
        if arbiter is None:
            return
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
            self.notes.extend(f"{format_reason((cause.ConstantBaseline(name),))}; other outputs vary" for name in names)

    def compare_scalars(
        self,
        expected: Mapping[str, int],
        scalars: Mapping[str, int],
        arbiter: "Callable[[], Arbiter | None] | None" = None,
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
                self.explain(partial(_explain_scalar, name, got, value))
                self.arbitrate(arbiter, methodcaller("scalar", name, got, value))


def _explain_scalar(name: str, got: int, value: int) -> Explanation:
    # Late: what explains failures is loaded when there is one.
    from mluops_gtest.judging.explaining import scalar_explained

    return scalar_explained(name, got, value)


def result_fields(judgement: Judgement, notes: tuple[str, ...]) -> dict[str, Any]:
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
    may_clear = operator.may_clear(answer)
    for tensor in case.outputs:
        array = buffers.get(tensor.id)
        if array is None or array.size == 0:
            continue
        held, pattern = (
            case.initial_content(tensor.id),
            pattern_of(tensor.desc.dtype, operator.output(tensor.id).filling),
        )
        if held is not None and held.data is not None:
            # Between the elements of a strided tensor nothing of it lies.
            before = np.resize(pattern, array.size).view(tensor.desc.dtype.storage)
            tensor.desc.view(before)[...] = held.values
            touched = places_changed(array, before, tensor.desc.dtype)
        else:
            touched = places_touched(array, pattern)
        if touched.size and not (tensor.id in may_clear and is_cleared(array)):
            places = _places(touched, array.size)
            judgement.failures.append(cause.WrittenAnyway(tensor.id, places, answer.status.name, str(answer.check)))
    return judgement


def is_cleared(array: Array) -> bool:
    """Every bit of the buffer is 0."""
    return not np.ascontiguousarray(array).view(np.uint8).any()


def judge_values(
    case: Case,
    operator: Operator,
    expectation: Expectation,
    buffers: Mapping[str, Array],
    scalars: Mapping[str, int],
    *,
    bitwise: bool,
    elementwise: ElementwiseCheck | None = None,
    explainer: "Callable[[], Explainer] | None" = None,
    arbiter: "Callable[[], Arbiter | None] | None" = None,
) -> Judgement:
    """Every output held to its criteria, every scalar result compared exactly; `elementwise` sees each element.

    `explainer` is made and asked where outputs fail, and only there; `arbiter` also where no order of operations
    explains an element.
    """
    judgement = Judgement()
    judgement.compare_scalars(expectation.results, scalars, arbiter)
    judge_output = _OutputJudge(judgement, operator, case.facts, expectation, bitwise, elementwise, explainer, arbiter)
    wrong_counts: set[str] = set()
    pairs = list(zip(expectation.outputs, case.criteria, strict=True))
    # Single numbers come first: where one that counts the rows of others is wrong, nobody knows which to compare.
    for tensor, criteria in sorted(pairs, key=lambda pair: pair[0].id not in operator.numbers):
        count = operator.output(tensor.id).rows_owned
        if count in wrong_counts:
            judgement.notes.append(f"{tensor.id} is not compared, because {count} is wrong")
        elif criteria is None:
            judgement.notes.append(f"{tensor.id} is not compared (threshold_use: 0)")
        elif not tensor.desc.is_empty:
            failures = len(judgement.failures)
            judge_output(tensor, criteria, buffers[tensor.id])
            if tensor.id in operator.counts and len(judgement.failures) > failures:
                wrong_counts.add(tensor.id)
    judgement.doubt_constant()
    return judgement


def effective_criteria(
    dtype: DType, criteria: tuple[Criterion, ...], usual: tuple[Criterion, ...], *, recomputed: bool
) -> tuple[Criterion, ...]:
    """Integers are exact whatever a file names; a file without criteria gets the `usual` ones of the operator.

    So does one that asks diff3 = 0 of floats which the operator rounds and whose right values it does not store: right
    implementations differ from the reference in the last bits.
    """
    if dtype.is_integer:
        return exact()
    asks_for_bits = any(c.kind.canonical is CriterionKind.DIFF3 and c.threshold == 0 for c in criteria)
    is_rounded = any(c.threshold > 0 for c in usual)
    return usual if not criteria or (recomputed and asks_for_bits and is_rounded) else criteria


@dataclass(slots=True)
class _OutputJudge:
    """Holds one output after the other to its criteria; who looks at outputs beside these may be absent."""

    judgement: Judgement
    operator: Operator
    facts: Mapping[str, ParamValue | DType]
    expectation: Expectation
    bitwise: bool
    elementwise: ElementwiseCheck | None
    explainer: "Callable[[], Explainer] | None"
    arbiter: "Callable[[], Arbiter | None] | None"

    def __call__(self, tensor: Tensor, criteria: tuple[Criterion, ...], array: Array) -> None:
        """Judge the rows that the operator owns."""
        judgement, check = self.judgement, self.elementwise
        spec, dtype = self.operator.output(tensor.id), tensor.desc.dtype
        wanted = self._criteria(tensor, criteria)
        if not wanted:
            judgement.suspicions.append(cause.NoCriterion(tensor.id, dtype.value))
            return
        rows = owned_rows(spec, self.expectation.counts)
        evaluated, baseline = np.ascontiguousarray(array[:rows]), np.ascontiguousarray(tensor.values[:rows])
        if evaluated.size == 0:
            return
        judgement.compared = True
        kept = (
            self.expectation.preserved_elements(tensor)[:rows] if tensor.id in self.operator.initial_contents else None
        )
        self._judge_preserved(tensor, evaluated, baseline, kept)
        stays = tensor.id in self.expectation.may_stay
        if stays and not places_touched(evaluated, pattern_of(dtype, spec.filling)).size:
            judgement.notes.append(f"{tensor.id} is as it was before the call, which is allowed here")
            return
        if spec.filling is None and (kept is None or spec.kept is not None):
            unwritten = places_holding(evaluated, pattern_of(dtype, None))
            if kept is not None:
                unwritten = unwritten[~kept.reshape(-1)[unwritten]]
            if unwritten.size:
                self._judge_unwritten(tensor, evaluated, baseline, wanted, unwritten)
                return
        limits = None if check is None else partial(check.limits, tensor, evaluated)
        comparison = compare(evaluated, baseline, dtype, tuple(criterion.kind for criterion in wanted), limits)
        failures, first_failure = len(judgement.failures), not judgement.failures
        is_bounded = check is not None and check.alone and comparison.unequal > 0 and check.covers(tensor)
        beyond = self._judge_comparison(tensor, comparison, () if is_bounded else wanted, evaluated, baseline)
        if comparison.worst is not None and (judgement.worst is None or (first_failure and judgement.failures)):
            judgement.worst = _worst(tensor.id, dtype, comparison, evaluated, baseline, beyond)
            judgement.profile = profile_of(tensor.id, evaluated, baseline, dtype)
        if comparison.unequal:
            self._observe(tensor, evaluated, baseline, wanted, comparison.elements, failures)
        if comparison.bits_unequal and not comparison.unequal and all(c.threshold == 0 for c in wanted):
            bits = cause.BitsUnequal(tensor.id, comparison.bits_unequal)
            if self.bitwise:
                judgement.failures.append(bits)
            else:
                judgement.notes.append(format_reason((bits,)))
        if self.expectation.degenerate is None and tensor.id not in self.operator.numbers and not stays:
            judgement.constant[tensor.id] = is_constant_baseline(tensor, self.operator, self.expectation.counts)
        let_go(baseline)

    def _criteria(self, tensor: Tensor, criteria: tuple[Criterion, ...]) -> tuple[Criterion, ...]:
        dtype = tensor.desc.dtype
        usual = self.operator.usual_criteria(tensor.id, dtype, self.facts)
        wanted = effective_criteria(dtype, criteria, usual, recomputed=self.expectation.recomputed)
        if criteria and wanted != criteria and not dtype.is_integer:
            words = ", ".join(f"{criterion.kind.value} ≤ {criterion.threshold:g}" for criterion in wanted)
            self.judgement.notes.append(
                f"{tensor.id}: the file asks for diff3 = 0 and stores no values, but {self.operator.name} rounds; "
                f"the document's criteria decide: {words}"
            )
        return wanted

    def _judge_preserved(self, tensor: Tensor, evaluated: Array, baseline: Array, kept: Array | None) -> None:
        """What an output held when the call began and must go on to hold, bit for bit."""
        if kept is None:
            return
        changed = places_changed(evaluated, baseline, tensor.desc.dtype)
        changed = changed[kept.reshape(-1)[changed]]
        if changed.size:
            self.judgement.failures.append(cause.PreservedChanged(tensor.id, _places(changed, evaluated.size)))

    def _judge_unwritten(
        self, tensor: Tensor, evaluated: Array, baseline: Array, wanted: tuple[Criterion, ...], unwritten: Array
    ) -> None:
        index, preserved = index_of(int(unwritten[0]), evaluated.shape), self.expectation.preserved_rows.get(tensor.id)
        self.judgement.failures.append(cause.Unwritten(tensor.id, _places(unwritten, evaluated.size), index))
        self._explain(lambda one: one.unwritten(tensor, evaluated, baseline, unwritten, preserved))
        self.judgement.arbitrate(self.arbiter, lambda one: one.output(tensor, evaluated, baseline, wanted, unwritten))

    def _judge_comparison(
        self, tensor: Tensor, comparison: Comparison, wanted: tuple[Criterion, ...], evaluated: Array, baseline: Array
    ) -> int | None:
        """The elements beyond tolerance of an output that fails; of one within its criteria nobody counts them."""
        judgement, output, mismatches = self.judgement, tensor.id, comparison.nonfinite_mismatches
        readings = [(criterion, comparison.readings[criterion.kind.canonical]) for criterion in wanted]
        beyond = None
        if any(judge(c.kind, value, c.threshold, comparison) is False for c, value in readings):
            threshold = allowed_error(wanted)
            beyond = comparison.unequal
            if threshold:
                beyond = count_beyond(evaluated, baseline, tensor.desc.dtype, threshold)
        # A mismatch fails the output; what is said of a criterion is what it measured on the finite positions.
        differing = Places(comparison.unequal, comparison.compared, comparison.first_unequal, comparison.last_unequal)
        if mismatches:
            names = tuple(criterion.kind.canonical.value for criterion in wanted)
            first = comparison.first_nonfinite_mismatch
            assert first is not None, "a mismatch has a place"
            judgement.failures.append(cause.NonFinite(output, mismatches, first, names, differing))
        is_judged, exceeded = False, []
        for criterion, value in readings:
            name = criterion.kind.canonical.value
            within = judge_finite(criterion.kind, value, criterion.threshold, comparison)
            if within is None:
                judgement.notes.append(f"{output}: {name} is not judged on so few elements")
                continue
            is_judged = True
            judgement.readings.append(Reading(output, name, value, criterion.threshold, within))
            if not within:
                exceeded.append(Excess(name, value, criterion.threshold))
        if exceeded:
            is_equality, bits = allowed_error(wanted) == 0, comparison.bits_unequal
            judgement.failures.append(
                cause.Exceeded(output, tuple(exceeded), differing, bool(mismatches), is_equality, beyond, bits)
            )
        if wanted and not is_judged:
            judgement.suspicions.append(cause.NotJudged(output))
        return beyond

    def _observe(
        self,
        tensor: Tensor,
        evaluated: Array,
        baseline: Array,
        wanted: tuple[Criterion, ...],
        errors: ElementErrors | None,
        failures: int,
    ) -> None:
        """Let others see an output that differs; before it there were so many `failures`."""
        is_beyond = errors is not None and self._check_elements(tensor, errors, evaluated, baseline)
        fails = len(self.judgement.failures) > failures
        if fails:
            threshold = allowed_error(wanted)
            self._explain(lambda one: one.differing(tensor, evaluated, baseline, threshold))
        if fails or is_beyond:
            self.judgement.arbitrate(self.arbiter, lambda one: one.output(tensor, evaluated, baseline, wanted))

    def _check_elements(self, tensor: Tensor, errors: ElementErrors, evaluated: Array, baseline: Array) -> bool:
        """True where elements are beyond what any order of operations explains."""
        if self.elementwise is None:
            return False
        judgement = self.judgement
        reading, beyond = self.elementwise.describe(tensor, errors, evaluated, baseline)
        judgement.elements.append(reading)
        if reading.as_half:
            judgement.notes.append(
                f"{reading.output}: {pluralize(reading.as_half, 'element')} as half arithmetic gives"
            )
        if reading.beyond and self.elementwise.decides:
            judgement.failures.append(beyond)
        elif reading.beyond:
            judgement.notes.append(format_reason((beyond,)))
        return reading.beyond > 0

    def _explain(self, ask: "Callable[[Explainer], Explanation | None]") -> None:
        make, notes = self.explainer, self.judgement.notes
        if make is None:
            return

        def explain() -> Explanation | None:
            explanation = ask(make())
            notes.extend(slip for slip in make().suspects.slips if slip not in notes)
            return explanation

        self.judgement.explain(explain)


def _places(found: Array, size: int) -> Places:
    return Places(found.size, size, int(found[0]), int(found[-1]))


def _worst(
    output: str, dtype: DType, comparison: Comparison, evaluated: Array, baseline: Array, beyond: int | None
) -> Worst:
    assert comparison.worst is not None
    index = index_of(comparison.worst, evaluated.shape)
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
