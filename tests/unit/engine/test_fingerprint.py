"""The same mistake keeps its fingerprint when values vary; another mistake gets another one."""

import re
from dataclasses import replace

import pytest

from mluops_gtest.engine.fingerprint import fingerprinted, place_mark
from mluops_gtest.model.result import CaseResult, Outcome
from mluops_gtest.model.status import Status

BLANK = CaseResult(
    "op/case", "op", ("smoke",), Outcome.FAILED, Status.SUCCESS, expected_status=Status.SUCCESS, compared=True
)


def of(outcome, reason="", marks=(), **fields):
    return fingerprinted(replace(BLANK, outcome=outcome, reason=reason, **fields), marks).fingerprint


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_blocking_result_has_one_and_no_other(outcome):
    found = of(outcome, "something")
    assert re.fullmatch(r"v1:[0-9a-f]{12}", found) if outcome.blocks else found == ""


def test_it_names_no_case():
    assert fingerprinted(replace(BLANK, case="op/other")).fingerprint == fingerprinted(BLANK).fingerprint


def test_one_that_is_there_is_kept():
    result = replace(BLANK, fingerprint="v1:0123456789ab")
    assert fingerprinted(result) is result


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((Outcome.CRASHED, "killed by SIGSEGV"), (Outcome.CRASHED, "my.so died by SIGSEGV: printed 17 lines")),
        ((Outcome.CRASHED, "MemoryError: 12 bytes"), (Outcome.CRASHED, "MemoryError: 99 bytes")),
        ((Outcome.ERROR, "ValueError: got 0x7f01"), (Outcome.ERROR, "ValueError: got 0x7f02")),
        ((Outcome.TIMED_OUT, "no answer within 20 s"), (Outcome.TIMED_OUT, "no answer within 60 s")),
        (
            (Outcome.MEMORY, "wrote past the end of y, first at byte 4 behind it"),
            (Outcome.MEMORY, "wrote past the end of y, first at byte 1 behind it"),
        ),
        ((Outcome.FAILED, "not reproducible: run 2 differs"), (Outcome.FAILED, "not reproducible: run 3 differs")),
        ((Outcome.NOT_RUN, "interrupted"), (Outcome.NOT_RUN, "stopped at the first failure")),
    ],
)
def test_what_varies_does_not_count(one, other):
    assert of(*one) == of(*other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((Outcome.CRASHED, "killed by SIGSEGV"), (Outcome.CRASHED, "killed by SIGABRT")),
        ((Outcome.CRASHED, "the process exited with code 3"), (Outcome.CRASHED, "the process exited with code 4")),
        ((Outcome.CRASHED, "MemoryError: x"), (Outcome.CRASHED, "SystemExit: x")),
        ((Outcome.ERROR, "ValueError: x"), (Outcome.ERROR, "TypeError: x")),
        ((Outcome.CRASHED, "killed by SIGSEGV"), (Outcome.ERROR, "killed by SIGSEGV")),
        (
            (Outcome.MEMORY, "wrote past the end of y, first at byte 4 behind it"),
            (Outcome.MEMORY, "wrote past the end of x, first at byte 4 behind it"),
        ),
        (
            (Outcome.MEMORY, "wrote past the end of y, first at byte 4 behind it"),
            (Outcome.MEMORY, "wrote before the start of y, first at byte 4 in front of it"),
        ),
    ],
)
def test_what_matters_does(one, other):
    assert of(*one) != of(*other)


def test_a_wrong_status_is_known_by_the_two_statuses():
    def wrong(status, expected, reason):
        return of(Outcome.WRONG_STATUS, reason, status=status, expected_status=expected)

    base = wrong(Status.SUCCESS, Status.BAD_PARAM, "answered SUCCESS, expected BAD_PARAM (check a)")
    assert base == wrong(Status.SUCCESS, Status.BAD_PARAM, "answered SUCCESS, expected BAD_PARAM (check b)")
    assert base != wrong(Status.SUCCESS, Status.NOT_SUPPORTED, "answered SUCCESS, expected NOT_SUPPORTED")
    assert base != wrong(Status.NOT_SUPPORTED, Status.BAD_PARAM, "answered NOT_SUPPORTED, expected BAD_PARAM")


def test_a_broken_case_is_told_apart_without_its_path():
    def broken(reason):
        return of(Outcome.ERROR, reason, content_error=True)

    assert broken("/a/ramp_2.prototxt: differs from the lock") == broken("/b/c.prototxt: differs from the lock")
    assert broken("/a/ramp_2.prototxt: differs from the lock") != broken("/a/ramp_2.prototxt: is truncated")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((100, 1000, 3, 990), (120, 1000, 7, 985)),
        ((1000, 1000, 0, 999), (990, 1000, 0, 999)),
        ((1, 1000, 500, 500), (1, 1000, 510, 510)),
        ((500, 1000, 0, 998), (480, 1000, 0, 998)),
        ((50, 1000, 0, 999), (5000, 100_000, 0, 99_999)),
    ],
)
def test_places_are_coarse(one, other):
    assert place_mark("y diff1", *one) == place_mark("y diff1", *other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((1, 1000, 500, 500), (2, 1000, 500, 501)),
        ((1, 1000, 0, 0), (1, 1000, 500, 500)),
        ((1, 1000, 999, 999), (1, 1000, 990, 990)),
        ((1000, 1000, 0, 999), (500, 1000, 0, 999)),
        ((100, 1000, 0, 200), (100, 1000, 0, 700)),
    ],
)
def test_places_tell_mistakes_apart(one, other):
    assert place_mark("y diff1", *one) != place_mark("y diff1", *other)


def test_marks_count_and_their_order_does_not():
    assert of(Outcome.FAILED, "a", ("x", "y")) == of(Outcome.FAILED, "b", ("y", "x"))
    assert of(Outcome.FAILED, "a", ("x",)) != of(Outcome.FAILED, "a", ("x", "y"))
