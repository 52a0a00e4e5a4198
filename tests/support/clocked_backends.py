"""Backends whose device time is a fixed story, so that no test depends on how fast the machine is."""

import itertools
import time

from mluops_gtest import Status
from tests.support.wrong_backends import Exact


class Clocked(Exact):
    """Always right; says 100 µs with a little noise, the same for every run."""

    scale = 1.0
    noise = (1.0, 1.004, 0.997, 1.002, 0.999)

    def __init__(self):
        super().__init__()
        self.times = itertools.cycle(self.noise)

    def device_seconds(self):
        return 100e-6 * self.scale * next(self.times)


class Twin(Clocked):
    noise = (0.998, 1.003, 1.001, 0.996, 1.002)


class TenPercentSlower(Clocked):
    scale = 1.1


class TwiceAsFast(Clocked):
    scale = 0.5


class Noisy(Clocked):
    noise = (0.5, 1.4, 0.8, 1.9, 1.1, 0.7)


class AsksForWorkspace(Clocked):
    def workspace_size(self, call):
        return 4096


class TellsNonsenseLater(Clocked):
    calls = 0

    def device_seconds(self):
        self.calls += 1
        return super().device_seconds() if self.calls < 4 else float("nan")


class LongWay(Exact):
    """Tells no device time; the way to its kernel takes far longer than the kernel."""

    def run_empty(self, call):
        time.sleep(0.05)


class LostOnTheWay(Exact):
    def run_empty(self, call):
        raise OSError("no way")


class SpoilsTheFourthCall(Clocked):
    """State that survives a call: right when judged alone, wrong when timed."""

    calls = 0

    def spoil(self, call, outputs):
        self.calls += 1
        if self.calls >= 4:
            outputs[0].reshape(-1)[0] += 1


class DoesTheWorkOnce(Clocked):
    """Keeps the first answer and writes nothing from the third call on."""

    calls = 0

    def run(self, call):
        self.calls += 1
        return super().run(call) if self.calls <= 2 else Status.SUCCESS


class ChangesAnInputLater(Clocked):
    calls = 0

    def spoil(self, call, outputs):
        self.calls += 1
        if self.calls == 4:
            array = next(arg.array for arg in call.inputs.values() if arg.array.size)
            array.reshape(-1).view("u1")[0] ^= 1


class DiesWhenTimed(Clocked):
    calls = 0

    def spoil(self, call, outputs):
        self.calls += 1
        if self.calls == 4:
            raise MemoryError("leaked")
