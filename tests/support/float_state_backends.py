"""Backends that change how their thread computes with floats, when they are loaded or in a call."""

import ctypes
import os

import numpy as np

from mluops_gtest import Status
from tests.support.crashing_backends import Isolated
from tests.support.wrong_backends import Exact

TINY = float(np.float32(1e-39))


def flushes():
    """Whether this thread takes subnormal float32 for 0."""
    return bool(np.multiply(np.float32(TINY), np.float32(1)) == 0)


class Flushing:
    """All its outputs are 0; whoever compares with flushed baselines finds them right."""

    name = "flushing"

    def __init__(self):
        self.library = ctypes.CDLL(os.environ["FLUSHING_LIBRARY"])
        self.library.half.restype = ctypes.c_float

    def run(self, call):
        half = self.library.half(ctypes.c_float(2 * TINY))
        call.notes.append(f"calls flush: {half == 0}")
        for tensor in call.outputs.values():
            tensor.array[...] = 0
        return Status.SUCCESS


class FlushesOnceCalled(Isolated):
    """The victim's calls load the library; innocent ones tell whether they met that."""

    def run(self, call):
        call.notes.append(f"flushes: {flushes()}, errors: {np.geterr()['over']}")
        return super().run(call)

    def misbehave(self, call):
        ctypes.CDLL(os.environ["FLUSHING_LIBRARY"])
        np.seterr(all="raise")


class RestoresItsErrors(Exact):
    """As many do: the errstate is set, and set back."""

    def run(self, call):
        before = np.seterr(all="ignore")
        try:
            return super().run(call)
        finally:
            np.seterr(**before)
