"""What faulty draws aim at: calls in which a check that is forgotten, comes too late or at another place would show."""

import math
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from itertools import combinations, pairwise

from msgspec.structs import replace

from mluops_gtest.audit.mutants import can_be_written
from mluops_gtest.audit.unwritable import never_written
from mluops_gtest.generate.make import unchecked_layout
from mluops_gtest.model.binding import asked, bind_values
from mluops_gtest.model.call import OpCall
from mluops_gtest.model.case import Case
from mluops_gtest.model.operator import Check, Operator
from mluops_gtest.model.tensor import TensorDesc
from mluops_gtest.value import Value


class Shows(Enum):
    """What a call shows of the check that answers it."""

    ANSWERED = "answered"
    TOLD = "told"
    WRITTEN = "written"


class Broken(Value):
    """What the ordered checks say of a call: those that do not hold, the first of which answers."""

    checks: tuple[str, ...] = ()
    # Whoever forgets the first answers otherwise.
    told: bool = False
    # The call has an output that can be written.
    written: bool = False

    def shows(self, what: Shows) -> bool:
        """The call shows this of the check that answers it."""
        return bool(self.checks) and (what is Shows.ANSWERED or (self.told if what is Shows.TOLD else self.written))


class Aim(Value):
    """A call that `check` answers and that shows this of it; with `later` one that breaks that check as well."""

    check: str
    shows: Shows = Shows.ANSWERED
    later: str | None = None

    def misses(self, broken: Broken) -> int | None:
        """How many checks are in the way; None where the checks of the aim hold."""
        if self.check not in broken.checks or (self.later is not None and self.later not in broken.checks):
            return None
        before = broken.checks.index(self.check)
        if before or broken.shows(self.shows):
            return before * len(broken.checks)
        return max(1, len(broken.checks) - 1)


def aims_of(operator: Operator) -> tuple[list[Aim], list[Aim]]:
    """What every check and every two neighbours of different statuses should be seen in; and all other such pairs."""
    reachable = [check for check in operator.checks if check.subsumed is None]
    near = list(pairwise(reachable))
    first = [
        *(Aim(check.name) for check in reachable),
        *(Aim(check.name, Shows.TOLD) for check in reachable if check.name not in operator.answered_anyway),
        *(Aim(check.name, Shows.WRITTEN) for check in reachable if _can_be_late(operator, check)),
        *_in_order(operator, near),
    ]
    return first, list(_in_order(operator, [pair for pair in combinations(reachable, 2) if pair not in near]))


def _can_be_late(operator: Operator, check: Check) -> bool:
    """Outputs may have been written before it is asked, and then that shows."""
    return not check.writes and not never_written(operator, check)


def _in_order(operator: Operator, pairs: list[tuple[Check, Check]]) -> Iterator[Aim]:
    for one, other in pairs:
        if one.status != other.status and other.name not in operator.not_together.get(one.name, ()):
            yield Aim(one.name, later=other.name)


def broken_by(case: Case, operator: Operator, defined: Callable[[OpCall], bool] | None) -> Broken | None:
    """What the checks say of the call; None for a call that is none, or that computes without its memory."""
    if any(_is_beyond_arrays(tensor.desc) for tensor in case.tensors) or unchecked_layout(case, operator) is not None:
        return None
    call = bind_values(case, operator)
    if defined is not None and not defined(call):
        return None
    verdict = asked(operator, operator.reference, operator.answer, call, "a drawn call")
    answer = None if verdict.check is None else operator.check(verdict.check)
    bare = any(tensor.data is None and not tensor.desc.is_empty for tensor in case.inputs)
    # An early success may owe outputs before pointers are looked at: without a buffer nobody defines what it does.
    nowhere = any(tensor.id in case.expect.null_pointer for tensor in case.outputs)
    if (bare or nowhere) and (answer is None or answer.writes):
        return None
    if answer is None:
        return Broken()
    broken, raised = [answer], False
    for check in operator.checks[operator.checks.index(answer) + 1 :]:
        try:
            holds = check.holds(call)
        except Exception:
            # A check relies on those before it, and one of them does not hold.
            raised = True
            break
        if not holds:
            broken.append(check)
    written = can_be_written(replace(case, expect=replace(case.expect, check=answer.name)))
    return Broken(tuple(check.name for check in broken), _told(broken, raised=raised, written=written), written)


def _is_beyond_arrays(desc: TensorDesc) -> bool:
    """No element, but so long axes beside the empty one that there is no array of such dims."""
    return desc.is_empty and math.prod(filter(None, desc.dims)) * desc.dtype.itemsize > sys.maxsize


def _told(broken: list[Check], *, raised: bool, written: bool) -> bool:
    """Without the first the next one answers, or the call computes, or what nobody refused ends it."""
    first, *others = broken
    if others:
        return first.status != others[0].status or (first.writes != others[0].writes and written)
    return raised or first.status != 0 or written
