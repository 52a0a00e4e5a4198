"""Wrong implementations, of values and of statuses, against the stored cases: which cases catch which.

Operators ship those of values; those of statuses are made from the ordered checks. `trials` runs them, in processes
that have one operator at a time.
"""

import contextlib
import dataclasses
import functools
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice, pairwise, zip_longest
from multiprocessing import get_context
from typing import Final, Literal

from msgspec.structs import replace

from mluops_gtest.base.frozen import Value
from mluops_gtest.catalog.produce import one_blas_thread
from mluops_gtest.catalog.selection import Selected, Session
from mluops_gtest.catalog.source import make_reseeded
from mluops_gtest.core.buffers import has_buffer
from mluops_gtest.core.call import Crashed, OpCall, Status
from mluops_gtest.core.case import Case
from mluops_gtest.core.declaration import Check, Mutant
from mluops_gtest.core.operator import Operator, source_of
from mluops_gtest.core.operator_parts import MUTANTS, VARIANTS
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.search.audit_declarations import Subject, judged
from mluops_gtest.search.symbolic_call import never_written

# What authors take for each other.
_MIXED_UP: Final = {Status.BAD_PARAM: Status.NOT_SUPPORTED}


class StatusMutant(Value):
    """A wrong implementation whose answers differ for calls that one of these checks refuses, and for no others."""

    mutant: Mutant
    checks: tuple[str, ...]
    # It shows only where the call has an output that can be written.
    writes: bool = False


def status_mutants(operator: Operator) -> Iterator[StatusMutant]:
    """Every check forgotten, with another status, writing before it refuses; neighbours of two statuses exchanged.

    Left out is what no call could show: checks that none reaches first, those that the operator says another answers
    anyway, or that are not told apart by their order, and those proved to answer no call with an output to write to.
    """
    reachable = [check for check in operator.checks if check.subsumed is None]
    for check in reachable:
        name, others = check.name, [one for one in operator.checks if one is not check]
        if name not in operator.answered_anyway:
            run = _answer_by(operator, others)
            yield StatusMutant(Mutant(f"forgets_{name}", f"forgets the check {name}", run), (name,))
        status = _MIXED_UP.get(check.status, Status.BAD_PARAM)
        mixed_up = dataclasses.replace(check, status=status, writes=False)
        run = _answer_by(operator, [mixed_up if one is check else one for one in operator.checks])
        message = f"answers {status.name} instead of {check.status.name} where {name} does not hold"
        yield StatusMutant(Mutant(f"{status.name.lower()}_for_{name}", message, run), (name,))
        if not check.writes and not never_written(operator, check):
            message = f"has written its outputs when {name} makes it return"
            run = _write_before(operator, check)
            yield StatusMutant(Mutant(f"writes_before_{name}", message, run), (name,), writes=True)
    for first, second in pairwise(reachable):
        if first.status != second.status and second.name not in operator.not_together.get(first.name, ()):
            order = [check for check in operator.checks if check is not second]
            order.insert(order.index(first), second)
            name, message = f"{second.name}_before_{first.name}", f"asks {second.name} before {first.name}"
            yield StatusMutant(Mutant(name, message, _answer_by(operator, order)), (first.name, second.name))


def _answer_by(operator: Operator, checks: Sequence[Check]) -> Callable[[OpCall], Status]:
    """Answers by these checks; outputs of a call that they let pass are written, and hold nonsense."""
    wrong = dataclasses.replace(operator, checks=tuple(checks))

    def run(call: OpCall) -> Status:
        try:
            status = wrong.early_answer(call)
        except Exception as error:
            raise Crashed(f"looks at what another check should have refused: {error}") from error
        if status is None:
            _write(call)
            call.scalars.update(dict.fromkeys(operator.results, 0))
            return Status.SUCCESS
        return status

    return run


def _write_before(operator: Operator, check: Check) -> Callable[[OpCall], Status]:
    def run(call: OpCall) -> Status:
        if operator.answer(call).check == check.name:
            _write(call)
        return operator.early_answer(call) or Status.SUCCESS

    return run


def _write(call: OpCall) -> None:
    """Neither poison nor what callers preset."""
    for arg in call.outputs.values():
        if arg is not None and arg.array is not None:
            arg.array[...] = 1


# `implementation`: shipped by the operator. `status`: made from its ordered checks.
Kind = Literal["implementation", "status"]


class PlannedMutant(Value):
    """A wrong implementation, and the cases that could tell."""

    kind: Kind
    mutant: Mutant
    cases: tuple[Case, ...]
    # No case can tell: it writes what no case that it differs in has.
    idle: bool = False


class Trial(Value):
    """What became of a wrong implementation."""

    operator: str
    kind: Kind
    name: str
    message: str
    place: str
    # The cases that caught it: all of them, or the first alone where that was asked for.
    caught_by: tuple[str, ...]
    # Why it did not answer, where it raised an exception of its own.
    raised: str = ""
    # It does nothing wrong in any call that can be made, and counts as none.
    idle: bool = False


class Score(Value):
    """How many wrong implementations of one kind the cases of an operator catch."""

    tried: int
    caught: int
    by_one_alone: int

    @classmethod
    def of(cls, trials: Iterable[Trial]) -> "Score":
        """Counted from what was tried."""
        counts = [len(trial.caught_by) for trial in trials if not trial.idle]
        return cls(len(counts), sum(count > 0 for count in counts), counts.count(1))


class MutantTrial:
    """The cases that catch a wrong implementation, one after the other; its calls go to one instance of it."""

    def __init__(self, mutant: Mutant, operator: Operator, ids: Iterable[str], case_of: Callable[[str], Case]) -> None:
        self.raised = ""
        self._mutant, self._operator, self._ids, self._case_of = mutant, operator, ids, case_of

    def __iter__(self) -> Iterator[str]:
        run = self._mutant.fresh()
        for name in self._ids:
            result = judged(self._mutant.name, run, self._case_of(name), self._operator)
            # An exception of its own may be a slip in the mutant, and proves nothing of the cases.
            if result.outcome.tells_a_mistake:
                yield name
            elif result.outcome is Outcome.ERROR and not self.raised:
                self.raised = f"{name}: {result.reason}"


def mutant_names(operator: Operator, mutants: Iterable[Mutant]) -> list[str]:
    """The names of everything that is tried on the operator's cases."""
    return [*(one.name for one in mutants), *(one.mutant.name for one in status_mutants(operator))]


def all_mutants(subject: Subject) -> dict[str, PlannedMutant]:
    """Everything that is tried on the operator's cases, by name."""
    cases = tuple(likely_first(subject))
    wrong = {one.name: PlannedMutant("implementation", one, cases) for one in subject.mutants}
    refused = defaultdict(list)
    for case in subject.cases:
        if case.expect.check is not None and not case.is_open:
            refused[case.expect.check].append(case)
    statuses = {}
    for one in status_mutants(subject.operator):
        concerned = tuple(case for check in one.checks for case in refused[check])
        idle = one.writes and not any(map(can_be_written, concerned))
        statuses[one.mutant.name] = PlannedMutant("status", one.mutant, concerned, idle)
    return {**wrong, **statuses}


def can_be_written(case: Case) -> bool:
    """Some output of the case has bytes, and a pointer to them."""
    absent = {*case.expect.null_pointer, *case.expect.null_descriptor}
    return any(has_buffer(case, one) and not one.desc.is_empty and one.id not in absent for one in case.outputs)


def likely_first(subject: Subject) -> Iterator[Case]:
    """The cases that compute: one of each kind, then the next of each; small ones first."""
    drafts = {draft.id: draft for draft in subject.drafts}
    kinds = defaultdict(list)
    for case in sorted(subject.computing, key=lambda case: case.elements):
        draft = drafts[case.id]
        kinds[draft.recipe, draft.dtype, frozenset(draft.tags)].append(case)
    return (case for nth in zip_longest(*kinds.values()) for case in nth if case is not None)


def run_mutant(subject: Subject, one: PlannedMutant, *, first_kill: bool) -> Trial:
    """The wrong implementation on its cases; with `first_kill` until one catches it."""
    mutant = one.mutant
    place = source_of(mutant.run) if one.kind == "implementation" else str(subject.generator)
    blank = Trial(subject.name, one.kind, mutant.name, mutant.message, place, (), idle=one.idle)
    if one.idle:
        return blank
    by_id = {case.id: case for case in one.cases}
    catches = MutantTrial(mutant, subject.operator, by_id, by_id.__getitem__)
    caught_by = tuple(islice(catches, 1 if first_kill else None))
    return replace(blank, caught_by=caught_by, raised=catches.raised)


# Several rules ask for the same few cases again and again; all of them would fill the memory.
_CACHED_CASES: Final = 256


def subject_of(session: Session, name: str, seeds: int) -> Subject:
    """The operator with its declared cases, the stored ones complete."""
    catalogue = session.catalogue
    operator = catalogue.operators[name]
    declared = catalogue.drafts_of(name)
    source = session.source(tuple(Selected(draft.id, name, draft.tags, draft=draft) for draft in declared.values()))

    @functools.lru_cache(_CACHED_CASES)
    def reseeded(case_id: str, seed: int) -> Case:
        return make_reseeded(declared[case_id], operator, seed, source.lock.get(case_id))

    stored = {case_id: source.load(case_id) for case_id in declared if catalogue.stored_path(case_id).exists()}
    return Subject(
        operator=operator,
        generator=catalogue.operators.files[name],
        declarations=catalogue.root_of(name).cases / f"{name}.yaml",
        drafts=tuple(declared.values()),
        cases=tuple(stored.values()),
        mutants=catalogue.operators.part(name, MUTANTS) or (),
        variants=catalogue.operators.part(name, VARIANTS) or {},
        seeds=seeds,
        reseeded=reseeded,
        load=lambda case_id: stored.get(case_id) or source.load(case_id),
    )


class TrialPlan(Value):
    """What is to be tried, and how."""

    roots: tuple[str, ...]
    # Operator → the names of its wrong implementations.
    names: Mapping[str, Sequence[str]]
    first_kill: bool = False
    jobs: int = 1
    # Seconds after which nothing more is begun; None: all is tried.
    budget: float | None = None


def trials(plan: TrialPlan) -> Iterator[Trial]:
    """Each of them, as they finish; fewer where the time is up."""
    deadline = None if plan.budget is None else time.monotonic() + plan.budget
    work = _Work(plan.names, deadline)
    if plan.jobs > 1:
        yield from _in_processes(plan, work)
        return
    operator = ""
    while (task := work.take(operator)) is not None:
        operator = task[0]
        yield _try(plan.roots, *task, plan.first_kill)


class _Work:
    """What is left to do."""

    def __init__(self, names: Mapping[str, Sequence[str]], deadline: float | None) -> None:
        self._left = {operator: list(reversed(these)) for operator, these in names.items()}
        self._untouched = set(self._left)
        self._deadline = deadline

    def take(self, operator: str) -> tuple[str, str] | None:
        """The next one, of that operator if there is one left; None where there is none, or the time is up."""
        if self._deadline is not None and time.monotonic() >= self._deadline:
            return None
        if not self._left.get(operator):
            # Whose cases nobody has read comes before what another process is at.
            left = [one for one in self._left if self._left[one]]
            operator = max(left, key=lambda one: (one in self._untouched, len(self._left[one])), default="")
        self._untouched.discard(operator)
        return (operator, self._left[operator].pop()) if operator else None


def _in_processes(plan: TrialPlan, work: _Work) -> Iterator[Trial]:
    # Spawned, each a pool of its own, so that an operator's mutants meet the process that has its cases.
    with one_blas_thread(), contextlib.ExitStack() as stack:
        pools = [ProcessPoolExecutor(1, get_context("spawn")) for _ in range(plan.jobs)]
        for pool in pools:
            # After an interrupt nothing more is begun.
            stack.callback(pool.shutdown, cancel_futures=True)
        running: dict[Future[Trial], ProcessPoolExecutor] = {}

        def begin(pool: ProcessPoolExecutor, operator: str) -> None:
            task = work.take(operator)
            if task is not None:
                running[pool.submit(_try, plan.roots, *task, plan.first_kill)] = pool

        for pool in pools:
            begin(pool, "")
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                pool, trial = running.pop(future), future.result()
                begin(pool, trial.operator)
                yield trial


def _try(roots: tuple[str, ...], operator: str, name: str, first_kill: bool) -> Trial:
    subject, mutants = _load_subject(roots, operator)
    return run_mutant(subject, mutants[name], first_kill=first_kill)


@functools.lru_cache(1)
def _load_subject(roots: tuple[str, ...], operator: str) -> tuple[Subject, dict[str, PlannedMutant]]:
    subject = subject_of(Session(roots), operator, 0)
    return subject, all_mutants(subject)
