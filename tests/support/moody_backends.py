"""Backends that are wrong only now and then; each counts its own calls per process."""

import os
import signal

from tests.support.wrong_backends import Exact


class FailsAtFirst(Exact):
    """Wrong on the first call of each case, right afterwards."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def spoil(self, call, outputs):
        key = tuple(array.tobytes() for array in outputs)
        if key not in self.seen:
            self.seen.add(key)
            outputs[0].reshape(-1)[0] += 1


class FailsAlways(Exact):
    def spoil(self, call, outputs):
        outputs[0].reshape(-1)[0] += 1


class DiesOnce(Exact):
    """Kills its process the first time that it computes; the file beside it remembers across processes."""

    def spoil(self, call, outputs):
        try:
            os.close(os.open("died-once", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)
