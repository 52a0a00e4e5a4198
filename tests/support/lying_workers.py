"""Workers of a cluster that do not answer as agreed."""

import itertools
import json
import os
import signal

import pytest

from mluops_gtest.cluster import worker
from mluops_gtest.cluster.answers import BatchAnswer, UnitAnswer, decode, encode

HONEST = worker.run_batch


def _nested():
    found = []
    for _ in range(100_000):
        found = [found]
    return found


def _raise(error):
    raise error


def with_fields(**fields):
    """Every result with other fields."""

    def change(answer):
        units = []
        for unit in answer.units:
            record = {**json.loads(unit.result), **fields}
            units.append(UnitAnswer(json.dumps(record).encode()))
        return encode(BatchAnswer(tuple(units)))

    return change


# What the controller says of each.
LIES = {
    "one case too few": (lambda answer: encode(BatchAnswer(answer.units[1:])), "cases instead of"),
    "nothing": (lambda _: None, "it answered with NoneType instead of bytes"),
    "noise": (lambda _: b"\xff\x00noise", "its answer cannot be read"),
    "another id": (with_fields(case="ball_query/none"), "has the case 'ball_query/none'"),
    "NaN seconds": (with_fields(seconds=float("nan")), "its answer"),
    "passed without a reading": (with_fields(readings=[], status=None), "it has no reading and no status"),
    "a case that nobody asked for": (
        lambda answer: encode(BatchAnswer(tuple(UnitAnswer(one.result, b"x") for one in answer.units))),
        "has a smaller case",
    ),
    "a bug of the harness": (with_fields(outcome="error", bug=True, reason="all is lost"), "as agreed: all is lost"),
}
# What only shows between processes.
SENT = {
    "RecursionError": (lambda _: _raise(RecursionError("too deep")), "RecursionError: too deep"),
    "an answer that cannot be sent": (
        lambda _: _nested(),
        "did not hand over its answer|RecursionError|TypeError: Could not serialize object of type list;",
    ),
    "another id": LIES["another id"],
}


# Lies about what a call left; see the functions of these names.
WRONG_VERDICTS = ("call_failures_passed", "change_outputs", "hand_over_nothing")


def passed(answer):
    """Every result that failed for its values as one that passed, so that nothing in it contradicts that."""
    units = []
    for unit in answer.units:
        record = json.loads(unit.result)
        if record["outcome"] == "failed":
            right = [{**reading, "value": 0.0, "within": True} for reading in record["readings"]]
            blank = {"worst": None, "profile": None, "causes": [], "reason": "", "fingerprint": "", "explained": []}
            record |= {**blank, "outcome": "passed", "readings": right, "elements": []}
        units.append(UnitAnswer(json.dumps(record).encode(), outputs=unit.outputs))
    return encode(BatchAnswer(tuple(units)))


# Of a process that is a worker and nothing else.
PLANTED = pytest.MonkeyPatch()


def plant(lie):
    """From now on this process lies: with such an answer, or by the function of this name below."""
    if lie in WRONG_VERDICTS:
        globals()[lie](PLANTED, None)
        return
    change, _ = {**LIES, **SENT}[lie]
    worker.run_batch = lambda *arguments: change(decode(HONEST(*arguments), BatchAnswer))


def stop_at_the_next_batch():
    """This process stops once it has something to do, until somebody continues it; its number."""
    worker.run_batch = lambda *arguments: os.kill(os.getpid(), signal.SIGSTOP) or HONEST(*arguments)
    return os.getpid()


def repent():
    """This process is honest again."""
    worker.run_batch = HONEST
    PLANTED.undo()


def change_answers(monkeypatch, change, liar=None, kind=BatchAnswer):
    """That worker of this process, or every one, sends changed answers of the kind."""
    from distributed import get_worker

    def lie(answer):
        lies = isinstance(answer, kind) and liar in (None, get_worker().address)
        return change(answer) if lies else encode(answer)

    monkeypatch.setattr(worker, "encode", lie)


def call_failures_passed(monkeypatch, liar, from_batch=0):
    """From its so manieth batch on that worker says of failures that they passed."""
    done = itertools.count()

    def change(answer):
        return encode(answer) if next(done) < from_batch else passed(answer)

    change_answers(monkeypatch, change, liar)


def change_outputs(monkeypatch, liar):
    """That worker hands over other outputs than those that it named."""

    def change(handed):
        return encode(tuple(data[:-1] + bytes([data[-1] ^ 1]) if data else data for data in handed))

    change_answers(monkeypatch, change, liar, tuple)


def hand_over_nothing(monkeypatch, liar):
    """That worker keeps its outputs to itself."""
    change_answers(monkeypatch, lambda _: encode(()), liar, tuple)
