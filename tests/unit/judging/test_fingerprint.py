"""The same mistake keeps its fingerprint when values vary; another mistake gets another one.

Waivers hold fingerprints: those of version 1 stay as they were before causes had types.
"""

import json
import re
from dataclasses import replace

import pytest

from mluops_gtest.core import cause as c
from mluops_gtest.core.call import Status
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult
from mluops_gtest.judging.fingerprint import place_mark, with_fingerprint
from tests.support.planted_mistakes import planted
from tests.support.reports import GOLDEN

CRASHED, ERROR, MEMORY = Outcome.CRASHED, Outcome.ERROR, Outcome.MEMORY
BLANK = CaseResult(
    "op/case", "op", ("smoke",), Outcome.FAILED, Status.SUCCESS, expected_status=Status.SUCCESS, compared=True
)
SOME = c.Places(100, 1000, 3, 990)


def of(outcome, *causes, **fields):
    return with_fingerprint(replace(BLANK, outcome=outcome, causes=causes, **fields)).fingerprint


def killed(name):
    return c.Killed(name, 0)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_blocking_result_has_one_and_no_other(outcome):
    found = of(outcome, c.LegacyReason("something"))
    assert re.fullmatch(r"v1:[0-9a-f]{12}", found) if outcome.blocks else found == ""


def test_it_names_no_case_and_one_that_is_there_is_kept():
    assert with_fingerprint(replace(BLANK, case="op/other")).fingerprint == with_fingerprint(BLANK).fingerprint
    result = replace(BLANK, fingerprint="v1:0123456789ab")
    assert with_fingerprint(result) is result


@pytest.mark.parametrize(
    ("outcome", "one", "other"),
    [
        (Outcome.CRASHED, killed("SIGSEGV"), c.LegacyReason("my.so died by SIGSEGV: printed 17 lines")),
        (Outcome.CRASHED, c.Killed("", 70), c.Killed("", 71)),
        (Outcome.CRASHED, c.Raised("MemoryError", "12 bytes"), c.Raised("MemoryError", "99 bytes")),
        (Outcome.ERROR, c.Raised("ValueError", "got 0x7f01"), c.Raised("ValueError", "got 0x7f02")),
        (Outcome.ERROR, c.BadAnswer("3 seconds cannot be"), c.BadAnswer("4 seconds cannot be")),
        (Outcome.TIMED_OUT, c.TimedOut(20.0), c.TimedOut(60.0)),
        (Outcome.MEMORY, c.Overrun("y", "behind", 4), c.Overrun("y", "behind", 1)),
        (Outcome.MEMORY, c.InputChanged("x", 4), c.InputChanged("x", 17)),
        (Outcome.MEMORY, c.FileSize("y.out", 4, "y", 8), c.FileSize("y.out", 5, "y", 8)),
        (Outcome.FAILED, c.NotReproducible(2, ("y",)), c.NotReproducible(3, ("y",))),
        (Outcome.NOT_RUN, c.Interrupted(), c.StoppedAtFailure()),
        (Outcome.FAILED, c.ScalarWrong("n", "3", 4), c.ScalarWrong("n", "5", 4)),
        (Outcome.FAILED, c.Unwritten("y", SOME, (0, 3)), c.Unwritten("y", c.Places(120, 1000, 7, 985), (0, 7))),
    ],
)
def test_what_varies_does_not_count(outcome, one, other):
    assert of(outcome, one) == of(outcome, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((Outcome.CRASHED, c.Exited(3)), (Outcome.CRASHED, c.Exited(4))),
        ((Outcome.CRASHED, killed("SIGSEGV")), (Outcome.ERROR, killed("SIGSEGV"))),
        ((Outcome.MEMORY, c.Overrun("y", "behind", 4)), (Outcome.MEMORY, c.Overrun("x", "behind", 4))),
        ((Outcome.MEMORY, c.Overrun("y", "behind", 4)), (Outcome.MEMORY, c.Overrun("y", "in front", 4))),
        ((Outcome.FAILED, c.ScalarWrong("n", "3", 4)), (Outcome.FAILED, c.ScalarMissing("n", 4))),
        ((Outcome.SUSPECT, c.ConstantBaseline("y")), (Outcome.SUSPECT, c.NotJudged("y"))),
    ],
)
def test_what_matters_does(one, other):
    assert of(*one) != of(*other)


def test_a_wrong_status_is_known_by_the_two_statuses():
    def wrong(status, expected, check):
        cause = c.WrongStatus(status.name, expected.name, check=check, message="it must hold")
        return of(Outcome.WRONG_STATUS, cause, status=status, expected_status=expected)

    base = wrong(Status.SUCCESS, Status.BAD_PARAM, "a")
    assert base == wrong(Status.SUCCESS, Status.BAD_PARAM, "b")
    assert base != wrong(Status.SUCCESS, Status.NOT_SUPPORTED, "a")
    assert base != wrong(Status.NOT_SUPPORTED, Status.BAD_PARAM, "a")


def test_a_broken_case_is_told_apart_without_its_path():
    def broken(text):
        return of(Outcome.ERROR, c.ContentError(text), content_error=True)

    assert broken("/a/ramp_2.prototxt: differs from the lock") == broken("/b/c.prototxt: differs from the lock")
    assert broken("/a/ramp_2.prototxt: differs from the lock") != broken("/a/ramp_2.prototxt: is truncated")


@pytest.mark.parametrize(
    ("one", "other", "are_alike"),
    [
        ((100, 1000, 3, 990), (120, 1000, 7, 985), True),
        ((1000, 1000, 0, 999), (990, 1000, 0, 999), True),
        ((1, 1000, 500, 500), (1, 1000, 510, 510), True),
        ((500, 1000, 0, 998), (480, 1000, 0, 998), True),
        ((50, 1000, 0, 999), (5000, 100_000, 0, 99_999), True),
        ((1, 1000, 500, 500), (2, 1000, 500, 501), False),
        ((1, 1000, 0, 0), (1, 1000, 500, 500), False),
        ((1, 1000, 999, 999), (1, 1000, 990, 990), False),
        ((1000, 1000, 0, 999), (500, 1000, 0, 999), False),
        ((100, 1000, 0, 200), (100, 1000, 0, 700), False),
    ],
)
def test_places_are_coarse_and_tell_mistakes_apart(one, other, are_alike):
    assert (place_mark("y diff1", c.Places(*one)) == place_mark("y diff1", c.Places(*other))) is are_alike


def exceeded(output, *criteria, finite_only=False):
    excess = tuple(c.Excess(name, 1.0, 0.0) for name in criteria)
    return c.Exceeded(output, excess, SOME, finite_only, True, None, 100)


def test_all_findings_count_and_their_order_does_not():
    x, y = exceeded("x", "diff3"), exceeded("y", "diff3")
    assert of(Outcome.FAILED, x, y) == of(Outcome.FAILED, y, x)
    assert len({of(Outcome.FAILED, x), of(Outcome.FAILED, y), of(Outcome.FAILED, x, y)}) == 3
    assert of(Outcome.FAILED, exceeded("x", "diff1")) != of(Outcome.FAILED, exceeded("x", "diff1", "diff2"))


def test_where_values_became_infinite_what_the_finite_ones_read_does_not_count():
    mismatch = c.NonFinite("x", 1, 7, ("diff1", "diff2"), SOME)
    assert of(Outcome.FAILED, mismatch) == of(Outcome.FAILED, mismatch, exceeded("x", "diff1", finite_only=True))


def test_planted_mistakes_have_the_outcome_fingerprint_and_reason_that_they_had(catalogue):
    golden = json.loads((GOLDEN / "fingerprints.json").read_text(encoding="utf-8"))
    assert sum(map(len, golden.values())) > 60
    assert planted(catalogue) == golden


# Taken from runs of version 0.1.0 on backends that crash, hang, lie or break the line to their worker.
@pytest.mark.parametrize(
    ("outcome", "cause", "mark"),
    [
        (CRASHED, c.Killed("SIGSEGV", 11), "v1:ede14f880e5a"),
        (CRASHED, c.Fault("SIGSEGV", "read", "0x10", "null"), "v1:ede14f880e5a"),
        (CRASHED, c.Fault("SIGSEGV"), "v1:ede14f880e5a"),
        (CRASHED, c.ProgramDied("exec:./dies.sh", "SIGSEGV", ""), "v1:ede14f880e5a"),
        (CRASHED, c.Killed("SIGABRT", 6), "v1:7da859554adc"),
        (CRASHED, c.Killed("SIGTERM", 15), "v1:759134b19c78"),
        (CRASHED, c.Exited(3), "v1:39bf5121745c"),
        (CRASHED, c.Raised("SystemExit", "enough"), "v1:46f04e7a614f"),
        (CRASHED, c.Raised("MemoryError", ""), "v1:8c11053d4ab4"),
        (CRASHED, c.ProtocolBroken("it sent more than one answer"), "v1:8ad4137bc5f4"),
        (CRASHED, c.ProtocolBroken("it answered a request 1178182057411579809 that nobody made"), "v1:f77b9f86d88d"),
        (CRASHED, c.ProtocolBroken("JSON is malformed: invalid character (byte 0)"), "v1:984cc14c3792"),
        (CRASHED, c.ProtocolBroken("an answer of 104857600 bytes; at most 8388608 are read"), "v1:3f45c9fc3742"),
        (ERROR, c.Raised("ValueError", "device_seconds() returned nan; it must be …"), "v1:e2c5ac173f4e"),
        (ERROR, c.Raised("TypeError", "workspace_size() returned -8", "workspace_size"), "v1:98045ee98255"),
        (ERROR, c.Raised("ProgramError", "exec:./exit3.sh exited with 3"), "v1:3ac06b8547cc"),
        (
            ERROR,
            c.BadAnswer("the call took 3600.0; it must be a number of seconds from 0 to 0.00271441."),
            "v1:76b4e0bab7cb",
        ),
        (MEMORY, c.FileSize("data_col.out", 2, "data_col", 288), "v1:e1c8400622b6"),
        (MEMORY, c.FileSize("data_col.out", None, "data_col", 288), "v1:b0a54e824235"),
        (Outcome.TIMED_OUT, c.TimedOut(2.0), "v1:1db6171b3bb6"),
    ],
)
def test_endings(outcome, cause, mark):
    result = CaseResult("op/a", "op", (), outcome, expected_status=Status.SUCCESS, causes=(cause,))
    assert with_fingerprint(result).fingerprint == mark
