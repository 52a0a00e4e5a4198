"""Waivers hold fingerprints: those of version 1 stay as they were before causes had types."""

import json

import pytest

from mluops_gtest.core import cause as c
from mluops_gtest.core.call import Status
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult
from mluops_gtest.judging.fingerprint import with_fingerprint
from tests.support.planted_mistakes import planted
from tests.support.reports import GOLDEN

CRASHED, ERROR, MEMORY = Outcome.CRASHED, Outcome.ERROR, Outcome.MEMORY


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
