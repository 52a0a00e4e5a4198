"""Calls that return before they have finished: something goes on writing to the output."""

import ctypes
import os
import threading
import time

from tests.campaign.faults import fault

# Shorter than threads are given to end, longer than an answer takes on a busy machine.
SECONDS = 0.12


def _later(write, *arguments) -> None:
    def wait_and_write() -> None:
        time.sleep(SECONDS)
        write(*arguments)

    threading.Thread(target=wait_and_write).start()


@fault("unfinished", "failed")
def finishes_later(call):
    """As without the synchronisation in the end: what the caller finds is not written yet."""
    y = call.array("y")
    right = y.copy()
    y[...] = 7
    _later(y.__setitem__, ..., right)


@fault("unfinished", "failed")
def spoils_its_output_later(call):
    """Right when the call returns."""
    _later(call.array("y").fill, 7)


def _count(array, seconds) -> None:
    end, number = time.monotonic() + seconds, 3
    while time.monotonic() < end:
        array[...] = number = number + 1


@fault("unfinished", "failed")
def writes_on_in_a_thread(call):
    threading.Thread(target=_count, args=(call.array("y"), 0.1)).start()


@fault("unfinished", "failed")
def writes_the_right_numbers_last(call):
    """Wrong numbers while somebody may look, the right ones in the end."""
    y = call.array("y")
    right = y.copy()

    def write() -> None:
        _count(y, SECONDS)
        y[...] = right

    y[...] = 3
    threading.Thread(target=write).start()


@fault("unfinished", "failed")
def writes_on_in_a_child(call):
    if os.fork() == 0:
        _count(call.array("y"), 0.5)
        os._exit(0)


_START = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_KEPT = []


@fault("unfinished", "failed")
def writes_on_in_a_thread_of_c(call):
    """Python does not know the thread."""
    y = call.array("y")

    def write(_):
        _count(y, 0.15)

    _KEPT.append(_START(write))
    assert ctypes.CDLL(None).pthread_create(ctypes.byref(ctypes.c_ulong()), None, _KEPT[-1], None) == 0
