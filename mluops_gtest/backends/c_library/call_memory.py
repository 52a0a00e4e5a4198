"""Where a call's data lies: in the harness's own buffers, or between guard zones on a device."""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Protocol

import numpy as np

from mluops_gtest.backends.c_library.resources import Resources
from mluops_gtest.backends.c_library.runtime import Runtime
from mluops_gtest.model.cause import Cause, Overrun, PageWritten
from mluops_gtest.model.dtypes import Array
from mluops_gtest.model.guard_zone import GUARD_BYTES, GUARD_PATTERN
from mluops_gtest.value import Value

_GUARD = np.full(GUARD_BYTES, GUARD_PATTERN, np.uint8)
# What stands behind a pointer that must not be followed: a tensor of 2^31 elements exists as a descriptor only.
PAGE_BYTES = 4096
_PAGE = np.full(PAGE_BYTES, 0xA5, np.uint8)
# Inputs come back in pieces, so that comparing them costs no second copy of a network's tensors.
_PIECE_BYTES = 1 << 24


class Role(Enum):
    """What the operator may do with a block."""

    INPUT = "input"
    OUTPUT = "output"
    WORKSPACE = "workspace"
    PAGE = "page"


class CallMemory(Protocol):
    """Takes the blocks of one call, lets the operator work on them and tells what it did to them."""

    # The queue of the handle; None is the null queue.
    queue: int | None
    # How the time was taken, where that needs saying.
    remark: str

    def put(self, name: str, data: Array, role: Role) -> int:
        """The address that the operator gets for these bytes."""

    def page(self, name: str) -> int:
        """An address that is not null and must not be followed."""

    def execute(self, operate: Callable[[], int]) -> tuple[int, float | None]:
        """Call the operator and wait for it; its answer, and the device's seconds where a device measures them."""

    def collect(self) -> list[Cause]:
        """Bring the outputs back; forbidden writes in words."""


class HostMemory:
    """No runtime: the operator works on the harness's own buffers, which the harness guards and compares."""

    queue: int | None = None
    remark = "no runtime: host memory, null queue, time by the wall clock"

    def __init__(self) -> None:
        self._pages: dict[str, Array] = {}

    def put(self, name: str, data: Array, role: Role) -> int:  # noqa: ARG002
        """The buffer's own address."""
        return int(data.ctypes.data)

    def page(self, name: str) -> int:
        self._pages[name] = _PAGE.copy()
        return int(self._pages[name].ctypes.data)

    def execute(self, operate: Callable[[], int]) -> tuple[int, float | None]:
        """The answer; no device, no device time."""
        return operate(), None

    def collect(self) -> list[Cause]:
        """Writes into pages; all else the harness finds itself."""
        return [PageWritten(name) for name, page in self._pages.items() if not np.array_equal(page, _PAGE)]


class _Block(Value):
    name: str
    address: int
    data: Array
    role: Role


class DeviceMemory:
    """A device: every block lies between guard zones of its own, and comes back after the call."""

    def __init__(self, runtime: Runtime, resources: Resources, device: int | None) -> None:
        self._runtime = runtime
        self._resources = resources
        if device is not None:
            runtime.set_device(device)
        self._queue = runtime.queue(resources)
        self.queue: int | None = self._queue
        self.remark = "" if runtime.has_notifiers else "no notifiers: time by the wall clock"
        self._blocks: list[_Block] = []

    def put(self, name: str, data: Array, role: Role) -> int:
        """The device address of a copy of these bytes, between guard zones."""
        start = self._runtime.memory(2 * GUARD_BYTES + data.nbytes, self._resources)
        address = start + GUARD_BYTES
        self._runtime.write(start, _GUARD)
        self._runtime.write(address, data)
        self._runtime.write(address + data.nbytes, _GUARD)
        self._blocks.append(_Block(name, address, data, role))
        return address

    def page(self, name: str) -> int:
        return self.put(name, _PAGE, Role.PAGE)

    def execute(self, operate: Callable[[], int]) -> tuple[int, float | None]:
        """The answer, and the seconds between two notifiers around the call."""
        runtime, queue = self._runtime, self._queue
        if not runtime.has_notifiers:
            code = operate()
            runtime.sync(queue)
            return code, None
        first, last = runtime.notifier(self._resources), runtime.notifier(self._resources)
        runtime.place(first, queue)
        code = operate()
        runtime.place(last, queue)
        runtime.sync(queue)
        return code, runtime.seconds_between(first, last)

    def collect(self) -> list[Cause]:
        """Guard zones and pages compared on the host; outputs and changed inputs copied into the harness's buffers."""
        found: list[Cause] = [overrun for block in self._blocks for overrun in self._overruns(block)]
        for block in self._blocks:
            if block.role is Role.OUTPUT:
                self._runtime.read(block.data, block.address)
            elif block.role is not Role.WORKSPACE and self._has_changed(block):
                if block.role is Role.PAGE:
                    found.append(PageWritten(block.name))
                else:
                    # The harness compares its inputs: it knows what the operator may make of them.
                    self._runtime.read(block.data, block.address)
        return found

    def _overruns(self, block: _Block) -> Iterator[Cause]:
        zone = np.empty(GUARD_BYTES, np.uint8)
        self._runtime.read(zone, block.address + block.data.nbytes)
        touched = np.flatnonzero(zone != GUARD_PATTERN)
        if touched.size:
            yield Overrun(block.name, "behind", int(touched[0]) + 1)
            return
        self._runtime.read(zone, block.address - GUARD_BYTES)
        touched = np.flatnonzero(zone != GUARD_PATTERN)
        if touched.size:
            yield Overrun(block.name, "in front", GUARD_BYTES - int(touched[-1]))

    def _has_changed(self, block: _Block) -> bool:
        size = block.data.nbytes
        piece = np.empty(min(size, _PIECE_BYTES), np.uint8)
        for start in range(0, size, _PIECE_BYTES):
            now = piece[: min(_PIECE_BYTES, size - start)]
            self._runtime.read(now, block.address + start)
            before = block.data[start : start + now.size]
            if not np.array_equal(now, before):
                return True
        return False
