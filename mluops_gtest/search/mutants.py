"""Wrong implementations, of values and of statuses, against the stored cases: which cases catch which.

Operators ship those of values, and positions in their tensors give more; those of statuses are made from the ordered
checks. `trials` runs them, in processes that have one operator at a time.
"""

import contextlib
import functools
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice, zip_longest
from multiprocessing import get_context
from typing import Final, Literal

import numpy as np
from msgspec.structs import replace

from mluops_gtest.base.frozen import Value
from mluops_gtest.catalog.derived_lock import Derivation, derived_path, read_derived
from mluops_gtest.catalog.produce import one_blas_thread
from mluops_gtest.catalog.selection import Selected, Session
from mluops_gtest.catalog.source import make_reseeded
from mluops_gtest.core.call import OpCall, Status
from mluops_gtest.core.case import Case
from mluops_gtest.core.declaration import Mutant, TensorSpec
from mluops_gtest.core.operator import Operator, source_of
from mluops_gtest.core.operator_parts import MUTANTS, VARIANTS
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.tensor import Array
from mluops_gtest.search.audit_declarations import Subject, judged
from mluops_gtest.search.status_mutants import status_mutants

# Positions and the last one that there is → what a kernel with the mistake takes them for.
_Misread = Callable[[Array, int], Array]


def position_mutants(operator: Operator) -> Iterator[Mutant]:
    """The kernel with positions cut to 16 bits, and with those that are none taken for the last one."""
    for spec in operator.arguments:
        for column, symbol in spec.positions.items():
            where = spec.id if column is None else f"column {column} of {spec.id}"
            name = spec.id if column is None else f"{spec.id}_{column}"
            for bits in ("u2", "i2"):
                words = f"keeps {where} in 16 bits, {'with' if bits == 'i2' else 'without'} a sign"
                misread = functools.partial(_cut, spec=spec, bits=bits)
                yield Mutant(
                    f"{name}_in_{'int' if bits == 'i2' else 'uint'}16",
                    words,
                    _misreading(operator, spec.id, column, symbol, misread),
                )
            if spec.outside:
                words = f"takes the last position for one in {where} that is none"
                yield Mutant(f"{name}_clamped", words, _misreading(operator, spec.id, column, symbol, _clamp))


def _cut(values: Array, _last: int, *, spec: TensorSpec, bits: str) -> Array:
    cut = values.astype(bits).astype(values.dtype)
    # What becomes negative is no position; where none is allowed to be that, nobody knows what lies there.
    return cut if spec.outside == "skipped" else np.where(values < 0, values, np.maximum(cut, 0))


def _clamp(values: Array, last: int) -> Array:
    return np.where((values < 0) | (values > last), max(last, 0), values).astype(values.dtype)


def _misreading(
    operator: Operator, name: str, column: int | None, symbol: str, misread: _Misread
) -> Callable[[OpCall], Status]:
    def run(call: OpCall) -> Status:
        if call.inputs[name] is None:
            return operator.kernel(call)
        values = call.array(name).copy()
        places = (..., slice(None) if column is None else column)
        values[places] = misread(values[places], operator.size_of(call, symbol) - 1)
        own = replace(call.tensor(name), array=values)
        return operator.kernel(replace(call, inputs={**call.inputs, name: own}))

    return run


# `implementation`: wrong values. `status`: made from the ordered checks.
Kind = Literal["implementation", "status"]
# The task that tries all wrong statuses of an operator.
STATUSES: Final = "wrong statuses"


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


def likely_first(subject: Subject) -> Iterator[Case]:
    """The cases that compute: one of each kind, then the next of each; small ones first."""
    drafts = {draft.id: draft for draft in subject.drafts}
    kinds = defaultdict(list)
    for case in sorted(subject.computing, key=lambda case: case.elements):
        draft = drafts[case.id]
        kinds[draft.recipe, draft.dtype, frozenset(draft.tags)].append(case)
    return (case for nth in zip_longest(*kinds.values()) for case in nth if case is not None)


def run_mutant(subject: Subject, mutant: Mutant, *, first_kill: bool) -> Trial:
    """The wrong implementation on the cases that compute; with `first_kill` until one catches it."""
    by_id = {case.id: case for case in likely_first(subject)}
    catches = MutantTrial(mutant, subject.operator, by_id, by_id.__getitem__)
    caught_by = tuple(islice(catches, 1 if first_kill else None))
    place = source_of(mutant.run)
    return Trial(subject.name, "implementation", mutant.name, mutant.message, place, caught_by, raised=catches.raised)


def status_trials(subject: Subject, *, first_kill: bool) -> Iterator[Trial]:
    """All wrong statuses on the cases that a check refuses."""
    calls, place = subject.refused(), str(subject.generator)
    for one in status_mutants(subject.operator, subject.derived):
        caught_by = tuple(islice((call.id for call in calls if one.is_told_by(call)), 1 if first_kill else None))
        idle = one.is_excused and not caught_by
        yield Trial(subject.name, "status", one.name, one.message, place, caught_by, idle=idle)


_SIGNED_16_BITS: Final = 1 << 15
# Several rules ask for the same few cases again and again; all of them would fill the memory.
_CACHED_CASES: Final = 256


def subject_of(session: Session, name: str, seeds: int) -> Subject:
    """The operator with its declared cases; complete are the stored ones and those with more positions than 2^15."""
    catalogue = session.catalogue
    operator = catalogue.operators[name]
    declared = catalogue.drafts_of(name)
    source = session.source(tuple(Selected(draft.id, name, draft.tags, draft=draft) for draft in declared.values()))

    @functools.lru_cache(_CACHED_CASES)
    def reseeded(case_id: str, seed: int) -> Case:
        return make_reseeded(declared[case_id], operator, seed, source.entry_of(declared[case_id]))

    declarations = catalogue.root_of(name).cases / f"{name}.yaml"
    counted = {symbol for spec in operator.inputs for symbol in spec.positions.values()}
    along = [axis for axis, one in operator.axes.items() if one.symbol in counted]
    stored = {
        case_id: source.load(case_id)
        for case_id, draft in declared.items()
        # Positions in 16 bits show nowhere else, and few committed cases are so large.
        if catalogue.has_stored(case_id) or any(draft.sizes.get(axis, 0) > _SIGNED_16_BITS for axis in along)
    }
    return Subject(
        operator=operator,
        generator=catalogue.operators.files[name],
        declarations=declarations,
        drafts=tuple(declared.values()),
        cases=tuple(stored.values()),
        mutants=(*(catalogue.operators.part(name, MUTANTS) or ()), *position_mutants(operator)),
        variants=catalogue.operators.part(name, VARIANTS) or {},
        seeds=seeds,
        reseeded=reseeded,
        load=lambda case_id: stored.get(case_id) or source.load(case_id),
        derived=read_derived(derived_path(declarations)) or Derivation(""),
    )


class TrialPlan(Value):
    """What is to be tried, and how."""

    roots: tuple[str, ...]
    # Operator → the names of its wrong implementations, and STATUSES.
    names: Mapping[str, Sequence[str]]
    first_kill: bool = False
    jobs: int = 1
    # Seconds after which nothing more is begun; None: all is tried.
    budget: float | None = None


class FinishedTask(Value):
    """What became of one wrong implementation, or of all wrong statuses of an operator."""

    operator: str
    name: str
    trials: tuple[Trial, ...]


def trials(plan: TrialPlan) -> Iterator[FinishedTask]:
    """Each task, as they finish; fewer where the time is up."""
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


def _in_processes(plan: TrialPlan, work: _Work) -> Iterator[FinishedTask]:
    # Spawned, each a pool of its own, so that an operator's mutants meet the process that has its cases.
    with one_blas_thread(), contextlib.ExitStack() as stack:
        pools = [ProcessPoolExecutor(1, get_context("spawn")) for _ in range(plan.jobs)]
        for pool in pools:
            # After an interrupt nothing more is begun.
            stack.callback(pool.shutdown, cancel_futures=True)
        running: dict[Future[FinishedTask], ProcessPoolExecutor] = {}

        def begin(pool: ProcessPoolExecutor, operator: str) -> None:
            task = work.take(operator)
            if task is not None:
                running[pool.submit(_try, plan.roots, *task, plan.first_kill)] = pool

        for pool in pools:
            begin(pool, "")
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                pool, done = running.pop(future), future.result()
                begin(pool, done.operator)
                yield done


def _try(roots: tuple[str, ...], operator: str, name: str, first_kill: bool) -> FinishedTask:
    subject = _load_subject(roots, operator)
    if name == STATUSES:
        return FinishedTask(operator, name, tuple(status_trials(subject, first_kill=first_kill)))
    mutant = next(one for one in subject.mutants if one.name == name)
    return FinishedTask(operator, name, (run_mutant(subject, mutant, first_kill=first_kill),))


@functools.lru_cache(1)
def _load_subject(roots: tuple[str, ...], operator: str) -> Subject:
    return subject_of(Session(roots), operator, 0)
