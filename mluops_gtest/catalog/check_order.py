"""Whether a call shows in which order two checks are asked, the calls that do, and why there is none.

All products of the least violations of both checks, in both orders of application, are tried; where other checks are in
the way, up to three further kinds of change that mend these.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, product
from typing import Final, NamedTuple

from mluops_gtest.catalog.violation_search import Look, Search
from mluops_gtest.catalog.violations import EMPTY, LARGE, STRIDED, violation_between
from mluops_gtest.core.operator import Operator

# Why no call shows a pair.
EMPTY_EXCLUDES: Final = "empty excludes strided or large"
NO_POINTER: Final = "an empty tensor needs no pointer"
SAME_SYMBOL: Final = "same symbol"
NO_DESCRIPTOR: Final = "no descriptor to look at"
UNDEFINED: Final = "the call is undefined"
ANSWERED_BETWEEN: Final = "a check of the first one's status between them answers, too"
# The most kinds of change that rid a call of further broken checks.
_MOST_CHANGES: Final = 3


class Demand(NamedTuple):
    """The order of two checks, by their places, of which the first answers."""

    first: int
    later: int
    # The first asked behind the later one is seen; else the later one asked before the first.
    behind: bool


def orders_told_by(operator: Operator, look: Look) -> Iterator[Demand]:
    """What the answer to this call shows of the order of checks."""
    if look.answer is None or not look.is_defined:
        return
    own, is_answered_between = operator.checks[look.answer], False
    for place in range(look.answer + 1, len(operator.checks)):
        check = operator.checks[place]
        if look.holds[place] is not False:
            continue
        if check.status == own.status:
            is_answered_between = True
        elif check.subsumed is None:
            yield Demand(look.answer, place, behind=False)
            if not is_answered_between:
                yield Demand(look.answer, place, behind=True)


def find_pair(search: Search, first: int, later: int) -> tuple[Look | None, str, int]:
    """The call that shows most of the pair, why none shows all of it where that is known, and how many were tried."""
    broken: list[Look] = []
    calls, is_undefined = 0, False
    could_look = can_answer = False
    for look in _products(search, first, later):
        calls += 1
        if look.answer == first:
            can_answer = True
            could_look = could_look or look.holds[later] is not None
        if look.holds[first] is False and look.holds[later] is False:
            is_undefined = is_undefined or (look.answer == first and not look.is_defined)
            if Demand(first, later, behind=True) in orders_told_by(search.operator, look):
                return look, "", calls
            broken.append(look)
    for start in _starts(search, broken, first, later):
        mended = _without_others(search, start, first, later)
        if mended is not None:
            return mended, "", calls
    demand = Demand(first, later, behind=False)
    shown = next((look for look in broken if demand in orders_told_by(search.operator, look)), None)
    if shown is not None:
        return shown, ANSWERED_BETWEEN, calls
    if is_undefined:
        return None, UNDEFINED, calls
    if can_answer and not could_look:
        return None, NO_DESCRIPTOR, calls
    return None, _exclusion(search, first, later), calls


def _in_the_way(search: Search, look: Look, first: int, later: int) -> frozenset[int]:
    """The broken checks that hide the order: those in front of both, and those between of the first one's status."""
    checks = search.operator.checks
    between = (place for place in range(first + 1, later) if checks[place].status == checks[first].status)
    return frozenset(place for place in chain(range(first), between) if look.holds[place] is False)


def _starts(search: Search, broken: Sequence[Look], first: int, later: int) -> list[Look]:
    """Of the calls with the fewest checks in the way one for each set of these."""
    starts = {_in_the_way(search, look, first, later): look for look in reversed(broken)}
    fewest = min(map(len, starts), default=0)
    return [look for places, look in starts.items() if len(places) == fewest]


def _without_others(search: Search, look: Look, first: int, later: int) -> Look | None:
    """The call with further kinds of change, each of which mends what is in the way; None where something stays."""
    most = len(_in_the_way(search, look, first, later))
    for _ in range(_MOST_CHANGES):
        both = (
            more
            for more in search.with_one_more([look])
            if more.holds[first] is False and more.holds[later] is False and more.is_defined
        )
        look = min(both, key=lambda more: len(_in_the_way(search, more, first, later)), default=look)
        left = len(_in_the_way(search, look, first, later))
        if left == 0 and Demand(first, later, behind=True) in orders_told_by(search.operator, look):
            return look
        if left >= most:
            break
        most = left
    return None


def _products(search: Search, first: int, later: int) -> Iterator[Look]:
    """Each least call that the first answers with each least violation of the later one, in both orders.

    Those of one base come first; a violation that was found on one base may be had on another.
    """
    pairs = list(product(search.least_of(first).answered, search.least_of(later).broken))
    for is_one_base in (True, False):
        for one, other in pairs:
            if (one.base == other.base) == is_one_base:
                yield from _both_kinds(search, one, other)


def _both_kinds(search: Search, one: Look, other: Look) -> Iterator[Look]:
    """A base of theirs with the kinds of both, in both orders."""
    for base in dict.fromkeys((one.base, other.base)):
        for kinds in ((*one.kinds, *other.kinds), (*other.kinds, *one.kinds)):
            look = search.look(base, kinds)
            if look is not None:
                yield look


def _exclusion(search: Search, first: int, later: int) -> str:
    """Why the two cannot both be broken, where that is one of the known reasons."""
    looks = [search.least_of(first).answered, search.least_of(later).broken]
    if any(_all_have(one, EMPTY) and _all_have(other, STRIDED, LARGE) for one, other in (looks, reversed(looks))):
        return EMPTY_EXCLUDES
    nulls = [kind.target for look in looks[1] for kind in look.kinds if kind.what == "ptr_null"]
    if (
        looks[0]
        and nulls
        and all(look.case.has(name) and look.case.tensor(name).desc.is_empty for look in looks[0] for name in nulls)
    ):
        return NO_POINTER
    # Where a tensor is asked for late, what the first one looks at is not there.
    bare = {kind.target for look in looks[1] for kind in look.kinds if kind.what == "desc_null"}
    if bare and {kind.target for look in looks[0] for kind in look.kinds} == bare:
        return NO_DESCRIPTOR
    # Whatever makes a check in front of both answer is no way to break the later one.
    later_looks = [look for look in looks[1] if look.answer is None or look.answer >= first]
    pairs = list(product(looks[0], later_looks))
    meet = [bool(_touched(search, one) & _touched(search, other)) for one, other in pairs]
    is_mended = (
        not any(look.holds[first] is False and look.holds[later] is False for look in _both_kinds(search, one, other))
        for one, other in pairs
    )
    return (
        SAME_SYMBOL
        if any(meet) and all(touches or mends for touches, mends in zip(meet, is_mended, strict=True))
        else ""
    )


def _all_have(looks: Sequence[Look], *categories: str) -> bool:
    return all(any(kind.category in categories for kind in look.kinds) for look in looks)


def _touched(search: Search, look: Look) -> frozenset[tuple[str, object]]:
    """What differs from the base: axes and types of tensors, parameters."""
    base = search.bases[look.base]
    found: set[tuple[str, object]] = set()
    for old, new in zip(base.tensors, look.case.tensors, strict=True):
        if len(old.desc.dims) != len(new.desc.dims):
            found |= {(old.id, axis) for axis in range(len(old.desc.dims))}
        else:
            lengths = zip(old.desc.dims, new.desc.dims, strict=True)
            found |= {(old.id, axis) for axis, (before, now) in enumerate(lengths) if before != now}
    violation = violation_between(base, look.case, "")
    return frozenset(found | {(name, None) for name in violation.params})
