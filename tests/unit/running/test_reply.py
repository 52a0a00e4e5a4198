"""What a backend answers is looked at before it is used: statuses, times, sizes, scalars, and its workspace queries."""

import math
import time
from dataclasses import replace

import numpy as np
import pytest

from mluops_gtest.core.buffers import checked_seconds
from mluops_gtest.core.call import Crashed, Declined, OpCall, QueryAnswer, Status, Violated
from mluops_gtest.core.case import Expect
from mluops_gtest.core.cause import QueryStatus, Refusals, format_reason
from mluops_gtest.core.declaration import SIZE_NULL, Check, CheckVerdict, QueryChecks
from mluops_gtest.running import caller
from mluops_gtest.running.caller import Ending, checked_size, free_bytes, reply_of
from mluops_gtest.running.guarded_call import judge_queries
from tests.unit.running.small_operator import DOUBLES, doubling


class Backend:
    name = "mine"

    def __init__(self, act=lambda call: Status.SUCCESS, device=None):
        self.run = act
        self.device_seconds = lambda: device


def reply(backend):
    return reply_of(backend, OpCall("op", {}, {}, {}))


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf, -math.inf, 1e7, 10**400, np.float32("nan"), "1", True])
def test_a_device_time_that_is_none_is_the_backends_error(seconds):
    answer = reply(Backend(device=seconds))
    assert (answer.status, answer.ended) == (None, Ending.ERROR)
    assert "device_seconds() returned" in format_reason(answer.causes)
    assert len(format_reason(answer.causes)) < 200


@pytest.mark.parametrize("seconds", [0, 0.5, np.float32(0.5), np.int64(1), None])
def test_a_device_time_is_kept(seconds):
    assert reply(Backend(device=seconds)).device_seconds == seconds


def test_a_time_longer_than_the_wait_is_none():
    assert checked_seconds("the call took", 0.5, 0.5) == 0.5
    with pytest.raises(ValueError, match=r"the call took 0\.6; it must be .* from 0 to 0\.5"):
        checked_seconds("the call took", 0.6, 0.5)


@pytest.mark.parametrize("size", [-1, 1.5, math.nan, None, True, "1"])
def test_a_workspace_size_that_is_none_is_an_error(size):
    with pytest.raises(TypeError, match=r"backend mine: workspace_size\(\) returned"):
        checked_size("mine", size)


@pytest.mark.parametrize("value", [1.5, None, "1", True, 10**2000])
def test_a_scalar_that_is_none_is_the_backends_error(value):
    def act(call):
        call.scalars["n"] = value
        return Status.SUCCESS

    answer = reply(Backend(act))
    assert answer.ended is Ending.ERROR
    assert "call.scalars['n']" in format_reason(answer.causes)


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (Declined("no"), Ending.DECLINED),
        (Violated("no"), Ending.MEMORY),
        (Crashed("no"), Ending.CRASHED),
        (MemoryError(), Ending.CRASHED),
        (SystemExit(1), Ending.CRASHED),
        (ValueError("no"), Ending.ERROR),
    ],
)
def test_what_is_raised_says_what_happened(error, ending):
    def act(call):
        raise error

    assert reply(Backend(act)).ended is ending


def test_a_backend_that_turns_the_clock_changes_no_time(monkeypatch):
    def act(call):
        monkeypatch.setattr(time, "perf_counter", lambda: math.nan)
        return Status.SUCCESS

    assert 0 <= reply(Backend(act)).seconds < 60


@pytest.fixture
def machine(tmp_path):
    def say(meminfo=None, **group):
        if meminfo is not None:
            (tmp_path / "meminfo").write_text(meminfo)
        for name, text in group.items():
            (tmp_path / f"memory.{name}").write_text(text)
        return free_bytes(tmp_path / "meminfo", tmp_path)

    return say


MEMINFO = "MemTotal:  100 kB\nMemAvailable:   64 kB\n"


def test_the_machine_says_and_the_container_may_say_less(machine):
    assert machine(MEMINFO) == 65536
    group = {"current": "5000\n", "stat": "anon 1\ninactive_file 1000\n"}
    assert machine(MEMINFO, max="10000\n", **group) == 6000
    assert machine(MEMINFO, max="max\n", **group) == 65536


@pytest.mark.parametrize("meminfo", [None, "", "MemAvailable:\n", "MemAvailable: much kB\n", "MemTotal: 1 kB\n"])
def test_nobody_says(machine, meminfo):
    assert machine(meminfo) is None


def test_a_size_is_held_to_what_is_free(monkeypatch):
    monkeypatch.setattr(caller, "free_bytes", lambda: 1 << 30)
    assert checked_size("mine", 1 << 30) == 1 << 30
    with pytest.raises(ValueError, match=r"workspace_size\(\) returned 1073741825, but only 1073741824 bytes"):
        checked_size("mine", (1 << 30) + 1)
    with pytest.raises(ValueError, match=r"returned 1001, but --memory-limit allows 1000 bytes"):
        checked_size("mine", 1001, 1000)
    monkeypatch.setattr(caller, "free_bytes", lambda: None)
    assert checked_size("mine", 1 << 42) == 1 << 42
    with pytest.raises(ValueError, match="no machine has that"):
        checked_size("mine", (1 << 42) + 1)


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
        told = (found.function, found.answered, found.expected, found.check)
        assert told == (ASK, status.name, owed.name, check or "")
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
    # The pointer has a name where there are queries.
    assert CHECKED.pointers == (*DOUBLES.pointers, "size")
