"""What `audit` looks at, and wrong implementations tried on it: each process has one operator at a time."""

import contextlib
import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from typing import Final

from mluops_gtest.api.session import Session
from mluops_gtest.audit.mutants import Planted, Trial, planted, tried
from mluops_gtest.audit.subject import Subject
from mluops_gtest.content.selection import Selected
from mluops_gtest.generate.produce import one_blas_thread
from mluops_gtest.generate.reseeding import make_reseeded
from mluops_gtest.model.case import Case
from mluops_gtest.model.parts import MUTANTS, VARIANTS
from mluops_gtest.value import Value

# Several rules ask for the same few cases again and again; all of them would fill the memory.
_CASES_KEPT: Final = 256


def subject_of(session: Session, name: str, seeds: int) -> Subject:
    """The operator with its declared cases, the stored ones complete."""
    catalogue = session.catalogue
    operator = catalogue.operators[name]
    declared = catalogue.drafts_of(name)
    source = session.source(tuple(Selected(draft.id, name, draft.tags, draft=draft) for draft in declared.values()))

    @functools.lru_cache(_CASES_KEPT)
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
    if plan.jobs <= 1:
        operator = ""
        while (task := work.take(operator)) is not None:
            operator = task[0]
            yield _try(plan.roots, *task, plan.first_kill)
        return
    yield from _in_processes(plan, work)


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
    with one_blas_thread(), contextlib.ExitStack() as pools:
        lanes = [ProcessPoolExecutor(1, get_context("spawn")) for _ in range(plan.jobs)]
        for lane in lanes:
            # After an interrupt nothing more is begun.
            pools.callback(lane.shutdown, cancel_futures=True)
        running: dict[Future[Trial], ProcessPoolExecutor] = {}

        def begin(lane: ProcessPoolExecutor, operator: str) -> None:
            task = work.take(operator)
            if task is not None:
                running[lane.submit(_try, plan.roots, *task, plan.first_kill)] = lane

        for lane in lanes:
            begin(lane, "")
        while running:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                lane, trial = running.pop(future), future.result()
                begin(lane, trial.operator)
                yield trial


def _try(roots: tuple[str, ...], operator: str, name: str, first_kill: bool) -> Trial:
    subject, wrong = _loaded(roots, operator)
    return tried(subject, wrong[name], first_kill=first_kill)


@functools.lru_cache(1)
def _loaded(roots: tuple[str, ...], operator: str) -> tuple[Subject, dict[str, Planted]]:
    subject = subject_of(Session(roots), operator, 0)
    return subject, planted(subject)
