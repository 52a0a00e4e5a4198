"""The backend of the campaign: right in everything, but for the fault that a case asks for by number."""

import builtins
import ctypes
import mmap
import os
import resource
import signal
import sys
import threading
import time
from pathlib import Path

import msgspec
import numpy as np

from mluops_gtest import Status
from tests.campaign.faults import answers, everything
from tests.campaign.floats import floats

FAULTS = list(everything().values())
_LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_") and name != "RLIMIT_AS"]
_SIGNALS = [number for number in signal.valid_signals() if number not in (signal.SIGKILL, signal.SIGSTOP)]


def _state():
    """What a call may not leave changed for the next one."""
    return {
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "handlers": {int(number): signal.getsignal(number) for number in _SIGNALS},
        "timer": signal.getitimer(signal.ITIMER_REAL)[1],
        "blocked signals": set(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "limits": {number: resource.getrlimit(number) for number in _LIMITS},
        "threads": {thread.name for thread in threading.enumerate()},
        "threads at work": sum(b") R " in task.read_bytes() for task in Path("/proc/self/task").glob("*/stat")),
        "floats": floats(),
        "numpy's errors": (np.geterr(), np.geterrcall()),
        "sys.path": list(sys.path),
        "functions": (builtins.__import__, builtins.len, np.frombuffer, np.zeros, msgspec.json.encode),
        "POSIX timers": Path("/proc/self/timers").read_bytes(),
    }


def _work():
    """What kernels do, and what fails where an earlier case left little: divides by zero, imports, maps memory."""
    np.float32(1) / np.zeros(1, np.float32)
    sys.modules.pop("colorsys", None)
    import colorsys  # noqa: F401

    # Neighbours with the same rights would be one mapping.
    return [mmap.mmap(-1, 4096, prot=mmap.PROT_READ | (mmap.PROT_WRITE if n % 2 else 0)) for n in range(2000)]


class Campaign:
    """Doubles a vector; param `fault` is 0 in calm cases, which also look whether they find the process as it was."""

    name = "campaign"

    def __init__(self):
        self._before = _state()
        self._seconds = None

    def workspace_size(self, call):
        name = self._name(call)
        if name == "crashes_in_workspace_size":
            ctypes.string_at(0)
        if name == "hangs_in_workspace_size":
            time.sleep(600)
        return answers.SIZES.get(name, 0)

    def device_seconds(self):
        return self._seconds

    def run(self, call):
        name = self._name(call)
        self._seconds = answers.SECONDS.get(name)
        call.array("y")[...] = call.array("x") * np.float32(2)
        if name:
            answer = FAULTS[call.param("fault") - 1].act(call)
            return Status.SUCCESS if answer is None else answer
        _work()
        if (now := _state()) != self._before:
            changed = [key for key in now if now[key] != self._before[key]]
            raise RuntimeError(f"an earlier case changed for this one: {', '.join(changed)}")
        return Status.SUCCESS

    @staticmethod
    def _name(call):
        number = call.param("fault")
        return FAULTS[number - 1].name if number else ""


def backend():
    return Campaign()
