"""Cases in batches by what they cost."""

from hypothesis import given
from hypothesis import strategies as st

from mluops_gtest.cluster.answers import Unit
from mluops_gtest.cluster.session import BATCH_NS, MAX_CASES, batches_of
from mluops_gtest.running.plan import CASE_NS


def planned(number):
    return [Unit(f"op/{i}", "op", ()) for i in range(number)]


@given(st.lists(st.integers(0, 10 * BATCH_NS), max_size=300), st.integers(1, 64), st.booleans())
def test_every_case_is_in_one_batch(costs, workers, in_order):
    cases = planned(len(costs))
    by_case = {case.id: cost for case, cost in zip(cases, costs, strict=True)}
    batches = list(batches_of(cases, by_case, in_order=in_order, workers=workers))
    flat = [case for batch in batches for case in batch]
    assert sorted(case.id for case in flat) == sorted(by_case)
    assert all(0 < len(batch) <= MAX_CASES for batch in batches)
    if in_order:
        assert flat == cases
    else:
        assert [by_case[case.id] for case in flat] == sorted(costs, reverse=True)
    for batch in batches:
        assert len(batch) == 1 or sum(by_case[case.id] for case in batch) <= max(BATCH_NS, CASE_NS)


def test_few_cases_are_shared_by_all_workers():
    batches = list(batches_of(planned(32), {}, workers=4))
    assert max(map(len, batches)) <= 2
