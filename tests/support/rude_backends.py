"""Backends that break the line between worker and controller, each in one way, on every case of one operator."""

import array
import math
import os
import socket
import sys
import time

from msgspec import structs

from mluops_gtest import Status
from mluops_gtest.running.workers import worker
from mluops_gtest.running.workers.protocol import Channel, framed
from tests.support.crashing_backends import VICTIM, Isolated, misbehaving


class ForksAndRaises(Isolated):
    def misbehave(self, call):
        if os.fork() == 0:
            raise ValueError("from the child")


class ForksInWorkspaceSize(Isolated):
    def workspace_size(self, call):
        if call.operator == VICTIM:
            os.fork()
        return 0


class ForksUnseen(Isolated):
    """The child believes that it is the worker, and answers."""

    def misbehave(self, call):
        process = os.getpid()
        if os.fork() == 0:
            os.getpid = lambda: process


class ForksUnseenAndLate(Isolated):
    """The child's answer comes in the middle of a later case."""

    def run(self, call):
        if call.operator != VICTIM:
            time.sleep(0.2)
        return super().run(call)

    def misbehave(self, call):
        process = os.getpid()
        if os.fork() == 0:
            os.getpid = lambda: process
            time.sleep(0.1)


class _Patches(Isolated):
    """Replaces how the worker sends its next answers."""

    def misbehave(self, call):
        Channel.send_bytes = type(self).send_bytes


def answering(bytes_of):
    """A backend whose worker sends these bytes instead of the answer with that number."""

    class Answering(_Patches):
        def send_bytes(self, number, body, fds=()):
            self.socket.sendall(bytes_of(number, body))

    return Answering


AnswersTwice = answering(lambda number, body: framed(number, body) * 2)
AnswersAnother = answering(lambda number, body: framed(number ^ 1 << 60, body))
AnswersNonsense = answering(lambda number, body: framed(number, b"\x00nonsense"))
AnswersTooDeep = answering(lambda number, body: framed(number, b'{"is":' + b"[" * 1_000_000))
AnswersTooMuch = answering(lambda number, body: framed(number, b" " * (100 << 20)))


class SendsDescriptors(_Patches):
    def send_bytes(self, number, body, fds=()):
        self.socket.sendmsg([framed(number, body)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1]))])


class StallsInItsAnswer(_Patches):
    def send_bytes(self, number, body, fds=()):
        self.socket.sendall(framed(number, body)[:-5])
        time.sleep(600)


STATUS = {"is": "answered", "status": 0, "seconds": 0.0, "device_seconds": None}
STATUS |= {"scalars": {}, "notes": [], "refusals": []}


def claiming(claim):
    """A backend that replaces what its worker makes of every call; nothing is computed."""

    class Claiming(Isolated):
        def run(self, call):
            honest = worker._Worker.answer
            worker._Worker.answer = lambda self, message, fds: (
                claim if message["do"] in ("begin", "run") else honest(self, message, fds)
            )
            return Status.SUCCESS

    return Claiming


ClaimsPassed = claiming({"is": "ended", "how": "passed", "reason": "", "notes": []})
ClaimsAnOutcome = claiming({**STATUS, "outcome": "passed", "compared": True})
ClaimsAStatus = claiming(STATUS)


class ClaimsAnHour(Isolated):
    def misbehave(self, call):
        honest = worker.answer_of
        worker.answer_of = lambda *reply, **more: structs.replace(honest(*reply, **more), seconds=3600.0)


class TellsNoTime(Isolated):
    def device_seconds(self):
        return math.nan


def wanting(size):
    """A backend that asks for such a workspace."""
    return type("Wanting", (Isolated,), {"workspace_size": lambda _, call: size if call.operator == VICTIM else 0})


WantsTooMuch = wanting(1 << 45)
WantsTwoGigabytes = wanting(2 << 30)
WantsNonsense = wanting(math.nan)
WantsLessThanNothing = wanting(-8)
ForksOnce = misbehaving(lambda _: os.fork())  # the child comes back from run() as if it were the worker
TellsHalfCharacters = misbehaving(lambda call: call.notes.append("a lone \ud800 surrogate"))


class HangsInWorkspaceSize(Isolated):
    def workspace_size(self, call):
        if call.operator == VICTIM:
            time.sleep(600)
        return 0


class PrintsWithoutMeasure(Isolated):
    """200 MB, through Python and behind its back."""

    def misbehave(self, call):
        print("the first words")
        block = b"x" * (1 << 20)
        for _ in range(200):
            os.write(2, block)
        sys.stdout.write("\nthe last words\n")


class NotesWithoutMeasure(Isolated):
    def misbehave(self, call):
        call.notes.append("the first note")
        for i in range(300_000):
            call.notes.append(f"note {i}: " + "x" * 100)
        call.notes.append("y" * (50 << 20))
        call.notes.append("the last note")


def _tell_a_long_story(_):
    raise ValueError("why " * 10_000_000)


RaisesALongStory = misbehaving(_tell_a_long_story)
RefusesWithoutMeasure = misbehaving(lambda call: call.refusals.extend("no" * 1000 for _ in range(100_000)))
