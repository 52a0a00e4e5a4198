"""The device runtime: memory, queue and time of one device."""

from ctypes import byref, c_float, c_void_p
from enum import IntEnum
from typing import Any

from mluops_gtest.backends.c_library.api import NOTIFIERS, RUNTIME, Refused, SharedLibrary
from mluops_gtest.backends.c_library.resources import Resources
from mluops_gtest.errors import BackendError
from mluops_gtest.model.dtypes import Array
from mluops_gtest.model.status import Status


class Direction(IntEnum):
    """cnrtMemTransDir_t, as far as the adapter copies."""

    HOST_TO_DEVICE = 0
    DEVICE_TO_HOST = 2


class Runtime:
    """Calls the cnrt functions of a library; what they make belongs to the call's resources."""

    def __init__(self, library: SharedLibrary) -> None:
        missing = library.lacking(RUNTIME)
        if missing:
            raise BackendError(
                f"The runtime {library.name} does not export {', '.join(missing)}. A runtime offers all of "
                f"{', '.join(RUNTIME)}; a library without any of them works on host memory."
            )
        self.has_notifiers = not library.lacking(NOTIFIERS)
        offered = {**RUNTIME, **(NOTIFIERS if self.has_notifiers else {})}
        self._functions = {name: library.bind(name, types) for name, types in offered.items()}

    @staticmethod
    def within(library: SharedLibrary) -> "Runtime | None":
        """The runtime of the library itself or of one that it depends on; None where there is no trace of one."""
        return Runtime(library) if len(library.lacking(RUNTIME)) < len(RUNTIME) else None

    def set_device(self, device: int) -> None:
        """What follows happens on that device."""
        self._call("cnrtSetDevice", device)

    def queue(self, resources: Resources) -> int:
        """A queue of the device."""
        queue = self._make("cnrtQueueCreate")
        resources.own("queue", lambda: self._call("cnrtQueueDestroy", queue))
        return queue

    def sync(self, queue: int) -> None:
        """Wait until the queue is empty; what went wrong in a kernel is told here."""
        self._call("cnrtQueueSync", queue)

    def memory(self, size: int, resources: Resources) -> int:
        """The address of `size` bytes on the device."""
        address = self._make("cnrtMalloc", size)
        resources.own("device buffer", lambda: self._call("cnrtFree", address))
        return address

    def write(self, address: int, data: Array) -> None:
        """Copy contiguous bytes of the host to the device."""
        if data.size:
            self._call("cnrtMemcpy", address, data.ctypes.data, data.nbytes, Direction.HOST_TO_DEVICE)

    def read(self, data: Array, address: int) -> None:
        """Fill contiguous bytes of the host from the device."""
        if data.size:
            self._call("cnrtMemcpy", data.ctypes.data, address, data.nbytes, Direction.DEVICE_TO_HOST)

    def notifier(self, resources: Resources) -> int:
        """A mark to be placed in a queue; only where `has_notifiers`."""
        notifier = self._make("cnrtNotifierCreate")
        resources.own("notifier", lambda: self._call("cnrtNotifierDestroy", notifier))
        return notifier

    def place(self, notifier: int, queue: int) -> None:
        """The mark takes the time when the queue comes to this point."""
        self._call("cnrtPlaceNotifier", notifier, queue)

    def seconds_between(self, start: int, end: int) -> float:
        """Device time between two marks that were reached."""
        self._call("cnrtWaitNotifier", end)
        microseconds = c_float()
        self._call("cnrtNotifierDuration", start, end, byref(microseconds))
        return microseconds.value * 1e-6

    def _make(self, name: str, *arguments: Any) -> int:
        made = c_void_p()
        self._call(name, byref(made), *arguments)
        if made.value is None:
            raise Refused(Status.ALLOC_FAILED, f"{name} answered 0 and made nothing")
        return made.value

    def _call(self, name: str, *arguments: Any) -> None:
        code = self._functions[name](*arguments)
        if code:
            # The runtime has error numbers of its own; the status is the API's word for what they mean to a caller.
            status = Status.ALLOC_FAILED if name == "cnrtMalloc" else Status.EXECUTION_FAILED
            raise Refused(status, f"{name} answered {code}")
