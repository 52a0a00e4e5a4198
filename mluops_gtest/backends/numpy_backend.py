"""Backends that run what stands on an operator's own page: its kernel (the default), its reference, its torch kernel.

torch gives a second opinion on values and times to compare with, on the processor or on any accelerator that it knows.
It is loaded only where its backend is opened.
"""

import contextlib
import importlib
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from mluops_gtest.base.errors import BackendError, OperatorError, repr_short
from mluops_gtest.core.buffers import baseline_of
from mluops_gtest.core.call import Declined, OpCall, Status, TensorArg
from mluops_gtest.core.case import DEVICE_VARIABLE
from mluops_gtest.core.operator import Operator, source_of
from mluops_gtest.core.operator_parts import TORCH_KERNEL, KnownOperators, TorchKernel
from mluops_gtest.core.tensor import Array, DType
from mluops_gtest.version import __version__


class _OwnBackend:
    """A backend of this package: every operator of the content root has a kernel and a reference."""

    version = f"mluops-test {__version__}"

    def __init__(self, operators: Mapping[str, Operator]) -> None:
        self._operators = operators

    def supports(self, operator: str) -> bool:
        """The operators of the content root."""
        return operator in self._operators


class NumpyBackend(_OwnBackend):
    """Runs `Operator.kernel`, an implementation that shares no algorithm with the reference."""

    name = "numpy"

    def workspace_size(self, call: OpCall) -> int:
        """What the kernel asks for."""
        ask = self._operator(call).workspace_size
        return 0 if ask is None else ask(call)

    def run(self, call: OpCall) -> Status:
        kernel = self._operator(call).kernel
        status = kernel(call)
        if not isinstance(status, Status):
            raise OperatorError(
                f"{source_of(kernel)}: the kernel of {call.operator} returns {repr_short(status)}. "
                "Let it return a Status."
            )
        return status

    def _operator(self, call: OpCall) -> Operator:
        if call.operator not in self._operators:
            raise Declined(f"no kernel for {call.operator}")
        return self._operators[call.operator]


class ReferenceBackend(_OwnBackend):
    """Proves the pipeline, and shows what a perfect backend looks like."""

    name = "reference"
    # A case without a stored baseline would compare this backend with itself.
    is_reference = True

    def run(self, call: OpCall) -> Status:
        """Answer by the ordered checks; write the reference's outputs where the operator computes."""
        if call.operator not in self._operators:
            raise Declined(f"no reference for {call.operator}")
        operator = self._operators[call.operator]
        early = operator.early_answer(call)
        if early is not None:
            return early
        baseline = baseline_of(operator, call)
        for name, values in baseline.outputs.items():
            call.array(name)[...] = values
        call.scalars.update(baseline.scalars)
        return Status.SUCCESS


# The kinds of torch devices with streams and events; each has a module torch.<kind>.
_ACCELERATORS: Final = ("cuda", "mlu", "xpu")


class Device:
    """A place to compute; this one is the processor, whose tensors are the caller's buffers themselves."""

    def __init__(self, torch: Any, device: Any = "cpu") -> None:
        self._torch, self._device = torch, device

    def upload(self, arg: TensorArg) -> Any:
        """The argument's elements as a torch tensor on the device; here it shares the buffer's memory."""
        return _shared(self._torch, arg)

    def download(self, tensor: Any, arg: TensorArg) -> None:
        """Bring the elements of an output into the caller's buffer; here the tensor is the buffer."""

    def seconds(self, work: Callable[[], None]) -> float:
        """How long the device takes for the work; here by the wall clock."""
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    def answers(self) -> bool:
        """A tiny computation comes out right; a device that is lost raises RuntimeError."""
        try:
            return bool((self._torch.ones(2, device=self._device) + 1).sum().item() == 4)
        except RuntimeError:
            return False


class Accelerator(Device):
    """A device behind torch.<kind>: tensors are copied, time is taken by events on its stream."""

    def __init__(self, torch: Any, runtime: Any, kind: str, index: int) -> None:
        super().__init__(torch, torch.device(kind, index))
        self._runtime, self._index = runtime, index

    def upload(self, arg: TensorArg) -> Any:
        """A copy. Outputs are copied, too: what the operator leaves unwritten comes back as it was."""
        return _shared(self._torch, arg).to(self._device, copy=True)

    def download(self, tensor: Any, arg: TensorArg) -> None:
        _shared(self._torch, arg).copy_(tensor)

    def seconds(self, work: Callable[[], None]) -> float:
        """Between two events around the work, copies excluded."""
        with self._runtime.device(self._index):
            start, end = (self._runtime.Event(enable_timing=True) for _ in range(2))
            start.record()
            work()
            end.record()
            self._runtime.synchronize()
        return float(start.elapsed_time(end)) / 1e3  # milliseconds


def load_torch() -> Any:
    """The module torch; a missing or broken one is told with the command that installs it."""
    try:
        return importlib.import_module("torch")
    except (ImportError, OSError) as error:  # OSError: a shared library of torch does not load
        raise BackendError(
            f"Backend 'torch' needs the package torch, which does not load: {error}. "
            "Install it with: pip install 'mluops-test[torch]'"
        ) from error


def open_device(torch: Any, word: str, number: int | None = None) -> Device:
    """The device called `word`, e.g. cpu, cuda, cuda:1; `number` counts where the word names no index."""
    kind, colon, index = word.partition(":")
    if word == "cpu":
        return Device(torch)
    runtime = _runtime(torch, kind)
    chosen = index if colon else str(number or 0)
    if runtime is None or not chosen.isdecimal() or int(chosen) >= runtime.device_count():
        full = f"{kind}:{chosen}" if kind in _ACCELERATORS else word
        raise BackendError(
            f"torch has no device {full!r} here; present: {', '.join(present_devices(torch))}. "
            "Use --backend torch for the processor, torch:DEVICE for one of the others."
        )
    return Accelerator(torch, runtime, kind, int(chosen))


def present_devices(torch: Any) -> list[str]:
    """The words of all devices that can be opened."""
    words = ["cpu"]
    for kind in _ACCELERATORS:
        runtime = _runtime(torch, kind)
        if runtime is not None:
            words += [f"{kind}:{index}" for index in range(runtime.device_count())]
    return words


def _runtime(torch: Any, kind: str) -> Any | None:
    if kind not in _ACCELERATORS:
        return None
    if kind == "mlu":
        with contextlib.suppress(ImportError, OSError):
            importlib.import_module("torch_mlu")  # adds torch.mlu
    runtime = getattr(torch, kind, None)
    return runtime if runtime is not None and runtime.is_available() else None


def _shared(torch: Any, arg: TensorArg) -> Any:
    array = arg.array
    if array is None:  # only an empty tensor may have a null pointer in a call that computes
        array = np.empty(arg.dims, arg.dtype.storage)
    # torch has no read-only tensors and warns of such arrays.
    return _tensor(torch, array if array.flags.writeable else array.copy(), arg.dtype)


def _tensor(torch: Any, array: Array, dtype: DType) -> Any:
    """The array as a tensor of that type, which numpy may not have."""
    if dtype is DType.BFLOAT16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


class TorchBackend:
    """Answers by each operator's checks and runs its torch kernel; `device` is cpu, or e.g. cuda or cuda:1."""

    def __init__(self, operators: KnownOperators, device: str = "cpu") -> None:
        self._torch = load_torch()
        self._operators = operators
        self._word = device
        number = os.environ.get(DEVICE_VARIABLE, "")
        self._number = int(number) if number.isdecimal() else None
        self._devices: dict[int | None, Device] = {}
        self._device(None)
        self.version = f"torch {self._torch.__version__}"
        self.name = "torch" if device == "cpu" else f"torch:{device}"
        self._seconds: float | None = None

    def supports(self, operator: str) -> bool:
        """The operators whose folder has a torch kernel."""
        return self._operators.part(operator, TORCH_KERNEL) is not None

    def run(self, call: OpCall) -> Status:
        """Answer by the checks; compute and write the outputs where none answers."""
        self._seconds = None
        kernel = self._operators.part(call.operator, TORCH_KERNEL)
        if kernel is None:
            raise Declined(f"no torch kernel for {call.operator}")
        early = self._operators[call.operator].early_answer(call)
        if early is not None:
            return early
        self._run(call, kernel)
        return Status.SUCCESS

    def run_empty(self, call: OpCall) -> None:
        """Copy everything to the device and back."""
        self._run(call, lambda *_: None)

    def healthy(self) -> bool:
        """The device still computes."""
        return self._device(None).answers()

    def device_seconds(self) -> float | None:
        """What the last call took on the device, without copies; None if it computed nothing."""
        return self._seconds

    def _run(self, call: OpCall, kernel: TorchKernel) -> None:
        device = self._device(call.device)
        with self._torch.inference_mode():
            inputs, outputs = (
                {name: device.upload(arg) for name, arg in args.items() if arg is not None}
                for args in (call.inputs, call.outputs)
            )
            self._seconds = device.seconds(partial(kernel, call, inputs, outputs))
            for name, tensor in outputs.items():
                device.download(tensor, call.tensor(name))

    def _device(self, number: int | None) -> Device:
        """The device of that number, where the backend's word leaves the number open."""
        if number not in self._devices:
            self._devices[number] = open_device(self._torch, self._word, self._number if number is None else number)
        return self._devices[number]
