"""Where torch computes: the processor, or an accelerator with memory and a clock of its own."""

import contextlib
import importlib
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

import numpy as np

from mluops_gtest.errors import BackendError
from mluops_gtest.model.call import TensorArg
from mluops_gtest.model.dtypes import Array

# The kinds of torch devices with streams and events; each has a module torch.<kind>.
_ACCELERATORS: Final = ("cuda", "mlu", "xpu")


class Device(Protocol):
    """What the backend asks of a place to compute."""

    def upload(self, arg: TensorArg) -> Any:
        """The argument's elements as a torch tensor on the device."""

    def download(self, tensor: Any, array: Array) -> None:
        """The elements of an output brought into the caller's buffer."""

    def seconds(self, work: Callable[[], None]) -> float:
        """How long the device takes for the work."""

    def answers(self) -> bool:
        """A tiny computation comes out right."""


class Host:
    """The processor; its tensors are the caller's buffers themselves."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def upload(self, arg: TensorArg) -> Any:
        """A tensor that shares the buffer's memory."""
        return _shared(self._torch, arg)

    def download(self, tensor: Any, array: Array) -> None:
        """Nothing to do: the tensor is the buffer."""

    def seconds(self, work: Callable[[], None]) -> float:
        """By the wall clock."""
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    def answers(self) -> bool:
        return _adds(self._torch, "cpu")


class Accelerator:
    """A device behind torch.<kind>: tensors are copied, time is taken by events on its stream."""

    def __init__(self, torch: Any, runtime: Any, kind: str, index: int) -> None:
        self._torch, self._runtime, self._index = torch, runtime, index
        self._device = torch.device(kind, index)

    def upload(self, arg: TensorArg) -> Any:
        """A copy. Outputs are copied, too: what the operator leaves unwritten comes back as it was."""
        return _shared(self._torch, arg).to(self._device, copy=True)

    def download(self, tensor: Any, array: Array) -> None:
        self._torch.from_numpy(array).copy_(tensor)

    def seconds(self, work: Callable[[], None]) -> float:
        """Between two events around the work, copies excluded."""
        with self._runtime.device(self._index):
            start, end = (self._runtime.Event(enable_timing=True) for _ in range(2))
            start.record()
            work()
            end.record()
            self._runtime.synchronize()
        return float(start.elapsed_time(end)) / 1e3  # milliseconds

    def answers(self) -> bool:
        """Add on the device; a device that is lost raises RuntimeError."""
        try:
            return _adds(self._torch, self._device)
        except RuntimeError:
            return False


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
        return Host(torch)
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
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _adds(torch: Any, device: Any) -> bool:
    return bool((torch.ones(2, device=device) + 1).sum().item() == 4)
