"""Backends that keep no subnormal float32: right for every operator that computes, as a device may flush them."""

from pathlib import Path

import numpy as np
from msgspec.structs import replace

from mluops_gtest import OpCall, Status
from mluops_gtest.authoring.roundings import flushed
from mluops_gtest.backends.numpy_backend import NumpyBackend
from mluops_gtest.catalog.operators import load_operators
from mluops_gtest.core.call import TensorArg

OPERATORS = load_operators(Path(__file__).parents[2])


def _is_float(tensor: TensorArg | None) -> bool:
    return tensor is not None and tensor.array is not None and tensor.array.dtype == np.float32


class FlushesResults(NumpyBackend):
    """The numpy backend, whose subnormal results become 0."""

    name = "flushes results"

    def __init__(self) -> None:
        super().__init__(OPERATORS)

    def run(self, call: OpCall) -> Status:
        status = super().run(call)
        if OPERATORS[call.operator].answer(call).computes:
            for tensor in call.outputs.values():
                if _is_float(tensor):
                    tensor.array[...] = flushed(tensor.array)
        return status


class FlushesAll(FlushesResults):
    """It reads subnormal numbers as 0 as well."""

    name = "flushes all"

    def run(self, call: OpCall) -> Status:
        inputs = {
            name: replace(tensor, array=flushed(tensor.array)) if _is_float(tensor) else tensor
            for name, tensor in call.inputs.items()
        }
        return super().run(replace(call, inputs=inputs))
