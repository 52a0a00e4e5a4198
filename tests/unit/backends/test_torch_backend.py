"""The torch backend: devices, the operators' checks and kernels, memory of its own on an accelerator."""

import contextlib
import dataclasses
import importlib
import subprocess
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest

from mluops_gtest.authoring import call_of
from mluops_gtest.backends.numpy_backend import Accelerator, Device, TorchBackend, open_device, present_devices
from mluops_gtest.base.errors import BackendError, ExitCode
from mluops_gtest.catalog.operators import Operators
from mluops_gtest.core.call import Declined, OpCall, Status
from mluops_gtest.core.tensor import Layout
from tests.support.torch_needed import needs_torch


def import_by(monkeypatch, name, act):
    """Let `act` be what an import of that module does."""
    real = importlib.import_module
    monkeypatch.setattr(importlib, "import_module", lambda word, *more: act() if word == name else real(word, *more))


@pytest.mark.parametrize(
    "error", [ModuleNotFoundError("No module named 'torch'"), OSError("libtorch_cpu.so: cannot open shared object")]
)
def test_a_torch_that_does_not_load_is_told_with_the_command_that_installs_it(monkeypatch, error):
    import_by(monkeypatch, "torch", Mock(side_effect=error))
    with pytest.raises(BackendError, match=r"pip install 'mluops-test\[torch\]'") as caught:
        TorchBackend(Operators(()))
    assert str(error) in str(caught.value)
    assert caught.value.exit_code == ExitCode.BACKEND


def test_torch_is_imported_only_when_a_backend_is_made():
    program = "import sys, mluops_gtest.backends.numpy_backend; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


class Event:
    """An event of a device on which every piece of work takes 250 ms."""

    def __init__(self, enable_timing):
        assert enable_timing
        self.recorded = False

    def record(self):
        self.recorded = True

    def elapsed_time(self, end):
        assert self.recorded
        assert end.recorded
        return 250.0


class Runtime:
    """What torch.cuda offers, for `count` devices."""

    Event = Event

    def __init__(self, count):
        self.count = count
        self.synchronized = 0

    def is_available(self):
        return self.count > 0

    def device_count(self):
        return self.count

    def device(self, index):
        return contextlib.nullcontext(index)

    def synchronize(self):
        self.synchronized += 1


def torch_with(**counts):
    """A torch that knows these numbers of devices."""
    kinds = {kind: Runtime(count) for kind, count in counts.items()}
    return SimpleNamespace(device=lambda kind, index: f"{kind}:{index}", **kinds)


def test_present_devices():
    assert present_devices(torch_with()) == ["cpu"]
    assert present_devices(torch_with(cuda=2, xpu=0, mlu=1)) == ["cpu", "cuda:0", "cuda:1", "mlu:0"]


@pytest.mark.parametrize(
    ("word", "number", "message"),
    [
        ("cuda:2", None, "'cuda:2'"),
        ("cuda", 2, "'cuda:2'"),
        ("xpu", None, "'xpu:0'"),
        ("cuda:", None, "'cuda:'"),
        ("cuda:one", None, "'cuda:one'"),
        ("cpu:1", None, "'cpu:1'"),
        ("gpu", None, "'gpu'"),
        ("meta", None, "'meta'"),
        ("", None, "''"),
    ],
)
def test_a_device_that_is_not_there_is_told_with_those_that_are(word, number, message):
    with pytest.raises(BackendError, match=r"present: cpu, cuda:0, cuda:1\.") as caught:
        open_device(torch_with(cuda=2, xpu=0), word, number)
    assert f"no device {message} here" in str(caught.value)


def test_a_device_that_is_there():
    torch = torch_with(cuda=2)
    kinds = [type(open_device(torch, *words)) for words in (("cpu",), ("cpu", 1), ("cuda:1",), ("cuda", 1))]
    assert kinds == [Device, Device, Accelerator, Accelerator]


def test_mlu_devices_come_with_a_package_of_their_own(monkeypatch):
    torch = torch_with()
    assert present_devices(torch) == ["cpu"]
    import_by(monkeypatch, "torch_mlu", lambda: setattr(torch, "mlu", Runtime(1)))
    assert present_devices(torch) == ["cpu", "mlu:0"]


# With torch.


def im2col_call():
    feature = np.arange(1, 13, dtype="<f4").reshape(1, 1, 3, 4)
    masks = {"mask_h_idx": np.array([0, 2], "<i4"), "mask_w_idx": np.array([1, 3], "<i4")}
    params = {"kernel_h": 1, "kernel_w": 2, "pad_h": 0, "pad_w": 0}
    columns = np.full((2, 2), -1, "<f4")
    return call_of(
        "masked_im2col_forward",
        params,
        {"feature": feature, **masks},
        {"data_col": columns},
        layouts={"feature": Layout.NCHW},
    )


WINDOWS = [[2, 12], [3, 0]]


# To import torch takes seconds, in each process of the tests.
@pytest.mark.slow
class TestWithTorch:
    pytestmark = needs_torch

    def test_it_computes_and_tells_the_time(self, operators):
        backend, call = TorchBackend(operators), im2col_call()
        assert backend.name == "torch"
        assert backend.device_seconds() is None
        assert backend.run(call) is Status.SUCCESS
        assert call.array("data_col").tolist() == WINDOWS
        assert backend.device_seconds() > 0
        assert backend.run(dataclasses.replace(call, handle=None)) is Status.BAD_PARAM
        assert backend.device_seconds() is None
        assert backend.healthy()

    def test_it_declines_other_operators(self, operators):
        backend = TorchBackend(operators)
        assert not backend.supports("lgamma")
        assert {name for name in operators if not backend.supports(name)} == {"roiaware_pool3d_forward"}
        with pytest.raises(Declined, match="no torch kernel for lgamma"):
            backend.run(OpCall("lgamma", {}, {}, {}))

    def test_read_only_inputs_are_taken(self, operators):
        call = im2col_call()
        for arg in call.inputs.values():
            arg.array.flags.writeable = False
        assert TorchBackend(operators).run(call) is Status.SUCCESS
        assert call.array("data_col").tolist() == WINDOWS


class WithKernel(Operators):
    """The operators with this torch kernel instead of their own."""

    def __init__(self, operators, kernel):
        super().__init__(tuple(operators.values()))
        self.kernel = kernel

    def part(self, operator, part):
        return self.kernel


class OnAccelerator(TorchBackend):
    """The backend with its tensors behind copies, as on a device; the copies lie in host memory."""

    def __init__(self, operators, runtime):
        super().__init__(operators)
        device = Accelerator(self._torch, runtime, "cpu", 0)
        self._devices = {None: device, 3: device}


@pytest.mark.slow
class TestOnAnAccelerator:
    pytestmark = needs_torch

    def test_results_are_copied_back_and_events_tell_the_time(self, operators):
        runtime = Runtime(1)
        backend, call = OnAccelerator(operators, runtime), im2col_call()
        call = dataclasses.replace(call, device=3)
        assert backend.run(call) is Status.SUCCESS
        assert call.array("data_col").tolist() == WINDOWS
        assert backend.device_seconds() == 0.25
        assert runtime.synchronized == 1

    def test_inputs_are_copies_and_what_is_not_written_comes_back_as_it_was(self, operators):
        def kernel(call, inputs, outputs):
            inputs["feature"].zero_()
            outputs["data_col"][0].zero_()

        call = im2col_call()
        OnAccelerator(WithKernel(operators, kernel), Runtime(1)).run(call)
        assert call.array("feature").all()
        assert call.array("data_col").tolist() == [[0, 0], [-1, -1]]

    def test_a_lost_device_is_not_healthy(self, operators):
        backend = OnAccelerator(operators, Runtime(1))
        assert backend.healthy()
        backend._devices[None]._device = "no such device"
        assert not backend.healthy()

    def test_a_run_may_number_the_device_that_the_word_leaves_open(self, operators, monkeypatch):
        opened = []
        module = sys.modules["mluops_gtest.backends.numpy_backend"]
        monkeypatch.setattr(module, "open_device", lambda torch, *asked: opened.append(asked) or Device(torch))
        monkeypatch.setenv("MLUOPS_TEST_DEVICE", "1")
        backend = TorchBackend(operators, "cuda")
        assert backend.name == "torch:cuda"
        backend.healthy()
        backend.run(dataclasses.replace(im2col_call(), device=2))
        assert opened == [("cuda", 1), ("cuda", 2)]
