"""Failures that look like one mistake, together."""

from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import grouped, mark_of
from mluops_gtest.core.result import CaseInfo, TensorInfo
from tests.support.reports import result


def failed(name, fingerprint="v1:a", size=4, **changes):
    info = CaseInfo((TensorInfo("x", "float", "ARRAY", (size,)),), (TensorInfo("y", "float", "ARRAY", (2, size)),))
    return result(name, Outcome.FAILED, value=1.0, fingerprint=fingerprint, info=info, **changes)


def grouped_results(results):
    return grouped(results, mark_of, lambda result: (result.info.elements, result.case))


def test_the_largest_group_comes_first_and_the_smallest_case_stands_for_it():
    results = [failed("z", "v1:b"), failed("big", size=100), failed("small", size=3), failed("also_small", size=3)]
    groups = grouped_results(results)
    assert [[r.case for r in group.members] for group in groups] == [["op/also_small", "op/small", "op/big"], ["op/z"]]
    assert groups[0].first.case == "op/also_small"


def test_without_a_fingerprint_the_same_words_are_one_group():
    told = [failed(name, "", reason=reason) for name, reason in (("a", "no"), ("b", "no"), ("c", "other"))]
    assert [len(group.members) for group in grouped_results(told)] == [2, 1]


def test_groups_of_one_size_stand_in_the_order_of_their_cases():
    assert [g.first.case for g in grouped_results([failed("b", "v1:1"), failed("a", "v1:2")])] == ["op/a", "op/b"]
