"""The search for the smallest case that fails for the same cause: bounded, and the same every time.

It says what counts as the same failure, and judges candidates as `run` judges, without waiting long for hangs.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Self, TypeVar

from msgspec import field
from msgspec.structs import replace

from mluops_gtest.base.errors import BackendError, CaseFileError
from mluops_gtest.base.frozen import Value
from mluops_gtest.catalog.selection import Session
from mluops_gtest.core import cause as c
from mluops_gtest.core.buffers import bind_values
from mluops_gtest.core.call import Status
from mluops_gtest.core.case import Case
from mluops_gtest.core.declaration import Reduction
from mluops_gtest.core.operator import Operator, call_operator_function, refuse_by_operator
from mluops_gtest.core.operator_parts import REDUCTIONS
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult
from mluops_gtest.core.tensor import digest_tensors
from mluops_gtest.running.caller import Caller, LostDeviceError, open_callers
from mluops_gtest.running.case_run import CaseRun, Options
from mluops_gtest.running.options import RunOptions
from mluops_gtest.running.session import options_of
from mluops_gtest.search import minimise_candidates as simpler_calls
from mluops_gtest.search.minimise_candidates import LIMIT, Candidates, recipe_output_of

# A kind of cause, and what it is about: an output, a buffer and its side, a signal, an exception, two statuses.
Mark = tuple[str, ...]
_VALUES = "values"


class FailureCause(Value):
    """How a case fails, in what stays the same when the case becomes smaller."""

    outcome: Outcome
    status: Status | None
    # Of the causes, the main one first.
    marks: tuple[Mark, ...]
    # Outputs with elements further off than arithmetic allows.
    beyond: frozenset[str]

    @classmethod
    def of(cls, result: CaseResult) -> Self:
        """How this case fails."""
        marks = dict.fromkeys(mark for cause in result.causes if (mark := _mark(cause)))
        beyond = {reading.output for reading in result.elements if reading.beyond}
        beyond |= {cause.output for cause in result.causes if isinstance(cause, c.BeyondBound)}
        return cls(result.outcome, result.status, tuple(marks), frozenset(beyond))

    def is_also_of(self, result: CaseResult) -> bool:
        """The result fails for this cause.

        It comes to the same outcome and status, its main cause is the same, and it has no cause that was not there.
        Where elements were further off than arithmetic allows, some still are: a sum that merely cancels in the
        smaller case may break a criterion, but it is not the same mistake.
        """
        other = FailureCause.of(result)
        if (self.outcome, self.status, self.marks[:1]) != (other.outcome, other.status, other.marks[:1]):
            return False
        wrong = {output for kind, *about in other.marks if kind == _VALUES for output in about}
        return set(other.marks) <= set(self.marks) and wrong & self.beyond <= other.beyond


def can_be_minimised(result: CaseResult) -> bool:
    """The backend did something wrong that a smaller case may show as well."""
    is_innocent = any(isinstance(cause, c.External) for cause in result.causes)
    return result.outcome.fails and not result.content_error and not result.bug and not is_innocent


def _mark(cause: c.Cause) -> Mark:
    """The cause without figures and places; empty for what only stands before other causes."""
    match cause:
        case c.PassedAtTry() | c.AfterTimedCalls() | c.UnderStress() | c.OnlyAfter():
            return ()
        case c.Exceeded(output=name) | c.BeyondBound(output=name) | c.BitsUnequal(output=name):
            return (_VALUES, name)
        case c.Killed(signal=signal) | c.Fault(signal=signal) | c.ProgramDied(signal=signal):
            return ("died", signal)
        case c.Exited(code=code):
            return ("exited", str(code))
        case c.Raised(exception=exception, asked=asked):
            return ("raised", exception, asked)
        case c.Overrun(buffer=buffer, side=side):
            return ("overrun", buffer, side)
        case c.QueryStatus(answered=answered, expected=expected):  # before that of the operator, whose type it has
            return ("query", answered, expected)
        case c.WrongStatus(answered=answered, expected=expected):
            return ("status", answered, expected)
        case (
            c.Unwritten(output=name)
            | c.PreservedChanged(output=name)
            | c.NonFinite(output=name)
            | c.WrittenAnyway(output=name)
            | c.ScalarMissing(output=name)
            | c.ScalarWrong(output=name)
            | c.FileSize(output=name)
            | c.StillWritten(output=name)
            | c.InputChanged(input=name)
            | c.GapWritten(output=name)
            | c.HostArrayChanged(array=name)
            | c.PageWritten(tensor=name)
        ):
            return (type(cause).__name__, name)
    return (type(cause).__name__,)


# After the first hang a call gets so many seconds, or so many times what the slowest call took that did not hang.
_SHORT_SECONDS: Final = 1.0
_TIMES_THE_SLOWEST: Final = 20.0


class Trials:
    """Calls the backend with one candidate after the other."""

    def __init__(self, caller: Caller, options: Options, operator: Operator) -> None:
        self._caller, self._options, self._operator = caller, options, operator
        self._case_run = CaseRun(caller, replace(options, explain=False))
        self._slowest = 0.0

    def __call__(self, case: Case) -> CaseResult:
        """The verdict, without an explanation."""
        result = self._case_run.run_case(case, self._operator)
        if result.outcome is Outcome.TIMED_OUT:
            self._hurry()
        else:
            self._slowest = max(self._slowest, result.seconds)
        return result

    def explained(self, case: Case) -> CaseResult:
        """The verdict with its explanation, and with all the time that a run gives."""
        return CaseRun(self._caller, self._options).run_case(case, self._operator)

    def _hurry(self) -> None:
        short = max(_SHORT_SECONDS, _TIMES_THE_SLOWEST * self._slowest)
        limit = short if self._options.timeout is None else min(short, self._options.timeout)
        self._case_run = CaseRun(self._caller, replace(self._case_run.options, timeout=limit))


T = TypeVar("T")
# Pieces of one length that must stay before shorter ones are tried: the others would mostly stay, too.
_PATIENCE: Final = 6
_THOROUGH: Final = 48

Execute = Callable[[Case], CaseResult]
# A candidate, or None where there is none, and what is tried with it.
Offer = tuple[Case | None, str]
Offers = Callable[[Case], Iterator[Offer]]


class Minimised(Value):
    """The smallest case found, what came out of it, and after how many calls of the backend."""

    case: Case
    result: CaseResult
    calls: int
    # Quantity → how many there were, and how many are left.
    sizes: Mapping[str, tuple[int, int]]
    # Elements of all tensors, before and after.
    elements: tuple[int, int]
    # Nothing that we know to take away can be taken away; else the calls were used up, or the user stopped.
    finished: bool = True
    interrupted: bool = False
    # With the reference's baseline the case does not fail so: its file holds another one.
    other_baseline: bool = False

    # Nothing was taken away and no value changed.
    is_unchanged: bool = False
    # What could not become less → what came of the last try.
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def fails(self) -> bool:
        """The case failed by the backend's doing, so there was something to minimise."""
        return can_be_minimised(self.result)


class Step(Value):
    """How far the search is, after every call."""

    calls: int
    limit: int
    elements: int
    tried: str


class _EnoughError(Exception):
    """All calls are used up."""


def minimised(
    case: Case,
    operator: Operator,
    reductions: Mapping[str, Reduction],
    execute: Execute,
    limit: int = LIMIT,
    tell: Callable[[Step], None] = lambda _step: None,
) -> Minimised:
    """The smallest case that fails for the same cause; the case itself where it does not fail.

    `execute` is called at most `limit` times. An interrupt ends the search with the best case so far.
    """
    search = _Search(case, operator, reductions, execute, limit, tell)
    finished = interrupted = False
    try:
        search.run()
        finished = True
    except _EnoughError:
        pass
    except KeyboardInterrupt:
        if search.result is None:
            raise
        interrupted = True
    assert search.result is not None, "the first call is made or interrupted"
    before, after = search.sizes_of(case), search.sizes_of(search.best)
    return Minimised(
        case=search.best,
        result=search.result,
        calls=search.calls,
        sizes={name: (before[name], after[name]) for name in before if name in after},
        elements=(case.elements, search.best.elements),
        finished=finished,
        interrupted=interrupted,
        other_baseline=search.other_baseline,
        is_unchanged=search.taken == 0,
        refused=search.refused,
    )


class _Search:
    def __init__(
        self,
        case: Case,
        operator: Operator,
        reductions: Mapping[str, Reduction],
        execute: Execute,
        limit: int,
        tell: Callable[[Step], None],
    ) -> None:
        self.best, self.calls, self.taken = case, 0, 0
        self.result: CaseResult | None = None
        self.other_baseline = False
        self.refused: dict[str, str] = {}
        self._operator, self._reductions = operator, reductions
        self._execute, self._limit, self._tell = execute, limit, tell

    def run(self) -> None:
        """Search until nothing more can be taken away."""
        self.result = self._called(self.best, "the case itself")
        if not can_be_minimised(self.result):
            return
        self._cause = FailureCause.of(self.result)
        self._candidates = Candidates.like(self.best, self._operator)
        if not self._candidates.answer.computes:
            self.best = simpler_calls.with_usual_criteria(self.best, self._operator)
            self._plainer(self._refused)
            return
        if not self._rebase():
            return
        while self._shrink(_PATIENCE):
            pass
        while self._plainer(self._settings, self._tensors) and self._shrink(_PATIENCE):
            pass
        # Few are left: now each by itself.
        while self._shrink(_THOROUGH) or self._plainer(self._settings, self._tensors, self._elements):
            pass

    def sizes_of(self, case: Case) -> dict[str, int]:
        """How many there are of every quantity that the operator declares."""
        call, sizes = bind_values(case, self._operator), {}
        for name, reduction in self._reductions.items():
            try:
                sizes[name] = reduction.size(call)
            except Exception:
                # A call that is refused may lack the tensor that says it.
                continue
        return sizes

    def _called(self, case: Case, what: str) -> CaseResult:
        if self.calls >= self._limit:
            raise _EnoughError
        result = self._execute(case)
        self.calls += 1
        self._tell(Step(self.calls, self._limit, self.best.elements, what))
        return result

    def _takes(self, candidate: Case | None, what: str) -> bool:
        """Whether the candidate fails for the same cause and is the best from now on."""
        if candidate is None:
            self.refused.setdefault(what, "no other call that the document defines is left")
            return False
        result = self._called(candidate, what)
        if not self._cause.is_also_of(result):
            failed = f"fails in another way: {result.reason}" if result.outcome.fails else "does not fail"
            self.refused[what] = f"the smaller call {failed}"
            return False
        self.refused.pop(what, None)
        self.best, self.result = candidate, result
        self.taken += 1
        return True

    def _rebase(self) -> bool:
        """Let the baseline be the reference's from here on, as that of every candidate is."""
        rebased = self._candidates.rebased(self.best)
        if rebased is None or digest_tensors(rebased.outputs) == digest_tensors(self.best.outputs):
            return rebased is not None
        self.other_baseline = not self._takes(rebased, "the baseline of the reference")
        self.taken = 0
        return not self.other_baseline

    def _shrink(self, patience: int) -> bool:
        """Take away of every quantity what can be taken away; whether anything could."""
        # A sum, not any(): every one gets its turn.
        return sum(self._take_away(name, one, patience) for name, one in self._reductions.items()) > 0

    def _take_away(self, name: str, reduction: Reduction, patience: int) -> bool:
        def count() -> int:
            return self._call_reduction(name, reduction.size)

        size = count()
        # A mistake that needs only one of them, whichever, needs no search.
        taken = size > 2 and (self._without(name, reduction, 1, size) or self._without(name, reduction, 0, size - 1))
        piece = size = count()
        while piece:
            stop, stayed = size, 0
            while stop > 0 and stayed < patience:
                start = max(0, stop - piece)
                if self._without(name, reduction, start, stop):
                    taken = True
                    size = count()
                else:
                    stayed += 1
                stop = min(start, size)
            piece = min(piece // 2, size)
        return taken

    def _without(self, name: str, reduction: Reduction, start: int, stop: int) -> bool:
        made = self._call_reduction(name, reduction.without, start, stop)
        return self._takes(None if made is None else self._candidates.with_call(self.best, made), name)

    def _call_reduction(self, name: str, function: Callable[..., T], *places: int) -> T:
        """What a reduction says of the best call; one that fails is a mistake of its author."""
        what = f"the reduction {name!r} of {self._operator.name}"
        of = "" if not places else f" from {places[0]} up to {places[1]}"
        advice = "It must answer every call that computes; where nothing can be taken away `without` returns None."
        refuse = refuse_by_operator(function, f"{what} fails{of}", advice)
        call = bind_values(self.best, self._operator)
        return call_operator_function(function, what, lambda: function(call, *places), refuse)

    def _plainer(self, *kinds: Offers) -> bool:
        """Take every plainer call that still fails so; whether there was one."""
        before = self.taken
        for offers in kinds:
            # Anew after each that is taken; what was tried is not tried again.
            while any(self._takes(candidate, what) for candidate, what in offers(self.best)):
                pass
        return self.taken > before

    def _tensors(self, case: Case) -> Iterator[Offer]:
        return (
            (self._candidates.with_call(case, made), "values")
            for made in simpler_calls.plainer_tensors(case, self._operator)
        )

    def _elements(self, case: Case) -> Iterator[Offer]:
        return ((self._candidates.with_call(case, made), "values") for made in simpler_calls.plainer_elements(case))

    def _settings(self, case: Case) -> Iterator[Offer]:
        for made in simpler_calls.plainer_params(case, self._operator):
            yield self._candidates.with_call(case, made), "parameters"
        for plainer in simpler_calls.plainer_strides(case):
            yield self._candidates.with_call(plainer, recipe_output_of(case)), "strides"
        for expect in simpler_calls.plainer_caller(case):
            yield self._candidates.with_call(replace(case, expect=expect), recipe_output_of(case)), "caller"

    def _refused(self, case: Case) -> Iterator[Offer]:
        yield self._candidates.refused(simpler_calls.without_values(case)), "values"
        for simpler in simpler_calls.simpler(case, self._operator):
            yield self._candidates.refused(simpler), "what is odd"
        for smaller in simpler_calls.smaller(case, self._operator):
            yield self._candidates.refused(smaller), "dims"


def minimise_case(
    session: Session, options: RunOptions, case: str, calls: int = LIMIT, tell: Callable[[Step], None] = lambda _: None
) -> tuple[Minimised, CaseResult, Operator]:
    """The smallest case that fails as this one does, what a last call of it shows, and its operator.

    Where the case does not fail by the backend's doing, it is the case itself.
    """
    chosen = session.select_one(case)
    strict, outside = options.strict, options.allow_outside_paths
    source = session.source((chosen,), strict=strict, allow_outside_paths=outside, reseed=options.reseed)
    loaded = source.load(chosen.id)
    operator = session.catalogue.operators.get(loaded.operator)
    if operator is None:
        raise CaseFileError(f"{chosen.id}: operator {loaded.operator!r} is not known here.")
    reductions = session.catalogue.operators.part(operator.name, REDUCTIONS) or {}
    with open_callers(options, session.catalogue) as callers:
        trials = Trials(callers[0], options_of(options, session.catalogue, 1, 1), operator)
        try:
            found = minimised(loaded, operator, reductions, trials, calls, tell)
            if not found.fails:
                return found, found.result, operator
            confirmed = found.result if found.interrupted else trials.explained(found.case)
        except LostDeviceError as error:
            raise BackendError(f"{options.backend}: {error}") from error
    if found.other_baseline:
        raise CaseFileError(
            f"{chosen.id}: with a baseline by the reference the case does not fail so: the baseline in the file is "
            "what differs. `mluops-test run --arbitrate` says who is right."
        )
    return found, confirmed, operator


def what_shrank(found: Minimised) -> str:
    """How many there were and are of every quantity: "points 96 → 1, channels 5 → 1"; what is 1 or none is left out."""
    words = [_words(name, before, after) for name, (before, after) in found.sizes.items() if (before, after) != (1, 1)]
    return ", ".join(filter(None, words)) or f"elements {found.elements[0]} → {found.elements[1]}"


def _words(name: str, before: int, after: int) -> str:
    if before == after:
        return f"{name} {after}" if after else ""
    return f"{name} {before} → {after}"
