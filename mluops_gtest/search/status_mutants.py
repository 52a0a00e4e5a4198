"""Wrong statuses, made from an operator's ordered checks, and the calls that show them.

What each check says of a call, asked by itself, tells what any other order of them answers: nothing need run.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations, groupby
from typing import Final, Self

from mluops_gtest.base.frozen import Value
from mluops_gtest.catalog.derived_lock import CHECKS, ORDER, Derivation
from mluops_gtest.catalog.make import each_check
from mluops_gtest.core.buffers import bind_values, has_buffer
from mluops_gtest.core.call import Status
from mluops_gtest.core.case import Case
from mluops_gtest.core.operator import Operator

# What authors take for each other.
_MIXED_UP: Final = {Status.BAD_PARAM: Status.NOT_SUPPORTED}


class RefusedCall(Value):
    """What the checks say of a call that one of them answers."""

    id: str
    # By the place of each check: None where it cannot look.
    holds: tuple[bool | None, ...]
    # The place of the check that answers.
    answer: int
    # Some output has bytes, and a pointer to them.
    can_be_written: bool
    # The workspace queries that must refuse it, too.
    refusing_queries: frozenset[str] = frozenset()

    @classmethod
    def of(cls, case: Case, operator: Operator) -> Self:
        """The call of a case that expects one of the checks."""
        call = bind_values(case, operator)
        holds = tuple(each_check(call, operator))
        answers = {name: operator.query_answer(name, call) for name in operator.queries}
        refusing = frozenset(name for name, answer in answers.items() if answer is not None and answer.status)
        return cls(case.id, holds, holds.index(False), can_be_written(case), refusing)

    @property
    def broken_later(self) -> tuple[int, ...]:
        """The places of the later checks that do not hold either."""
        later = range(self.answer + 1, len(self.holds))
        return tuple(place for place in later if self.holds[place] is False)

    def next_broken(self, start: int, stop: int | None = None) -> int | None:
        """The place of the first of these checks that does not hold or cannot look; None where all hold."""
        return next((start + nth for nth, holds in enumerate(self.holds[start:stop]) if not holds), None)


def can_be_written(case: Case) -> bool:
    """Some output of the case has bytes, and a pointer to them."""
    absent = {*case.expect.null_pointer, *case.expect.null_descriptor}
    return any(has_buffer(case, one) and not one.desc.is_empty and one.id not in absent for one in case.outputs)


class StatusMutant(Value):
    """A wrong implementation that shows in its answer to some refused calls."""

    name: str
    message: str
    is_told_by: Callable[[RefusedCall], bool]
    # It counts only where a stored call shows it: the derivation of cases looked for others and found none.
    is_excused: bool = False


def status_mutants(operator: Operator, derived: Derivation) -> Iterator[StatusMutant]:
    """Every check forgotten, with another status, writing before it refuses, or asked behind a later one.

    Blocks of checks asked behind a later block, and workspace queries that refuse nothing.
    """
    checks = operator.checks
    places = [place for place, check in enumerate(checks) if check.subsumed is None]
    for place in places:
        yield from _of_one(operator, place, has_told=derived.has(CHECKS))
    blocks = [(place,) for place in places]
    several = _blocks(operator, places)
    pairs = [*combinations(blocks, 2), *((block, later) for block, later in combinations(several, 2) if block[1:])]
    # With the lock every pair of checks is shown by a case, or named there.
    unseen = {(one.first, one.later) for one in derived.unseen}
    for block, later in pairs:
        across = [
            (checks[one].name, checks[other].name)
            for one in block
            for other in places
            if block[-1] < other <= later[-1] and checks[one].status != checks[other].status
        ]
        if any(checks[one].status != checks[other].status for one in block for other in later):
            yield _moved(operator, block, later[-1], is_excused=derived.has(ORDER) and unseen.issuperset(across))
    for name in operator.queries:
        message = f"{name} answers SUCCESS whatever it is asked"
        yield StatusMutant(f"{name}_checks_nothing", message, partial(_owes_refusal, name))


def _owes_refusal(query: str, call: RefusedCall) -> bool:
    return query in call.refusing_queries


def _of_one(operator: Operator, place: int, *, has_told: bool) -> Iterator[StatusMutant]:
    check = operator.checks[place]
    name, status = check.name, _MIXED_UP.get(check.status, Status.BAD_PARAM)

    def answered(shows: Callable[[RefusedCall], bool]) -> Callable[[RefusedCall], bool]:
        return lambda call: call.answer == place and shows(call)

    yield StatusMutant(
        f"forgets_{name}", f"forgets the check {name}", answered(partial(is_told_if_forgotten, operator)), has_told
    )
    message = f"answers {status.name} instead of {check.status.name} where {name} does not hold"
    yield StatusMutant(f"{status.name.lower()}_for_{name}", message, answered(lambda _: True))
    if not check.writes:
        message = f"has written its outputs when {name} makes it return"
        yield StatusMutant(f"writes_before_{name}", message, answered(lambda call: call.can_be_written), True)


def is_told_if_forgotten(operator: Operator, call: RefusedCall) -> bool:
    """Whoever forgets the check that answers gives another status, or goes on and computes."""
    following = call.next_broken(call.answer + 1)
    if following is not None:
        return is_other_answer(operator, call, following)
    # What it computes then may be what the document does not define.
    return operator.checks[call.answer].status is not Status.SUCCESS or call.can_be_written


def _moved(operator: Operator, block: Sequence[int], last: int, *, is_excused: bool) -> StatusMutant:
    """The neighbours asked behind the check in the last place."""

    def shows(call: RefusedCall) -> bool:
        following = call.next_broken(block[-1] + 1, last + 1) if call.answer in block else None
        return following is not None and is_other_answer(operator, call, following)

    first, end, behind = (operator.checks[place].name for place in (block[0], block[-1], last))
    name, words = (first, first) if first == end else (f"{first}_to_{end}", f"{first} … {end}")
    return StatusMutant(f"{name}_behind_{behind}", f"asks {words} behind {behind}", shows, is_excused)


def is_other_answer(operator: Operator, call: RefusedCall, following: int) -> bool:
    """That check answers otherwise than the one that does, or fails where it needs another before it."""
    own, other = operator.checks[call.answer], operator.checks[following]
    is_late = own.writes != other.writes and call.can_be_written
    return call.holds[following] is None or own.status != other.status or is_late


def _blocks(operator: Operator, places: Sequence[int]) -> list[tuple[int, ...]]:
    """Neighbouring checks of one kind: of one status, and of one name but for the tensor and the axis."""
    tensors = sorted((spec.id for spec in operator.tensors), key=len, reverse=True)

    def kind(place: int) -> tuple[Status, str]:
        check = operator.checks[place]
        own = next((check.name.removeprefix(f"{one}_") for one in tensors if check.name.startswith(f"{one}_")), "")
        return check.status, own.rstrip("0123456789") or check.name

    return [tuple(block) for _, block in groupby(places, kind)]
