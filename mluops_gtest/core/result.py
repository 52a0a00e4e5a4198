"""What came out of one case, and who is right where a backend and a baseline disagree."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from msgspec import field

from mluops_gtest.base.frozen import Value
from mluops_gtest.base.text import pluralize
from mluops_gtest.base.typed_files import Count
from mluops_gtest.core.call import Status
from mluops_gtest.core.case import Case, Reseeded
from mluops_gtest.core.cause import Cause, Exceeded, Leak, LegacyReason, format_reason, format_share
from mluops_gtest.core.explanation import Explanation
from mluops_gtest.core.outcome import Outcome, Wording

# Of one output, the worst first.
MAX_EXAMINED: Final = 1000
MAX_EXAMPLES: Final = 5
# Beyond this a distance in ulp says nothing but that the values have nothing to do with each other.
MAX_ULP: Final = 10_000

Side = Literal["baseline", "backend", "both", "neither"]


class DisputedElement(Value):
    """One element; values as text, errors as |value − exact| and in units in the last place of the exact value."""

    index: tuple[Count, ...]
    right: Side
    exact: str
    backend: str
    baseline: str
    # Infinite where a NaN or an infinity does not meet its like.
    backend_error: float
    backend_ulp: float
    baseline_error: float
    baseline_ulp: float


class Arbitration(Value):
    """The disputed elements of one output: how many there are, how many were recomputed, and who is right at these."""

    output: str
    disputed: Count
    # How many elements each is right at.
    baseline: Count
    backend: Count
    both: Count
    neither: Count
    # Units in the last place mean something; integers have none.
    has_ulp: bool
    # Those at which the baseline is wrong first, then the worst.
    examples: tuple[DisputedElement, ...]
    # The largest errors of the examined elements.
    backend_error: float
    backend_ulp: float
    baseline_error: float
    baseline_ulp: float

    @property
    def examined(self) -> int:
        """The elements that were recomputed."""
        return self.baseline + self.backend + self.both + self.neither

    @property
    def baseline_wrong(self) -> int:
        """The elements at which the baseline is not what the document defines."""
        return self.backend + self.neither


_RIGHT: Final[Mapping[Side, Wording]] = {
    "baseline": Wording("the baseline is right at {}", "基准值正确的有 {} 个"),
    "backend": Wording("the backend is right at {}", "后端正确的有 {} 个"),
    "both": Wording("both are within what arithmetic allows at {}", "双方均在运算允许范围内的有 {} 个"),
    "neither": Wording("neither is right at {}", "双方均错误的有 {} 个"),
}
_DISPUTED_ZH: Final = "{} 个有争议的元素"
_WORST_DISPUTED: Final = Wording("the {0} worst of {1}", "{1}中最差的 {0} 个")
_ARBITRATION: Final = Wording(
    "{}, {}: {}; the backend is off by up to {}, the baseline by {}; {}is exactly {}, backend {}, baseline {}",
    "{}，{}：{}；后端最大误差 {}，基准值最大误差 {}；{}精确值为 {}，后端为 {}，基准值为 {}",
)
_EXAMPLE: Final = Wording("[{}] ", "[{}] 的")
_COMMA: Final = Wording(", ", "，")
_OVER_ULP: Final = Wording("over {} ulp", "超过 {} ulp")


def format_arbitration(found: Arbitration, lang: str = "en") -> str:
    """How many disputed elements each side is right at, how far each is off at most, and an example."""
    which = pluralize(found.disputed, "disputed element") if lang == "en" else _DISPUTED_ZH.format(found.disputed)
    if found.disputed > found.examined:
        which = _WORST_DISPUTED.format(lang, found.examined, which)
    errors = (_format_error(found, side, lang) for side in ("backend", "baseline"))
    one = found.examples[0]
    place = _EXAMPLE.format(lang, ", ".join(map(str, one.index))) if one.index else "it " * (lang == "en")
    values = (one.exact, one.backend, one.baseline)
    return _ARBITRATION.format(lang, found.output, which, _format_sides([found], lang), *errors, place, *values)


def summarize_arbitrations(arbitrations: Iterable[Arbitration]) -> str:
    """All disputes of a run in a line."""
    found = list(arbitrations)
    examined = pluralize(sum(one.examined for one in found), "disputed element")
    return f"{examined} of {pluralize(len(found), 'output')} recomputed exactly: {_format_sides(found, 'en')}"


def _format_sides(found: Iterable[Arbitration], lang: str) -> str:
    """At how many elements each side is right."""
    counts = {side: sum(getattr(one, side) for one in found) for side in _RIGHT}
    right = {side: count for side, count in counts.items() if count}
    if lang == "en" and len(right) == 1:
        ((side, count),) = right.items()
        return _RIGHT[side].format(lang, "it" if count == 1 else f"all {count}")
    return _COMMA.format(lang).join(_RIGHT[side].format(lang, count) for side, count in right.items())


def _format_error(found: Arbitration, side: str, lang: str) -> str:
    """By how much a side is off at most: absolutely and in ulp, or as a whole number."""
    error, ulp = getattr(found, f"{side}_error"), getattr(found, f"{side}_ulp")
    if not math.isfinite(error):
        return "∞"
    if not found.has_ulp:
        return f"{error:.15g}"
    return f"{error:.3g} ({_OVER_ULP.format(lang, MAX_ULP) if ulp > MAX_ULP else f'{ulp:.3g} ulp'})"


class Reading(Value):
    """One criterion measured on one output."""

    output: str
    criterion: str
    value: float
    threshold: float
    within: bool


class Worst(Value):
    """The element that is furthest from its baseline; values as text, so that NaN and bits survive JSON."""

    output: str
    index: tuple[Count, ...]
    evaluated: str
    baseline: str
    unequal: Count
    compared: Count
    max_ulp: Count | None = None
    # Elements beyond tolerance by themselves, see judging/criteria.py; None where that was not counted.
    beyond: Count | None = None
    # `unequal` and those that differ in the sign of 0 or in the payload of a NaN.
    bits_unequal: Count | None = None


class ElementReading(Value):
    """The element-wise check at one output: its elements beyond what arithmetic allows, and the worst of them."""

    output: str
    precision: str
    beyond: Count
    compared: Count
    # The largest error over what is allowed there; infinite where nothing is.
    ratio: float
    index: tuple[Count, ...]
    evaluated: str
    baseline: str
    allowed: float
    # Of a half output: beyond any order of float operations, within half arithmetic; `precision` is then half.
    as_half: Count = 0


class ThreadsReading(Value):
    """The repetitions with one number of threads: how many did not pass, how many left other bits than the first."""

    threads: Count
    repetitions: Count
    failed: Count
    differing: Count


class StressReading(Value):
    """What a case came to when it was repeated with changing numbers of threads."""

    by_threads: tuple[ThreadsReading, ...]
    # The number of threads of the first repetition that did not pass; None where all did.
    first_failed: int | None = None

    @property
    def repetitions(self) -> int:
        return sum(row.repetitions for row in self.by_threads)

    @property
    def failed(self) -> int:
        """Those that did not pass."""
        return sum(row.failed for row in self.by_threads)

    @property
    def differing(self) -> int:
        """Those whose outputs are not, bit for bit, those of the first."""
        return sum(row.differing for row in self.by_threads)


class TensorInfo(Value):
    """A tensor's descriptor as reports print it."""

    id: str
    dtype: str
    layout: str
    dims: tuple[Count, ...]


# A long list of numbers tells a reader nothing; its head and length do.
_MAX_VALUES: Final = 32


class CaseInfo(Value):
    """What a report says of the case itself, so that it needs no case file."""

    inputs: tuple[TensorInfo, ...] = ()
    outputs: tuple[TensorInfo, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    doc: str = ""
    theory_io_bytes: float | None = None
    theory_ops: float | None = None
    # The check that must answer the call; empty where all hold.
    check: str = ""
    # The outputs that are held to criteria of the case, not to those of the operator.
    own_criteria: tuple[str, ...] = ()
    # Under --reseed: what that made of the case.
    reseeded: Reseeded | None = None
    # The level of the device, e.g. 370, that the case asks for; None: that of the device at hand.
    arch: int | None = None

    @staticmethod
    def of(case: Case) -> "CaseInfo":
        """Descriptors, parameters and theoretical figures of the case."""
        inputs, outputs = (
            tuple([TensorInfo(t.id, t.desc.dtype.value, t.desc.layout.value, t.desc.dims) for t in tensors])
            for tensors in (case.inputs, case.outputs)
        )
        return CaseInfo(
            inputs=inputs,
            outputs=outputs,
            params={name: _describe_param(value) for name, value in case.params.items()},
            doc=case.doc,
            theory_io_bytes=case.theory.get("theory_io_size"),
            theory_ops=case.theory.get("theory_compute_ops"),
            check=case.expect.check or "",
            reseeded=case.reseeded,
            arch=case.expect.arch,
        )

    @property
    def tensors(self) -> tuple[TensorInfo, ...]:
        """Inputs, then outputs."""
        return (*self.inputs, *self.outputs)

    @property
    def elements(self) -> int:
        """All elements of all tensors; 0 of a case that never loaded."""
        return sum(math.prod(tensor.dims) for tensor in self.tensors)


def _describe_param(value: object) -> object:
    if not isinstance(value, tuple):
        return value
    if len(value) <= _MAX_VALUES:
        return list(value)
    return f"{list(value[:_MAX_VALUES])} and {len(value) - _MAX_VALUES} more"


class Attempt(Value):
    """One of several tries at a case that failed at first."""

    outcome: Outcome
    causes: tuple[Cause, ...] = ()

    @property
    def reason(self) -> str:
        """The causes in English."""
        return format_reason(self.causes)


class Profile(Value):
    """Where and how much an output differs: only for cases with unequal elements.

    `histogram` counts unequal elements by the binary exponent of their relative error: bin i holds
    2^(i−30) ≤ error < 2^(i−29), the first and last bin also what lies beyond. `cells` is the largest relative
    error per cell of a `rows` × `columns` map over the output, row-major, flattened to two dimensions: the last axis
    across, or `width` elements where a long and thin output is folded.
    """

    output: str
    histogram: tuple[Count, ...]
    rows: Count
    columns: Count
    cells: tuple[float, ...]
    # 0: the map is not folded.
    width: Count = 0


class Perf(Value):
    """Times of repeated calls in nanoseconds, as the interface takes and as the device says."""

    samples_ns: tuple[Count, ...]
    device_samples_ns: tuple[Count, ...] = ()
    workspace_bytes: Count = 0
    # What the interface takes for a call that computes nothing; None where that was not measured.
    overhead_ns: Count | None = None


class CaseResult(Value):
    """The verdict on one case with everything needed to understand it."""

    case: str
    operator: str
    tags: tuple[str, ...]
    outcome: Outcome
    status: Status | None = None
    expected_status: Status | None = None
    readings: tuple[Reading, ...] = ()
    worst: Worst | None = None
    # Where and how the outputs that fail are wrong.
    explained: tuple[Explanation, ...] = ()
    # Of the outputs that differ from their baselines at all, where the operator declares what arithmetic allows.
    elements: tuple[ElementReading, ...] = ()
    # Under --arbitrate: who is right where the outputs are in dispute.
    arbitrated: tuple[Arbitration, ...] = ()
    seconds: float = 0.0
    # Why it came to that, the main cause first.
    causes: tuple[Cause, ...] = ()
    repro: str = ""
    # Of a crash: the command that runs this one case under a debugger; empty where there is none that would show it.
    debug: str = ""
    notes: tuple[str, ...] = ()
    # What the backend printed during the case, limited in size.
    output: str = ""
    attempts: tuple[Attempt, ...] = ()
    # Under --stress: what the repetitions came to.
    stress: StressReading | None = None
    # What its call was seen to keep; the case fails only under --fail-on-leak.
    leak: Leak | None = None
    # `v1:` and a short hash: the same mistake on the same case gives the same one. Empty where nothing is wrong.
    fingerprint: str = ""
    profile: Profile | None = None
    perf: Perf | None = None
    info: CaseInfo = CaseInfo()
    # Of a run on a cluster: where the case ran.
    host: str = ""
    device: int | None = None
    # There: `worker` where the verdict is the worker's own; empty where this machine judged.
    judged_by: Literal["", "worker"] = ""
    # The case itself or its content is broken, not the backend: exit 3.
    content_error: bool = False
    # The harness itself failed: exit 70.
    bug: bool = False
    # A value or a status of the backend was really compared.
    compared: bool = False

    @property
    def reason(self) -> str:
        """The causes in English."""
        return format_reason(self.causes)

    @property
    def passed(self) -> bool:
        return self.outcome is Outcome.PASSED

    @property
    def outliers(self) -> int:
        """Elements that no order of right operations explains."""
        return sum(reading.beyond for reading in self.elements)

    def __repr__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        return f"<{self.case} {self.outcome.value}{reason}>"

    def _repr_html_(self) -> str:
        from mluops_gtest.results.reports.html import result_html

        return result_html(self)

    def __post_init__(self) -> None:
        """Refuse a `passed` that nobody looked at, wherever it comes from."""
        if self.outcome is Outcome.PASSED:
            problem = _unproved(self)
            if problem:
                raise ValueError(f"{self.case} cannot have passed: {problem}")


def _unproved(result: CaseResult) -> str:
    """Why nothing shows that the case passed; empty where something does."""
    status, expected = result.status, result.expected_status
    if not result.compared:
        return "nothing was compared"
    if not all(reading.within for reading in result.readings):
        return "a reading is beyond its threshold"
    if status is not None and expected is not None and status != expected:
        return f"it answered {status.name}, and {expected.name} was expected"
    if result.stress is not None and result.stress.failed:
        return f"{result.stress.failed} of its repetitions did not"
    if not result.readings and (status is None or expected is None):
        return "it has no reading and no status that was checked"
    return ""


def reportable_ulp(worst: Worst) -> int | None:
    """The largest distance in ulp where it says something: it is taken over finite pairs, and NaN or inf is worse."""
    finite = "n" not in f"{worst.evaluated}{worst.baseline}".lower()
    return worst.max_ulp if worst.max_ulp and worst.max_ulp <= MAX_ULP and finite else None


def format_worst(result: CaseResult) -> str:
    """Where an output is furthest from its baseline, and what of its difference its causes do not tell."""
    worst = result.worst
    if worst is None:
        return ""
    asked = [reading.threshold for reading in result.readings if reading.output == worst.output]
    share = format_share(
        worst.beyond, worst.unequal, worst.bits_unequal, worst.compared, equality=bool(asked) and min(asked) <= 0
    )
    ulp = reportable_ulp(worst)
    # Of the words of an earlier version nobody knows what they say; mostly it is this.
    told = any(
        isinstance(cause, LegacyReason) or (isinstance(cause, Exceeded) and cause.output == worst.output)
        for cause in result.causes
    )
    beside = ["" if told else share, "" if ulp is None else f"at most {ulp} ulp apart"]
    place = f"{worst.output}[{', '.join(map(str, worst.index))}]"
    return "; ".join(filter(None, [f"{place} = {worst.evaluated}, expected {worst.baseline}", *beside]))


def format_worst_outlier(result: CaseResult) -> str:
    """The element that is furthest beyond what arithmetic allows, and how many there are; empty where none is."""
    if not result.outliers:
        return ""
    worst = max(result.elements, key=lambda reading: reading.ratio)
    place = f"{worst.output}[{', '.join(map(str, worst.index))}]"
    others = f"; {result.outliers} such elements" if result.outliers > 1 else ""
    return f"{place} = {worst.evaluated}, expected {worst.baseline} ± {worst.allowed:.3g}{others}"
