"""Workers of a cluster that do not answer as agreed: `plant` runs on the worker that shall lie."""

import itertools
import json

import msgspec

from mluops_gtest.cluster import worker
from mluops_gtest.cluster.answers import BatchAnswer, HandedOutputs, UnitAnswer, decode, encode

HONEST, HANDING = worker.run_batch, worker.hand_over


def _nested():
    found = []
    for _ in range(100_000):
        found = [found]
    return found


def _raise(error):
    raise error


def _with(**fields):
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
    "no bytes": (lambda answer: list(answer.units), "it answered with list instead of bytes"),
    "nothing": (lambda _: None, "it answered with NoneType instead of bytes"),
    "noise": (lambda _: b"\xff\x00noise", "its answer cannot be read"),
    "another type": (lambda _: msgspec.msgpack.encode({"units": 3}), "its answer cannot be read"),
    "another id": (_with(case="ball_query/none"), "has the case 'ball_query/none'"),
    "another operator": (_with(operator="three_nn_forward"), "has the operator 'three_nn_forward'"),
    "other tags": (_with(tags=["race"]), "has the tags ('race',)"),
    "another host": (_with(host="elsewhere"), "has the host 'elsewhere'"),
    "a device that is not there": (_with(device=7), "has the device 7"),
    "NaN seconds": (_with(seconds=float("nan")), "its answer"),
    "passed without a reading": (_with(readings=[], status=None), "it has no reading and no status"),
    "not run": (_with(outcome="not_run"), "is not_run, which no worker can say"),
    "a case that nobody asked for": (
        lambda answer: encode(BatchAnswer(tuple(UnitAnswer(one.result, b"x") for one in answer.units))),
        "has a smaller case",
    ),
    "a bug of the harness": (_with(outcome="error", bug=True, reason="all is lost"), "as agreed: all is lost"),
    "RecursionError": (lambda _: _raise(RecursionError("too deep")), "RecursionError: too deep"),
    "an answer that cannot be sent": (
        lambda _: _nested(),
        "did not hand over its answer|TypeError: Could not serialize object of type list;",
    ),
}


def _passed(answer):
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


def plant(lie):
    """From now on this worker lies."""
    change, _ = LIES[lie]
    worker.run_batch = lambda *arguments: change(decode(HONEST(*arguments), BatchAnswer))


def call_failures_passed(from_batch=0, *, without_outputs=False):
    """From its so manieth batch on this worker says of failures that they passed."""
    done = itertools.count()

    def run_batch(*arguments):
        answer = decode(HONEST(*arguments), BatchAnswer)
        if next(done) < from_batch:
            return encode(answer)
        if without_outputs:
            answer = BatchAnswer(tuple(UnitAnswer(unit.result) for unit in answer.units))
        return _passed(answer)

    worker.run_batch = run_batch


def change_outputs():
    """This worker hands over other outputs than those that it named."""
    call_failures_passed()

    def hand_over(*arguments):
        handed = decode(HANDING(*arguments), HandedOutputs)
        return encode(
            HandedOutputs(tuple(data[:-1] + bytes([data[-1] ^ 1]) if data else data for data in handed.outputs))
        )

    worker.hand_over = hand_over


def hand_over_nothing():
    """This worker keeps its outputs to itself."""
    worker.hand_over = lambda *_: encode(HandedOutputs(()))


def repent():
    """This worker is honest again."""
    worker.run_batch, worker.hand_over = HONEST, HANDING
