"""What a call needs of a C library besides its operator: the functions around it, and memory for its data.

The functions of the C API and of the device runtime have the types of their arguments here. What they make must be
given back, and is counted on both sides. Data lie in the harness's own buffers, or between guard zones on a device.
"""

import contextlib
import ctypes
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from ctypes import POINTER, byref, c_float, c_int, c_int64, c_size_t, c_void_p
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any, Final

import numpy as np

from mluops_gtest.base.errors import BackendError
from mluops_gtest.base.frozen import Value
from mluops_gtest.core.buffers import GUARD_BYTES, GUARD_PATTERN
from mluops_gtest.core.call import Status
from mluops_gtest.core.cause import Cause, Overrun, PageWritten
from mluops_gtest.core.tensor import Array

Function = Callable[..., int]


class SharedLibrary:
    """Loads `library`: a file if there is one of that path, else a name that the system's loader looks for."""

    def __init__(self, library: str | Path, *, visible: bool = False) -> None:
        path = Path(library)
        self.name = path.name
        # A bare name is no path to the loader, even where the file lies in the current folder.
        target = str(path.resolve()) if path.is_file() else str(library)
        try:
            self._library = ctypes.CDLL(target, ctypes.RTLD_GLOBAL if visible else ctypes.RTLD_LOCAL)
        except OSError as error:
            raise BackendError(
                f"The library {target} does not load: {error}. Give the path of a shared object, or a name that the "
                "loader finds (LD_LIBRARY_PATH, ldconfig)."
            ) from error

    def exports(self, name: str) -> bool:
        """The library, or one that it depends on, has this function."""
        return hasattr(self._library, name)

    def lacking(self, names: Iterable[str]) -> list[str]:
        """Those of the functions that are not there."""
        return [name for name in names if not self.exports(name)]

    def bind(self, name: str, types: Sequence[Any]) -> Function:
        """The function of that name with the types of its arguments; every one answers an int."""
        function = getattr(self._library, name)
        function.argtypes = list(types)
        function.restype = ctypes.c_int
        bound: Function = function
        return bound


Prototypes = Mapping[str, tuple[Any, ...]]

MADE: Final = POINTER(c_void_p)  # a handle or descriptor that the function makes
_INTS: Final = POINTER(c_int)
_LONGS: Final = POINTER(c_int64)

# Without these no operator can be called.
CORE: Final[Prototypes] = {
    "mluOpCreate": (MADE,),
    "mluOpDestroy": (c_void_p,),
    "mluOpSetQueue": (c_void_p, c_void_p),
    "mluOpCreateTensorDescriptor": (MADE,),
    "mluOpDestroyTensorDescriptor": (c_void_p,),
    "mluOpSetTensorDescriptor_v2": (c_void_p, c_int, c_int, c_int, _LONGS),
    "mluOpSetTensorDescriptorEx_v2": (c_void_p, c_int, c_int, c_int, _LONGS, _LONGS),
}
# It answers nothing, and fills in three numbers.
VERSION: Final[Prototypes] = {"mluOpGetLibVersion": (_INTS, _INTS, _INTS)}
# Offered by libraries that can play another device than the one they run on.
HOOKS: Final[Prototypes] = {
    "mluOpTestSetArch": (c_void_p, c_int),
    "mluOpTestSetNramBytes": (c_void_p, c_int64),
}
RUNTIME: Final[Prototypes] = {
    "cnrtSetDevice": (c_int,),
    "cnrtQueueCreate": (MADE,),
    "cnrtQueueDestroy": (c_void_p,),
    "cnrtQueueSync": (c_void_p,),
    "cnrtMalloc": (MADE, c_size_t),
    "cnrtFree": (c_void_p,),
    "cnrtMemcpy": (c_void_p, c_void_p, c_size_t, c_int),
}
# A runtime without these is good enough: the wall clock times the call then.
NOTIFIERS: Final[Prototypes] = {
    "cnrtNotifierCreate": (MADE,),
    "cnrtNotifierDestroy": (c_void_p,),
    "cnrtPlaceNotifier": (c_void_p, c_void_p),
    "cnrtWaitNotifier": (c_void_p,),
    "cnrtNotifierDuration": (c_void_p, c_void_p, POINTER(c_float)),
}


class Refused(Exception):  # noqa: N818 - an answer of the library, not a fault of the adapter
    """A function around the operator did not answer success; `note` says which."""

    def __init__(self, status: Status, note: str) -> None:
        super().__init__(note)
        self.status = status
        self.note = note


def status_of(function: str, code: int) -> Status:
    """The number that a function of the library answered as a status."""
    try:
        return Status(code)
    except ValueError:
        raise ValueError(f"{function} answered {code}, which is not an mluOpStatus_t (0 to {max(Status):d})") from None


class Resources(contextlib.ExitStack):
    """Gives back in reverse order what was made within the `with` block, whatever happened there."""

    def __init__(self) -> None:
        super().__init__()
        # What the library refused to take back, in words.
        self.refusals: list[Refused] = []

    def own(self, kind: str, release: Callable[[], None]) -> None:
        """Something was made; `release` gives it back."""
        self.callback(self._give_back, kind, release)

    def _give_back(self, kind: str, release: Callable[[], None]) -> None:
        try:
            release()
        except Refused as refusal:
            self.refusals.append(Refused(refusal.status, f"{refusal.note}: a {kind} was not given back"))


class Api:
    """The library's functions around its operators, called by name; `Refused` names the one that refuses."""

    _success = "SUCCESS"
    _status_of_nothing = Status.INTERNAL_ERROR

    def __init__(self, library: SharedLibrary) -> None:
        missing = library.lacking(CORE)
        if missing:
            raise BackendError(
                f"The library {library.name} does not export {', '.join(missing)}. Every operator needs these; "
                "`mluops-test docs backends` lists what a library must offer."
            )
        self.library = library
        self._functions: dict[str, Function] = {}
        self.bind({**CORE, **HOOKS, **VERSION})

    def bind(self, prototypes: Prototypes) -> None:
        """Make these functions callable, those that the library exports."""
        for name, types in prototypes.items():
            if self.library.exports(name):
                self._functions[name] = self.library.bind(name, types)

    def offers(self, name: str) -> bool:
        """An optional function is there."""
        return name in self._functions

    def version(self) -> str:
        """The version that the library tells, e.g. 1.2.0; empty where it tells none."""
        if not self.offers("mluOpGetLibVersion"):
            return ""
        numbers = [c_int() for _ in range(3)]
        self._functions["mluOpGetLibVersion"](*map(byref, numbers))
        return ".".join(str(number.value) for number in numbers)

    def call(self, name: str, *arguments: Any, about: str = "") -> None:
        """Call the function; `about` tells what it was called for, where its name does not."""
        status = status_of(name, self._functions[name](*arguments))
        if status is not Status.SUCCESS:
            raise Refused(status, f"status from {name}{f' for {about}' if about else ''}")

    def make(self, resources: Resources, kind: str, create: str, destroy: str, *arguments: Any) -> int:
        """The handle, descriptor, queue, … that `create` makes with these arguments; the call gives it back."""
        pointer = c_void_p()
        self.call(create, byref(pointer), *arguments)
        made = pointer.value
        if made is None:
            raise Refused(self._status_of_nothing, f"{create} answered {self._success} and made nothing")
        resources.own(kind, lambda: self.call(destroy, made))
        return made


class Direction(IntEnum):
    """cnrtMemTransDir_t, as far as the adapter copies."""

    HOST_TO_DEVICE = 0
    DEVICE_TO_HOST = 2


class Runtime(Api):
    """The cnrt functions of a library, which have error numbers of their own."""

    _success = "0"
    _status_of_nothing = Status.ALLOC_FAILED

    def __init__(self, library: SharedLibrary) -> None:
        missing = library.lacking(RUNTIME)
        if missing:
            raise BackendError(
                f"The runtime {library.name} does not export {', '.join(missing)}. A runtime offers all of "
                f"{', '.join(RUNTIME)}; a library without any of them works on host memory."
            )
        self.library, self._functions = library, {}
        self.has_notifiers = not library.lacking(NOTIFIERS)
        self.bind({**RUNTIME, **(NOTIFIERS if self.has_notifiers else {})})

    def call(self, name: str, *arguments: Any, about: str = "") -> None:  # noqa: ARG002
        """Call the function; the status is the API's word for what its error number means to a caller."""
        code = self._functions[name](*arguments)
        if code:
            status = Status.ALLOC_FAILED if name == "cnrtMalloc" else Status.EXECUTION_FAILED
            raise Refused(status, f"{name} answered {code}")

    def write(self, address: int, data: Array) -> None:
        """Copy contiguous bytes of the host to the device."""
        if data.size:
            self.call("cnrtMemcpy", address, data.ctypes.data, data.nbytes, Direction.HOST_TO_DEVICE)

    def read(self, data: Array, address: int) -> None:
        """Fill contiguous bytes of the host from the device."""
        if data.size:
            self.call("cnrtMemcpy", data.ctypes.data, address, data.nbytes, Direction.DEVICE_TO_HOST)

    def seconds_between(self, start: int, end: int) -> float:
        """Device time between two marks that were reached."""
        self.call("cnrtWaitNotifier", end)
        microseconds = c_float()
        self.call("cnrtNotifierDuration", start, end, byref(microseconds))
        return microseconds.value * 1e-6


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


class CallMemory:
    """Takes the blocks of one call, lets the operator work on them and tells what it did to them.

    Without a runtime that is the harness's own buffers, which the harness guards and compares.
    """

    # The queue of the handle; None is the null queue.
    queue: int | None = None
    # How the time was taken, where that needs saying.
    remark = "no runtime: host memory, null queue, time by the wall clock"

    def __init__(self) -> None:
        self._pages: dict[str, Array] = {}

    def put(self, name: str, data: Array, role: Role) -> int:  # noqa: ARG002
        """The address that the operator gets for these bytes."""
        return int(data.ctypes.data)

    def page(self, name: str) -> int:
        """An address that is not null and must not be followed."""
        self._pages[name] = _PAGE.copy()
        return int(self._pages[name].ctypes.data)

    def execute(self, operate: Callable[[], int]) -> tuple[int, float | None]:
        """Call the operator and wait for it; its answer, and the device's seconds where a device measures them."""
        return operate(), None

    def collect(self) -> list[Cause]:
        """Bring the outputs back; forbidden writes in words, as far as the harness does not find them itself."""
        return [PageWritten(name) for name, page in self._pages.items() if not np.array_equal(page, _PAGE)]


class _Block(Value):
    name: str
    address: int
    data: Array
    role: Role


class DeviceMemory(CallMemory):
    """A device: every block lies between guard zones of its own, and comes back after the call."""

    def __init__(self, runtime: Runtime, resources: Resources, device: int | None) -> None:
        super().__init__()
        self._runtime, self._resources = runtime, resources
        if device is not None:
            runtime.call("cnrtSetDevice", device)
        self.queue = runtime.make(resources, "queue", "cnrtQueueCreate", "cnrtQueueDestroy")
        self.remark = "" if runtime.has_notifiers else "no notifiers: time by the wall clock"
        self._blocks: list[_Block] = []

    def put(self, name: str, data: Array, role: Role) -> int:
        """The device address of a copy of these bytes, between guard zones."""
        size = 2 * GUARD_BYTES + data.nbytes
        start = self._runtime.make(self._resources, "device buffer", "cnrtMalloc", "cnrtFree", size)
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
        runtime, queue = self._runtime, self.queue
        names = ("notifier", "cnrtNotifierCreate", "cnrtNotifierDestroy")
        notifiers = [runtime.make(self._resources, *names) for _ in range(2 * runtime.has_notifiers)]
        for notifier in notifiers[:1]:
            runtime.call("cnrtPlaceNotifier", notifier, queue)
        code = operate()
        for notifier in notifiers[1:]:
            runtime.call("cnrtPlaceNotifier", notifier, queue)
        # What went wrong in a kernel is told here.
        runtime.call("cnrtQueueSync", queue)
        return code, runtime.seconds_between(*notifiers) if notifiers else None

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
        if (touched := self._touched(block.address + block.data.nbytes)).size:
            yield Overrun(block.name, "behind", int(touched[0]) + 1)
        elif (touched := self._touched(block.address - GUARD_BYTES)).size:
            yield Overrun(block.name, "in front", GUARD_BYTES - int(touched[-1]))

    def _touched(self, address: int) -> Array:
        """The bytes of the guard zone there that are no longer as they were."""
        zone = np.empty(GUARD_BYTES, np.uint8)
        self._runtime.read(zone, address)
        return np.flatnonzero(zone != GUARD_PATTERN)

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
