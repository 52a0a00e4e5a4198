"""torch as a backend: a second opinion on values, on the processor or on any accelerator that torch knows."""

import os
from functools import partial

from mluops_gtest.backends.torch_backend.devices import Device, load_torch, open_device
from mluops_gtest.model.backend import DEVICE_VARIABLE
from mluops_gtest.model.call import Declined, OpCall
from mluops_gtest.model.parts import TORCH_KERNEL, KnownOperators, TorchKernel
from mluops_gtest.model.status import Status


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
                device.download(tensor, call.array(name))

    def _device(self, number: int | None) -> Device:
        """The device of that number, where the backend's word leaves the number open."""
        if number not in self._devices:
            self._devices[number] = open_device(self._torch, self._word, self._number if number is None else number)
        return self._devices[number]
