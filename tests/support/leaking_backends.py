"""Right backends that keep memory."""

import numpy as np

from tests.support.crashing_backends import VICTIM
from tests.support.wrong_backends import Exact


def keeping(keep):
    """A backend that does this before each call: `keep` gets what it has kept so far, by keys, and the call."""

    class Keeping(Exact):
        def __init__(self):
            super().__init__()
            self.kept = {}

        def run(self, call):
            keep(self.kept, call)
            return super().run(call)

    return Keeping


def megabytes(count):
    # Nobody writes there, which costs less and is lost all the same.
    return bytearray(count * 1_000_000)


def inputs_of(call):
    return tuple(arg.array.tobytes() for arg in call.inputs.values() if arg is not None and arg.array is not None)


# 24 MB in every call.
Leaks = keeping(lambda kept, call: kept.update({len(kept): megabytes(24)}))
LeaksWhatItWrote = keeping(lambda kept, call: kept.update({len(kept): np.ones(24_000_000, np.uint8)}))
LeaksInOneOperator = keeping(lambda kept, call: kept.update({len(kept): megabytes(24 * (call.operator == VICTIM))}))
# 200 MB in the third call, which needs it first.
CachesOnce = keeping(lambda kept, call: kept.update({len(kept): megabytes(200 * (len(kept) == 2))}))
# A pool that grows with every call, up to its size.
CachesLazily = keeping(lambda kept, call: len(kept) < 6 and kept.update({len(kept): megabytes(30)}))
# Plans for the inputs that it has seen: another one for each case, none for a case that comes again.
CachesByInput = keeping(lambda kept, call: kept.setdefault(hash(inputs_of(call)), megabytes(24)))
