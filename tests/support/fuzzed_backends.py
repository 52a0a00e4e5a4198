"""Backends with one mistake each, which only some calls show: what fuzzing must find."""

import ctypes
from pathlib import Path

import numpy as np

from mluops_gtest.backends.numpy_backend import NumpyBackend
from mluops_gtest.catalog.operators import load_operators
from mluops_gtest.core.call import Status

_OPERATORS = load_operators(Path(__file__).parents[2])


class _Right(NumpyBackend):
    def __init__(self):
        super().__init__(_OPERATORS)


class Tail(_Right):
    """Computes no more than 64 points of each batch."""

    name = "tail"

    def run(self, call):
        status = super().run(call)
        output = call.outputs["output"]
        if status is Status.SUCCESS and output is not None and output.array is not None:
            output.array[:, :, 64:] = 0
        return status


class Lenient(_Right):
    """Forgets the check of one rank."""

    name = "lenient"

    def run(self, call):
        weights = call.inputs["weights"]
        if weights is not None and len(weights.dims) != 3:
            return Status.SUCCESS
        return super().run(call)


class Crashing(_Right):
    """Reads address 0 where there is one channel."""

    name = "crashing"

    def run(self, call):
        features = call.inputs["features"]
        if features is not None and features.array is not None and features.array.shape[1] == 1:
            ctypes.string_at(0)
        return super().run(call)


class Overrunning(_Right):
    """Writes one element behind the output where a batch has an odd number of points."""

    name = "overrunning"

    def run(self, call):
        status = super().run(call)
        output = call.outputs["output"]
        if status is Status.SUCCESS and output is not None and output.array is not None and output.dims[2] % 2:
            beyond = np.lib.stride_tricks.as_strided(output.array.reshape(-1), (output.array.size + 1,))
            beyond[-1] = 1
        return status


tail, lenient, crashing, overrunning = Tail(), Lenient(), Crashing(), Overrunning()
