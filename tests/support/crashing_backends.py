"""Backends that take their process down, hang, or flood; each does it on every case but the ones named `calm`."""

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

from mluops_gtest import Status
from tests.support.wrong_backends import Exact

# Only cases of this operator get the treatment, so that a test can see the others go on.
VICTIM = "masked_im2col_forward"


class Isolated(Exact):
    def run(self, call):
        status = super().run(call)
        if call.operator == VICTIM:
            self.misbehave(call)
        return status

    def misbehave(self, call):
        """What this backend does to its process."""


def misbehaving(act):
    """A backend that does this to its process, on the victim's calls."""
    return type("Misbehaving", (Isolated,), {"misbehave": lambda self, call: act(call)})


class Segfaults(Isolated):
    def misbehave(self, call):
        print("about to read nothing", flush=True)
        ctypes.string_at(0)


Aborts = misbehaving(lambda _: os.abort())
Exits = misbehaving(lambda _: os._exit(3))
RaisesSystemExit = misbehaving(lambda _: sys.exit("enough"))
Terminates = misbehaving(lambda _: os.kill(os.getpid(), signal.SIGTERM))
KillsItsGroup = misbehaving(lambda _: os.killpg(0, signal.SIGKILL))
Hangs = misbehaving(lambda _: time.sleep(3600))
# Holds the interpreter lock for ever: no Python thread or signal handler runs any more.
HangsInNativeCode = misbehaving(lambda _: ctypes.PyDLL(None).pause())


class OverflowsTheStack(Isolated):
    def misbehave(self, call):
        sys.setrecursionlimit(10**9)
        nested = ()
        for _ in range(10**6):
            nested = (nested,)
        hash(nested)


class LeavesAChild(Isolated):
    """A child keeps every descriptor of the worker open while the worker dies."""

    def misbehave(self, call):
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
        ctypes.string_at(0)


class ClosesEverything(Isolated):
    def misbehave(self, call):
        os.closerange(3, 256)
        time.sleep(600)


class EatsMemoryForReal(Isolated):
    def misbehave(self, call):
        self.kept = b"x" * (3 << 30)


class Prints(Isolated):
    def misbehave(self, call):
        print("from Python")
        ctypes.CDLL(None).puts(b"from C")
        print("to stderr", file=sys.stderr)


class CrashesAtOnce(Isolated):
    def run(self, call):
        ctypes.string_at(0)


class NeverHealthyAgain(Isolated):
    """The first worker is healthy; after its crash no other is."""

    def __init__(self):
        super().__init__()
        marker = Path(os.environ["CRASH_COUNTER"])
        self.first = not marker.exists()

    def healthy(self):
        return self.first

    def misbehave(self, call):
        Path(os.environ["CRASH_COUNTER"]).write_text("x")
        ctypes.string_at(0)


class OneBadDevice(Isolated):
    """Device 1 dies at its first call and stays dead; the others work."""

    def healthy(self):
        return os.environ["MLUOPS_TEST_DEVICE"] != "1"

    def run(self, call):
        assert str(call.device) == os.environ["MLUOPS_TEST_DEVICE"]
        if call.device == 1:
            ctypes.string_at(0)
        return Exact.run(self, call)


class CrashesInWorkspaceSize(Isolated):
    def workspace_size(self, call):
        if call.operator == VICTIM:
            ctypes.string_at(0)
        return 0


class CrashesInSupports(Isolated):
    def supports(self, operator):
        ctypes.string_at(0)


def crashes_while_loading():
    ctypes.string_at(0)


class TellsDevice:
    name = "tells_device"

    def run(self, call):
        call.notes.append(f"device {call.device} {os.environ.get('MLUOPS_TEST_DEVICE')}")
        return Status.SUCCESS
