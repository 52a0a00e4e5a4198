"""Backends whose calls return before they have finished, on the victim's cases; `Isolated` has written by then."""

import ctypes
import os
import threading
import time

from tests.support.crashing_backends import Isolated

# Shorter than threads are given to end, longer than an answer takes on a busy machine.
SECONDS = 0.12


class Unfinished(Isolated):
    def misbehave(self, call):
        ((_, tensor),) = call.outputs.items()
        if tensor is not None and tensor.array is not None:
            self.leave(tensor.array)

    def leave(self, array):
        """Go on in some way."""


class FinishesLater(Unfinished):
    """As without the synchronisation in the end: what the caller finds is not written yet."""

    def leave(self, array):
        right = array.copy()
        array[...] = 7

        def finish():
            time.sleep(SECONDS)
            array[...] = right

        threading.Thread(target=finish).start()


class CountsInAThread(Unfinished):
    """A C library that starts a thread and forgets to wait for it: outputs change while somebody looks."""

    def leave(self, array):
        library = ctypes.CDLL(os.environ["UNFINISHED_LIBRARY"])
        assert library.count_in_a_thread(ctypes.c_void_p(array.ctypes.data), ctypes.c_long(array.nbytes)) == 0


class SpoilsAfterwards(Unfinished):
    """Right when the call returns, and wrong a little later."""

    def leave(self, array):
        def spoil():
            time.sleep(SECONDS)
            array[...] = 7

        threading.Thread(target=spoil).start()


class CountsInAChild(Unfinished):
    """Longer than the answer of the call takes on a busy machine."""

    def leave(self, array):
        if os.fork() == 0:
            end, number = time.monotonic() + 0.5, 0
            while time.monotonic() < end:
                array[...] = number = number + 1
            os._exit(0)
