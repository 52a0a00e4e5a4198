"""The order of checks is part of the contract: a library with another one answers some stored case wrongly."""

import pytest

from tests.conftest import ROOT
from tests.support.check_order import StoredOrder, blocks_of, moved_behind

NAMES = sorted(path.stem for path in ROOT.glob("cases/*.yaml"))
CLOSED = {
    "a check of the first one's status between them answers, too",
    "an empty tensor needs no pointer",
    "empty excludes strided or large",
    "no descriptor to look at",
    "same symbol",
    "the call is undefined",
}


pytestmark = pytest.mark.slow(seconds=2)


# Boxes that are large where their results are not, which needs a length of 1 that no base of derived cases has.
SHOWN_BY_HAND = {("bbox_overlaps", "bbox1_large")}


@pytest.fixture(scope="module", params=NAMES)
def stored(request, catalogue):
    return StoredOrder(ROOT, catalogue, request.param)


def moves(operator):
    """Every block of checks behind every later block, and every check behind every later one."""
    blocks, count = blocks_of(operator), len(operator.checks)
    yield from ((start, stop, last) for start, stop in blocks for _, last in blocks if last > stop)
    yield from ((place, place + 1, last) for place in range(count) for last in range(place + 2, count + 1))


def test_what_the_lock_excuses_has_a_closed_reason(stored):
    assert {one.reason for one in stored.unseen} <= CLOSED


def test_moves_that_no_stored_case_sees_are_those_that_the_lock_excuses(stored):
    """One whose pairs are all excused may be seen all the same: a check of the block hides what the pair would show."""
    checks, excused, wrong = stored.operator.checks, stored.excused_pairs(), []
    for start, stop, last in moves(stored.operator):
        pairs = [
            (first, later)
            for first in range(start, stop)
            for later in range(stop, last)
            if checks[first].status != checks[later].status
            and not checks[first].subsumed
            and not checks[later].subsumed
        ]
        is_seen = stored.is_seen(moved_behind(len(checks), start, stop, last))
        if not pairs:
            assert not is_seen
        elif (stored.operator.name, checks[start].name) in SHOWN_BY_HAND:
            assert is_seen
        elif is_seen == (excused >= set(pairs)) and (not is_seen or stop - start == 1):
            wrong.append((checks[start].name, checks[stop - 1].name, checks[last - 1].name))
    assert wrong == []


def test_no_excuse_is_idle(stored):
    """A pair that the lock gives up is shown by no stored case."""
    shown = {(one.first, one.later) for one in stored.orders if one.behind}
    name, checks = stored.operator.name, stored.operator.checks
    idle = {pair for pair in shown & stored.excused_pairs() if (name, checks[pair[0]].name) not in SHOWN_BY_HAND}
    assert not idle
