"""Right backends that keep memory."""

import numpy as np

from tests.support.wrong_backends import Exact


class Hoarder(Exact):
    name = "hoarder"

    def __init__(self):
        super().__init__()
        self.hoard = []
        self.calls = 0

    def run(self, call):
        self.calls += 1
        self.keep(call)
        return super().run(call)

    def keep(self, call):
        raise NotImplementedError


def megabytes(count):
    # Nobody writes there, which costs less and is lost all the same.
    return bytearray(count * 1_000_000)


class Leaks(Hoarder):
    """24 MB in every call."""

    def keep(self, call):
        self.hoard.append(megabytes(24))


class LeaksWhatItWrote(Hoarder):
    def keep(self, call):
        self.hoard.append(np.ones(24_000_000, np.uint8))


class LeaksInOneOperator(Leaks):
    def keep(self, call):
        if call.operator == "masked_im2col_forward":
            super().keep(call)


class CachesOnce(Hoarder):
    """200 MB in the first call that needs it."""

    def keep(self, call):
        if self.calls == 3:
            self.hoard.append(megabytes(200))


class CachesLazily(Hoarder):
    """A pool that grows with every call, up to its size."""

    def keep(self, call):
        if len(self.hoard) < 6:
            self.hoard.append(megabytes(30))


class CachesByInput(Hoarder):
    """Plans for the inputs that it has seen: another one for each case, none for a case that comes again."""

    def __init__(self):
        super().__init__()
        self.hoard = {}

    def keep(self, call):
        key = hash(
            tuple(arg.array.tobytes() for arg in call.inputs.values() if arg is not None and arg.array is not None)
        )
        self.hoard.setdefault(key, megabytes(24))
