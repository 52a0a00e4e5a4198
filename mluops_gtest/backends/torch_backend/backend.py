"""torch as a backend: own checks, own algorithms, on the processor or on any accelerator that torch knows."""

import importlib
import os
from functools import partial

from mluops_gtest.backends.torch_backend.checks import REFUSALS
from mluops_gtest.backends.torch_backend.devices import Device, load_torch, open_device
from mluops_gtest.model.call import Declined, OpCall
from mluops_gtest.model.status import Status


class TorchBackend:
    """All five operators with torch operations; `device` is cpu, or e.g. cuda or cuda:1."""

    def __init__(self, device: str = "cpu") -> None:
        self._torch = load_torch()
        self._word = device
        number = os.environ.get("MLUOPS_TEST_DEVICE", "")
        self._number = int(number) if number.isdecimal() else None
        self._devices: dict[int | None, Device] = {}
        self._device(None)
        self.name = "torch" if device == "cpu" else f"torch:{device}"
        # The modules of the operators import torch, so they are loaded only now.
        self._compute = {name: importlib.import_module(f"{__package__}.{name}").compute for name in REFUSALS}
        self._seconds: float | None = None

    def supports(self, operator: str) -> bool:
        """The five operators."""
        return operator in REFUSALS

    def run(self, call: OpCall) -> Status:
        """Answer by the checks; compute and write the outputs where none answers."""
        self._seconds = None
        if call.operator not in REFUSALS:
            raise Declined(f"torch has no {call.operator}; it has {', '.join(REFUSALS)}")
        refusal = REFUSALS[call.operator](call)
        if refusal is None:
            self._run(call)
            return Status.SUCCESS
        if refusal is Status.SUCCESS and call.operator == "get_indice_pairs":
            call.scalars["num_act_out"] = 0
        return refusal

    def healthy(self) -> bool:
        """The device still computes."""
        return self._device(None).answers()

    def device_seconds(self) -> float | None:
        """What the last call took on the device, without copies; None if it computed nothing."""
        return self._seconds

    def _run(self, call: OpCall) -> None:
        device = self._device(call.device)
        with self._torch.inference_mode():
            inputs, outputs = (
                {name: device.upload(arg) for name, arg in args.items() if arg is not None}
                for args in (call.inputs, call.outputs)
            )
            self._seconds = device.seconds(partial(self._compute[call.operator], call, inputs, outputs))
            for name, tensor in outputs.items():
                device.download(tensor, call.array(name))

    def _device(self, number: int | None) -> Device:
        """The device of that number, where the backend's word leaves the number open."""
        if number not in self._devices:
            self._devices[number] = open_device(self._torch, self._word, self._number if number is None else number)
        return self._devices[number]
