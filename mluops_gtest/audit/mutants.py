"""Wrong implementations against the stored cases: which cases catch which."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, zip_longest
from typing import Literal

from msgspec.structs import replace

from mluops_gtest.audit.status_mutants import status_mutants
from mluops_gtest.audit.subject import Subject, judged
from mluops_gtest.model.binding import has_buffer
from mluops_gtest.model.case import Case
from mluops_gtest.model.operator import Mutant, Operator
from mluops_gtest.model.result import Outcome
from mluops_gtest.model.source_place import source_of
from mluops_gtest.value import Value

# `implementation`: shipped by the operator. `status`: made from its ordered checks.
Kind = Literal["implementation", "status"]


class Planted(Value):
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


class Catches:
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


def names_planted(operator: Operator, mutants: Iterable[Mutant]) -> list[str]:
    """The names of everything that is tried on the operator's cases."""
    return [*(one.name for one in mutants), *(one.mutant.name for one in status_mutants(operator))]


def planted(subject: Subject) -> dict[str, Planted]:
    """Everything that is tried on the operator's cases, by name."""
    cases = tuple(likely_first(subject))
    wrong = {one.name: Planted("implementation", one, cases) for one in subject.mutants}
    refused = defaultdict(list)
    for case in subject.cases:
        if case.expect.check is not None and "undefined" not in case.tags:
            refused[case.expect.check].append(case)
    statuses = {}
    for one in status_mutants(subject.operator):
        concerned = tuple(case for check in one.checks for case in refused[check])
        idle = one.writes and not any(map(can_be_written, concerned))
        statuses[one.mutant.name] = Planted("status", one.mutant, concerned, idle)
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
    return (case for turn in zip_longest(*kinds.values()) for case in turn if case is not None)


def tried(subject: Subject, one: Planted, *, first_kill: bool) -> Trial:
    """The wrong implementation on its cases; with `first_kill` until one catches it."""
    mutant = one.mutant
    place = source_of(mutant.run) if one.kind == "implementation" else str(subject.generator)
    blank = Trial(subject.name, one.kind, mutant.name, mutant.message, place, (), idle=one.idle)
    if one.idle:
        return blank
    by_id = {case.id: case for case in one.cases}
    catches = Catches(mutant, subject.operator, by_id, by_id.__getitem__)
    caught_by = tuple(islice(catches, 1 if first_kill else None))
    return replace(blank, caught_by=caught_by, raised=catches.raised)
