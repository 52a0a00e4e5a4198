"""Backends whose answers depend on how many threads their libraries are told to use."""

import os

import numpy as np

from tests.support.wrong_backends import Exact

VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def threads():
    """What all of them say."""
    (told,) = {os.environ[name] for name in VARIABLES}
    return int(told)


class WrongWithTwoThreads(Exact):
    def spoil(self, call, outputs):
        if threads() == 2:
            outputs[0].reshape(-1)[0] += 1


class OtherBitsWithOneThread(Exact):
    """The next number above: within the bound of sums that round."""

    def spoil(self, call, outputs):
        if threads() == 1:
            flat = outputs[0].reshape(-1)
            flat[0] = np.nextafter(flat[0], np.float32(np.inf))
