"""Backends that are wrong in one way each; the harness is proved by what it says of them.

Every class wraps the reference, so that nothing but the one mistake differs.
"""

import ctypes
from pathlib import Path

import numpy as np

from mluops_gtest import Declined, OpCall, Status
from mluops_gtest.backends.numpy_backend import ReferenceBackend
from mluops_gtest.catalog.operators import load_operators

OPERATORS = load_operators(Path(__file__).parents[2])


class Exact:
    """Right in every way."""

    def __init__(self):
        self.name = type(self).__name__
        self.reference = ReferenceBackend(OPERATORS)

    def run(self, call: OpCall) -> Status:
        status = self.reference.run(call)
        written = [arg.array for arg in call.outputs.values() if arg is not None and arg.array is not None]
        if OPERATORS[call.operator].answer(call).computes:
            self.spoil(call, [array for array in written if array.size])
        return status

    def spoil(self, call: OpCall, outputs: list[np.ndarray]) -> None:
        """The one mistake, on a call that computes."""


class OneUlpOff(Exact):
    def spoil(self, call, outputs):
        for array in outputs:
            if array.dtype.kind == "f":
                array.reshape(-1)[0] = np.nextafter(array.reshape(-1)[0], array.dtype.type(np.inf))


class OneElementOfManyOff(Exact):
    """By half, but so few that the norms of a large output do not see it."""

    def spoil(self, call, outputs):
        for array in outputs:
            if array.dtype.kind == "f":
                flat = array.reshape(-1)
                flat[np.flatnonzero(flat)[-1]] *= 1.5


class SumsInHalf(Exact):
    """And says so."""

    def __init__(self):
        super().__init__()
        self.precision = {"voxel_pooling_forward": "half"}

    def spoil(self, call, outputs):
        for array in outputs:
            if array.dtype.kind == "f":
                array[...] = array.astype(np.float16)


class HalfInHalf(Exact):
    """Right: products and sums of half data are rounded to half."""

    def spoil(self, call, outputs):
        if call.tensor("output").dtype.value == "half":
            call.array("output")[...] = self.interpolated(call)

    def interpolated(self, call):
        total = np.zeros(call.tensor("output").dims, np.float16)
        for term in self.terms(call):
            total = total + term
        return total

    def terms(self, call):
        """Three terms of every element, in half."""
        features, indices, weights = (call.array(name) for name in ("features", "indices", "weights"))
        chosen = [np.take_along_axis(features, which[:, None], axis=2) for which in np.moveaxis(indices, 2, 0)]
        return np.stack(chosen).astype(np.float16) * np.moveaxis(weights, 2, 0)[:, :, None].astype(np.float16)


class HalfInHalfTermLost(HalfInHalf):
    """And one term: a small one, which the norms do not see, and a fiftieth of the terms of its element."""

    def terms(self, call):
        terms = super().terms(call)
        sizes = np.abs(terms)
        terms.flat[np.where(sizes > sizes.sum(axis=0) / 50, sizes, np.inf).argmin()] = 0
        return terms


class HalfDeclaredFloat(HalfInHalf):
    """And declares otherwise."""

    def __init__(self):
        super().__init__()
        self.precision = {"three_interpolate_forward": {"half": "float"}}


class HalfOnAllData(HalfInHalf):
    """And declares it of half data alone."""

    def __init__(self):
        super().__init__()
        self.precision = {"three_interpolate_forward": {"half": "half"}}

    def spoil(self, call, outputs):
        call.array("output")[...] = self.interpolated(call)


class Transposed(Exact):
    def spoil(self, call, outputs):
        for array in outputs:
            flat = array.reshape(-1)
            flat[...] = flat[::-1].copy()


class AllZero(Exact):
    def spoil(self, call, outputs):
        for array in outputs:
            array[...] = 0


class WithNan(Exact):
    def spoil(self, call, outputs):
        for array in outputs:
            if array.dtype.kind == "f":
                array.reshape(-1)[-1] = np.nan


class WithInfinity(Exact):
    def spoil(self, call, outputs):
        for array in outputs:
            if array.dtype.kind == "f":
                array.reshape(-1)[-1] = np.inf


class WithInfinityAndZeros(Exact):
    def spoil(self, call, outputs):
        for array in outputs:
            if array.dtype.kind == "f":
                array.reshape(-1)[:-1] = 0
                array.reshape(-1)[-1] = np.inf


class OneElementWrong(Exact):
    def spoil(self, call, outputs):
        flat = outputs[0].reshape(-1)
        flat[flat.size // 2] += 1


class RoundsAndOneWrong(Exact):
    """Rounds every element, which is allowed, and gets a single one thoroughly wrong."""

    def spoil(self, call, outputs):
        flat = outputs[0].reshape(-1)
        flat *= flat.dtype.type(1 + 1e-5)
        flat[flat.size // 2] += flat.dtype.type(1000)


class LeavesOneUnwritten(Exact):
    def spoil(self, call, outputs):
        array = outputs[0]
        bits = {2: 0x7EA5, 4: 0x7FA5A5A5 if array.dtype.kind == "f" else 0xA5A5A5A5}[array.itemsize]
        array.reshape(-1).view(f"u{array.itemsize}")[-1] = bits


class WritesPastTheEnd(Exact):
    def spoil(self, call, outputs):
        ctypes.memset(outputs[0].ctypes.data + outputs[0].nbytes, 0, 1)


class WritesFarPastTheEnd(Exact):
    """Beyond the guard zone of the last buffer, into memory that an earlier case may have used."""

    def spoil(self, call, outputs):
        ctypes.memset(outputs[-1].ctypes.data + outputs[-1].nbytes + 49_999, 0, 1)


class WritesBeforeTheStart(Exact):
    def spoil(self, call, outputs):
        ctypes.memset(outputs[0].ctypes.data - 4, 0, 4)


class ChangesAnInput(Exact):
    def spoil(self, call, outputs):
        array = next(arg.array for arg in call.inputs.values() if arg.array.size)
        array.reshape(-1).view(np.uint8)[0] ^= 1


class OverrunsWorkspace(Exact):
    def workspace_size(self, call):
        return 100

    def spoil(self, call, outputs):
        ctypes.memset(call.workspace.ctypes.data + call.workspace_size, 0, 1)


class AsksNegativeWorkspace(Exact):
    def workspace_size(self, call):
        return -1


class WrongStatus(Exact):
    def run(self, call):
        status = super().run(call)
        return Status.NOT_SUPPORTED if status == Status.SUCCESS else Status.SUCCESS


class ReturnsNonsense(Exact):
    def run(self, call):
        super().run(call)
        return "fine"


class LeavesOutputUntouched(Exact):
    def run(self, call):
        return OPERATORS[call.operator].answer(call).status


class WritesOnFailure(Exact):
    """Right where it computes, but scribbles into an output although it answers with a failure."""

    def run(self, call):
        status = self.reference.run(call)
        if not OPERATORS[call.operator].answer(call).computes:
            for arg in call.outputs.values():
                if arg is not None and arg.array is not None and arg.array.size:
                    arg.array[...] = 1
        return status


class WritesBetweenTheRows(Exact):
    """Refuses a strided output, but scribbles into the gaps between its elements."""

    def run(self, call):
        for arg in call.outputs.values():
            if arg is not None and arg.array is not None and arg.desc.is_strided:
                flat = np.lib.stride_tricks.as_strided(arg.array, (arg.desc.extent,), (arg.dtype.itemsize,))
                used = np.zeros(arg.desc.extent, bool)
                arg.desc.view(used)[...] = True
                flat[~used] = 1
        return self.reference.run(call)


class ReportsAnAbsurdCount(Exact):
    def run(self, call):
        status = super().run(call)
        for name in call.scalars:
            call.scalars[name] = 10**400
        return status


class Declines(Exact):
    def run(self, call):
        raise Declined("not on Mondays")


class SupportsNothing(Exact):
    def supports(self, operator):
        return False


class Raises(Exact):
    def run(self, call):
        raise ZeroDivisionError("in my kernel")


class NeedsTooMuch(Exact):
    def run(self, call):
        raise MemoryError("no NRAM left")


class NeverTheSame(Exact):
    """Differs from run to run, within the thresholds of diff1 and diff2."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def spoil(self, call, outputs):
        self.calls += 1
        for array in outputs:
            if array.dtype.kind == "f":
                flat = array.reshape(-1)
                for _ in range(self.calls % 2):
                    flat[0] = np.nextafter(flat[0], flat.dtype.type(np.inf))


class WrongAtFirst(Exact):
    """Wrong in the first call of the process, right from then on."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def spoil(self, call, outputs):
        self.calls += 1
        if self.calls == 1:
            for array in outputs:
                array[...] = 0


class LosesBits(Exact):
    """−0 becomes +0: equal in value, not in bits."""

    def spoil(self, call, outputs):
        for array in outputs:
            if array.dtype.kind == "f":
                array[array == 0] = 0


class ForgetsScalars(Exact):
    def run(self, call):
        status = super().run(call)
        call.scalars.clear()
        return status


class WrongScalars(Exact):
    def run(self, call):
        status = super().run(call)
        for name in call.scalars:
            call.scalars[name] += 1
        return status


class NoName:
    def run(self, call):
        return Status.SUCCESS


def broken_factory():
    raise RuntimeError("no device")


not_a_backend = 42
