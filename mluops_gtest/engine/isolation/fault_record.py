"""What a worker's signal handler leaves behind, read by the controller when the worker is dead."""

import ctypes
import platform
import signal
import struct
from collections.abc import Iterable, Mapping
from typing import Final, Literal

import msgspec

from mluops_gtest.engine.isolation.page_layout import ROOM_BYTES, Placed
from mluops_gtest.model.cause import Fault
from mluops_gtest.model.dtypes import Array
from mluops_gtest.value import Value

# In the record: where the arenas' address space begins, the kernel's siginfo, the head of its ucontext.
_BASES: Final = {"tensors": 0, "workspace": 8}
INFO_OFFSET: Final = 64
INFO_BYTES: Final = 128
CONTEXT_OFFSET: Final = INFO_OFFSET + INFO_BYTES
RECORD_BYTES: Final = 8192
# Of the ucontext: as much as tells a read from a write.
CONTEXT_BYTES: Final = {"x86_64": 256, "aarch64": 4560}

_SIGNALS: Final = (signal.SIGSEGV, signal.SIGBUS)
_SI_KERNEL: Final = 0x80
_BUS_ADRALN: Final = 1
_NULL_BYTES: Final = 4096
# x86-64: the page fault's error code among the registers; AArch64: the syndrome among the extra records.
_X86_ERROR_OFFSET, _X86_TRAP_OFFSET, _X86_PAGE_FAULT, _X86_WRITE = 192, 200, 14, 2
_ARM_RECORDS_OFFSET, _ARM_SYNDROME, _ARM_WRITE = 464, 0x45535201, 1 << 6
_ARM_DATA_ABORTS: Final = (0x24, 0x25)
# What the faulting instruction did, as far as the machine tells.
Access = Literal["read", "wrote", "touched"]
Position = Literal["inside", "behind", "in front", "far"]


class RecordedFault(Value):
    """A memory fault as the kernel told it; `address` is None where it told none."""

    signal: signal.Signals
    address: int | None
    access: Access = "touched"

    def placed(self, buffers: Mapping[int, Iterable[Placed]]) -> Fault:
        """Where it happened, by the buffers behind each base address."""
        if self.address is None:
            return Fault(self.signal.name)
        fault = Fault(self.signal.name, self.access, f"{self.address:#x}")
        if self.address < _NULL_BYTES:
            return msgspec.structs.replace(fault, place="null")
        place, name, distance = _nearest(self.address, buffers)
        return msgspec.structs.replace(fault, place=place, buffer=name, distance=distance)


class FaultRecord:
    """The bytes that worker and controller share for this."""

    def __init__(self, memory: Array) -> None:
        self._memory = memory

    @property
    def address(self) -> int:
        """Where the record lies in this process."""
        return int(self._memory.ctypes.data)

    def set_base(self, slot: str, base: int) -> None:
        """Tell where the address space of that arena begins."""
        struct.pack_into("<Q", self._memory.data, _BASES[slot], base)

    def base(self, slot: str) -> int:
        """Where the address space of that arena begins."""
        return int(struct.unpack_from("<Q", self._memory.data, _BASES[slot])[0])

    def clear(self) -> None:
        self._memory[INFO_OFFSET:] = 0

    def fault(self, machine: str = platform.machine()) -> RecordedFault | None:
        """The fault that was recorded; None where there is none, or where the signal was sent by somebody."""
        data = self._memory.tobytes()
        number, _, code = struct.unpack_from("<iii", data, INFO_OFFSET)
        if number not in _SIGNALS or code <= 0:
            return None
        told = signal.Signals(number)
        if code == _SI_KERNEL or (told is signal.SIGBUS and code == _BUS_ADRALN):
            return RecordedFault(told, None)
        (address,) = struct.unpack_from("<Q", data, INFO_OFFSET + 16)
        return RecordedFault(told, address, _access(data[CONTEXT_OFFSET:], machine))


def _access(context: bytes, machine: str) -> Access:
    match machine:
        case "x86_64":
            (error,), (trap,) = (
                struct.unpack_from("<Q", context, offset) for offset in (_X86_ERROR_OFFSET, _X86_TRAP_OFFSET)
            )
            if trap == _X86_PAGE_FAULT:
                return "wrote" if error & _X86_WRITE else "read"
        case "aarch64":
            syndrome = _arm_syndrome(context)
            if syndrome is not None and syndrome >> 26 & 0x3F in _ARM_DATA_ABORTS:
                return "wrote" if syndrome & _ARM_WRITE else "read"
    return "touched"


def _arm_syndrome(context: bytes) -> int | None:
    """The records behind the registers: each begins with its kind and its size, and a kind of 0 ends them."""
    offset = _ARM_RECORDS_OFFSET
    while offset + 16 <= CONTEXT_BYTES["aarch64"]:
        kind, size = struct.unpack_from("<II", context, offset)
        if kind == _ARM_SYNDROME:
            return int(struct.unpack_from("<Q", context, offset + 8)[0])
        if kind == 0 or size < ctypes.sizeof(ctypes.c_uint64):
            return None
        offset += size
    return None


def _nearest(address: int, buffers: Mapping[int, Iterable[Placed]]) -> tuple[Position, str, int]:
    """The address by its distance from the nearest buffer, in bytes rounded up to whole elements."""
    found: tuple[Position, str, int] = ("far", "", ROOM_BYTES + 1)
    for base, placed in buffers.items():
        for one in placed:
            start, end = base + one.start, base + one.end
            if start <= address < end:
                return "inside", one.name, address - start
            behind = address >= end
            distance = address - end + 1 if behind else start - address
            distance += -distance % one.itemsize
            if distance < found[2]:
                found = ("behind" if behind else "in front", one.name, distance)
    return found if found[1] else ("far", "", 0)
