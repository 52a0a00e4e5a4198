"""Workspace queries are held to their own ordered checks, and their answers are noted only where they are news."""

from dataclasses import replace

import pytest

from mluops_gtest.core.call import QueryAnswer, Status
from mluops_gtest.core.case import Expect
from mluops_gtest.core.cause import QueryStatus, Refusals
from mluops_gtest.core.operator import SIZE_NULL, Check, CheckVerdict, QueryChecks
from mluops_gtest.running.guarded_call import judge_queries
from tests.unit.running.small_operator import DOUBLES, doubling

ASK = "mluOpGetDoublesWorkspaceSize"
OK, BAD, OLD, NOT = Status.SUCCESS, Status.BAD_PARAM, Status.ARCH_MISMATCH, Status.NOT_SUPPORTED
# A check of the query alone: the operator doubles a 9.
NINE = Check("nine", NOT, lambda call: call.tensor("x").dims[0] != 9, "not nine of them", "§2")


def asking(*checks, silent=()):
    return replace(DOUBLES, queries={ASK: QueryChecks(checks, silent)})


def judged(operator, case, *answers, wanted=None, workspace_bytes=0):
    if wanted is None:
        wanted = CheckVerdict(case.expect.status, case.expect.check)
    return judge_queries(case, operator, wanted, answers, workspace_bytes)


def refused(**changes):
    return doubling(sign=-1, status=BAD, check="sign_positive", **changes)


CHECKED = asking("sign_positive", SIZE_NULL, "empty", NINE)


@pytest.mark.parametrize(
    ("operator", "case", "size_null", "owed", "check"),
    [
        (CHECKED, refused(), False, BAD, "sign_positive"),
        (CHECKED, refused(x=()), True, BAD, "sign_positive"),
        (CHECKED, doubling(), True, BAD, "size_null"),
        (CHECKED, doubling(x=(), check="empty"), True, BAD, "size_null"),
        (CHECKED, doubling(x=(1.0,) * 9, status=NOT), False, NOT, "nine"),
        # The query does not come to the size, or looks at it alone.
        (asking("empty", SIZE_NULL), doubling(x=(), check="empty"), True, OK, "empty"),
        (asking(SIZE_NULL), refused(), False, OK, None),
    ],
)
def test_the_first_check_that_the_call_breaks_decides(operator, case, size_null, owed, check):
    for status in Status:
        wrong, notes = judged(operator, case, QueryAnswer(ASK, status, size_null=size_null))
        assert notes == []
        if status is owed:
            assert wrong == []
            continue
        (found,) = wrong
        assert isinstance(found, QueryStatus)
        assert (found.function, found.answered, found.expected, found.check) == (
            ASK,
            status.name,
            owed.name,
            check or "",
        )
        assert found.remarks == ("size NULL" if size_null else "")


@pytest.mark.parametrize(
    "operator", [DOUBLES, asking("sign_positive", silent=("sign_positive",))], ids=["undeclared", "silent"]
)
def test_where_nobody_says_what_a_query_owes_nothing_is_judged(operator):
    for status in Status:
        wrong, notes = judged(operator, refused(), QueryAnswer(ASK, status, 8))
        assert wrong == []
        # As the operator answers, or SUCCESS, or as a declared query may: no news.
        assert notes == ([] if status in (OK, BAD) or operator.queries else [f"{ASK} answered {status.name}"])


def test_a_check_that_comes_before_a_silent_one_is_judged():
    operator = asking(SIZE_NULL, "sign_positive", silent=("sign_positive",))
    (found,), _ = judged(operator, refused(), QueryAnswer(ASK, OK, size_null=True))
    assert found.expected == "BAD_PARAM"


@pytest.mark.parametrize("operator", [DOUBLES, CHECKED])
def test_a_query_that_refuses_a_call_which_should_succeed_is_told_as_ever(operator):
    for case in (doubling(), doubling(x=(), check="empty")):
        assert judged(operator, case, QueryAnswer(ASK, OLD)) == ([Refusals((f"{ASK} answered ARCH_MISMATCH",))], [])
        assert judged(operator, case, QueryAnswer(ASK, OK)) == ([], [])


def test_only_a_call_that_computes_is_noted_to_have_too_little_workspace():
    answer = QueryAnswer(ASK, OK, 64)
    assert judged(CHECKED, doubling(), answer, workspace_bytes=63) == (
        [],
        [f"{ASK} asks for 64 bytes, the call has 63"],
    )
    assert judged(CHECKED, doubling(), answer, workspace_bytes=64) == ([], [])
    assert judged(CHECKED, doubling(x=(), check="empty"), answer) == ([], [])
    assert judged(asking(SIZE_NULL), refused(), answer) == ([], [])


def test_both_queries_of_a_case_without_a_pointer_to_the_size_are_judged():
    case = doubling(expect=Expect(null_pointer=("size",)))
    wrong, _ = judged(CHECKED, case, QueryAnswer(ASK, OLD), QueryAnswer(ASK, OK, size_null=True))
    assert [type(one) for one in wrong] == [Refusals, QueryStatus]


def test_the_pointer_to_the_size_has_a_name_where_there_are_queries():
    assert CHECKED.pointers == (*DOUBLES.pointers, "size")
