"""Shards of the real content: balanced, disjoint, complete and the same every time."""

import pytest

from mluops_gtest.casefiles.lock import LockEntry
from mluops_gtest.catalog.selection import Session
from mluops_gtest.core.call import Status
from mluops_gtest.core.case import Expect, Query
from mluops_gtest.running.options import RunOptions
from mluops_gtest.running.plan import (
    BYTE_NS,
    CASE_NS,
    RecordedTimes,
    Shard,
    costs_of,
    moved_bytes,
    plan_run,
    shard_of,
    smallest_first,
)
from tests.conftest import ROOT

OPERATORS = sorted(path.parent.name for path in ROOT.glob("generators/[a-z]*/__init__.py"))
SELECTIONS = {
    "default": Query(),
    "--all": Query(everything=True),
    **{name: Query(operators=(name,)) for name in OPERATORS},
}


@pytest.fixture(scope="module")
def session():
    return Session()


@pytest.mark.slow
@pytest.mark.parametrize("selection", SELECTIONS.values(), ids=SELECTIONS.keys())
def test_no_shard_costs_much_more_than_the_others(session, selection):
    cases = session.select(selection).cases
    lock = session.source(cases).lock
    sizes = {case.id: moved_bytes(lock[case.id], case.draft.expect) for case in cases}
    costs = costs_of(sizes, RecordedTimes())
    dearest = max(costs.values())
    for count in range(2, 9):
        parts = [shard_of(list(costs), costs, Shard(index, count)) for index in range(1, count + 1)]
        assert sorted(case for part in parts for case in part) == sorted(costs)
        loads = [sum(costs[case] for case in part) for part in parts]
        assert max(loads) <= max(1.3 * sum(loads) / count, dearest), (count, loads)


@pytest.mark.slow
def test_four_shards_of_everything_have_about_as_many_cases(session):
    """Once they had 4, 667, 663 and 4: descriptors of nearly 2^31 elements counted as load."""
    requests = [RunOptions(SELECTIONS["--all"], ("builtin",), "numpy", shard=f"{index}/4") for index in range(1, 5)]
    parts = [[case.id for case in plan_run(request, session, pytest.fail).cases] for request in requests]
    assert min(map(len, parts)) > 150
    assert parts == [[case.id for case in plan_run(request, Session(), pytest.fail).cases] for request in requests]


def entry(*dims):
    tensors = [{"id": f"t{i}", "dtype": "float", "layout": "ARRAY", "dims": list(d)} for i, d in enumerate(dims)]
    return LockEntry("op/a", "", "", "", "", {"inputs": tensors[:1], "outputs": tensors[1:]}, {})


def test_a_descriptor_alone_moves_no_byte():
    large, small = (2**31 - 1,), (10, 10)
    refused = Expect(Status.BAD_PARAM, check="limit")
    assert moved_bytes(entry(large, small), refused) == 400
    assert moved_bytes(entry((2**31,), small), Expect()) == 400
    assert moved_bytes(entry((1 << 20,), small), Expect()) == (4 << 20) + 400


def test_times_that_are_known_count_and_others_are_scaled():
    costs = costs_of({"a": 0, "b": 1000, "c": 0}, RecordedTimes({"a": 0.016, "elsewhere": 99.0}))
    # "a" took twice what was guessed; so will the others.
    assert costs == {"a": CASE_NS + 16_000_000, "b": 3 * (CASE_NS + 1000 * BYTE_NS), "c": 3 * CASE_NS}
    assert costs_of({"a": 0}, RecordedTimes({"a": 0.0})) == {"a": CASE_NS}


def test_the_smallest_come_first_and_equals_keep_their_order():
    assert smallest_first(["c", "a", "b"], {"a": 2, "b": 1, "c": 2}) == ["b", "c", "a"]
