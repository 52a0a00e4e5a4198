"""Memory that controller and worker share: a call travels as descriptors and offsets into it, its tensors never.

The memory has no name, so that nothing is left behind when either process dies. Buffers lie between guard zones in one
slab, or under `--guard-pages` in pages of their own: packed in the shared file, far apart in the worker's addresses,
with a record in which the worker's signal handler leaves where a fault happened.
"""

import contextlib
import ctypes
import fcntl
import mmap
import os
import platform
import signal
import struct
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import numpy as np

from mluops_gtest.base.elf import CodePlace, find_code
from mluops_gtest.base.frozen import Value
from mluops_gtest.core.buffers import Arena, Buffer, BufferSpec, Side
from mluops_gtest.core.call import Handle, OpCall, TensorArg
from mluops_gtest.core.cause import Fault
from mluops_gtest.core.tensor import Array, DType, Layout, TensorDesc
from mluops_gtest.running.workers.protocol import CodeRange

OffsetOf = Callable[[Array], int]
# The flat array of a tensor, by its name, its place in the arena, its dtype and its number of elements.
View = Callable[[str, int, "np.dtype[Any]", int], Array]


def call_message(call: OpCall, tensors: OffsetOf, workspace: OffsetOf) -> dict[str, Any]:
    """The call for a worker; `tensors` and `workspace` say where an array lies in their arenas."""
    return {
        "operator": call.operator,
        "params": None if call.params is None else dict(call.params),
        "inputs": {name: _line(arg, tensors) for name, arg in call.inputs.items()},
        "outputs": {name: _line(arg, tensors) for name, arg in call.outputs.items()},
        "handle": None if call.handle is None else [call.handle.arch, call.handle.nram_bytes],
        "workspace": None if call.workspace is None else [workspace(call.workspace), call.workspace.size],
        "workspace_size": call.workspace_size,
        "size_null": call.size_null,
        "device": call.device,
    }


def view_of(slab: Array) -> View:
    """Arrays at their offsets in a slab."""

    def view(_name: str, offset: int, dtype: "np.dtype[Any]", count: int) -> Array:
        return np.frombuffer(slab.data, dtype, count, offset)

    return view


def call_from(message: Mapping[str, Any], tensors: View, workspace: View) -> OpCall:
    """The call on the worker's own view of the shared memory."""
    place, params = message["workspace"], message["params"]
    if params is not None:
        params = {name: tuple(value) if isinstance(value, list) else value for name, value in params.items()}
    return OpCall(
        operator=message["operator"],
        params=params,
        inputs={name: _argument(name, line, tensors) for name, line in message["inputs"].items()},
        outputs={name: _argument(name, line, tensors) for name, line in message["outputs"].items()},
        handle=None if message["handle"] is None else Handle(*message["handle"]),
        workspace=None if place is None else workspace("workspace", place[0], np.dtype(np.uint8), place[1]),
        workspace_size=message["workspace_size"],
        size_null=message["size_null"],
        device=message["device"],
    )


def _line(arg: TensorArg | None, place: OffsetOf) -> list[Any] | None:
    if arg is None:
        return None
    desc, offset = arg.desc, None if arg.array is None else place(arg.array)
    return [desc.dtype.value, desc.layout.value, desc.dims, desc.strides, offset, arg.null]


def _argument(name: str, line: Any, view: View) -> TensorArg | None:
    if line is None:
        return None
    dtype, layout, dims, strides, offset, null = line
    desc = TensorDesc(
        DType.named(dtype), Layout.named(layout), tuple(dims), None if strides is None else tuple(strides)
    )
    if offset is None:
        return TensorArg(desc, None, null)
    return TensorArg(desc, desc.view(view(name, offset, desc.dtype.storage, desc.extent)), null)


# What maps of a process call such memory.
SLAB_NAME: Final = "mluops-test"


class SharedSlab:
    """Bytes behind a file descriptor: a memfd where the system has it, else a file that is unlinked already.

    A memfd is sealed at its size: who touches a mapping behind the end of its file is killed by SIGBUS, and a worker
    must not be able to do that to the controller.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.fd = _anonymous_file()
        os.ftruncate(self.fd, max(size, 1))
        if hasattr(fcntl, "F_ADD_SEALS"):
            with contextlib.suppress(OSError):  # a file on disk has no seals
                fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        self.bytes = map_slab(self.fd, size)

    def close(self) -> None:
        """Give the descriptor back; the memory goes when the last view of it does."""
        os.close(self.fd)


class SharedArena(Arena):
    """An arena whose slab another process maps."""

    def __init__(self) -> None:
        super().__init__()
        self.shared: SharedSlab | None = None
        self._retired = False

    def retire(self) -> None:
        """Never lay out another case here: a process that outlived its worker may still write."""
        self._retired = True

    def _reserve(self, size: int) -> None:
        if self._retired:
            self._slab = np.empty(0, np.uint8)
            self.close()
            self._retired = False
        super()._reserve(size)

    def _new_slab(self, size: int) -> Array:
        self.close()
        self.shared = SharedSlab(size)
        return self.shared.bytes

    def close(self) -> None:
        """Give the shared memory back."""
        if self.shared is not None:
            self.shared.close()
            self.shared = None


def map_slab(fd: int, size: int) -> Array:
    """A writable view of the shared bytes."""
    return np.frombuffer(mmap.mmap(fd, max(size, 1)), np.uint8)


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create(SLAB_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


PAGE_BYTES = mmap.PAGESIZE
# Address space on either side of every buffer that nobody may touch.
GAP_BYTES = 64 << 20


class Placed(Value):
    """A buffer of `size` bytes that begins `lead` bytes into its own pages; an empty one has no pages at all."""

    name: str
    size: int
    itemsize: int
    # Of its pages: where they begin in the file and in the reserved address space, and how many bytes they are.
    file_offset: int
    space_offset: int
    pages: int
    lead: int

    @property
    def start(self) -> int:
        """Where the buffer begins in the reserved address space."""
        return self.space_offset + self.lead

    @property
    def end(self) -> int:
        """Where the first byte behind the buffer lies in the reserved address space."""
        return self.start + self.size


def place(wanted: Iterable[BufferSpec], side: Side) -> tuple[Placed, ...]:
    """Every buffer flush with an end of its pages: the last where what lies behind is watched, else the first.

    What is reserved between two buffers is twice the gap, so that a stray address is nearest to the buffer it left.
    """
    placed = []
    file_offset, space_offset = 0, GAP_BYTES
    for one in wanted:
        pages = one.size + -one.size % PAGE_BYTES
        lead = (pages - one.size) // one.alignment * one.alignment if side is Side.BEHIND else 0
        placed.append(Placed(one.name, one.size, one.itemsize, file_offset, space_offset, pages, lead))
        file_offset += pages
        space_offset += pages + 2 * GAP_BYTES
    return tuple(placed)


def file_bytes(placed: Sequence[Placed]) -> int:
    """How long the shared file must be."""
    return placed[-1].file_offset + placed[-1].pages if placed else 0


def reserved_bytes(placed: Sequence[Placed]) -> int:
    """How much address space is reserved for all of them."""
    return placed[-1].space_offset + placed[-1].pages + GAP_BYTES if placed else 0


class PagedArena(SharedArena):
    """An arena whose buffers another process maps one by one; what is left of their pages is their guard zone."""

    def __init__(self) -> None:
        super().__init__()
        self.placed: tuple[Placed, ...] = ()

    def allocate(self, wanted: Sequence[BufferSpec], side: Side | None = None) -> dict[str, Buffer]:
        """Buffers flush with the end of their pages that `side` names, the rest of the pages guarded by pattern."""
        assert side is not None, "pages guard one side at a time"
        self.placed = place(wanted, side)
        self._reserve(file_bytes(self.placed))
        buffers = {}
        for one in self.placed:
            pages = self._slab[one.file_offset : one.file_offset + one.pages]
            data = slice(one.lead, one.lead + one.size)
            buffers[one.name] = Buffer(pages[: data.start], pages[data], pages[data.stop :])
            buffers[one.name].guard()
        return buffers


# In the record: where the arenas' address space begins, the kernel's siginfo, the head of its ucontext.
_BASES: Final = {"tensors": 0, "workspace": 8}
INFO_OFFSET: Final = 64
INFO_BYTES: Final = 128
CONTEXT_OFFSET: Final = INFO_OFFSET + INFO_BYTES
RECORD_BYTES: Final = 8192
# Of the ucontext: as much as tells a read from a write, and the instruction.
CONTEXT_BYTES: Final = {"x86_64": 256, "aarch64": 4560}

_SIGNALS: Final = (signal.SIGSEGV, signal.SIGBUS)
_SI_KERNEL: Final = 0x80
_BUS_ADRALN: Final = 1
_NULL_BYTES: Final = 4096
# x86-64: the page fault's error code among the registers, the trap's number behind it; AArch64: the syndrome among the
# extra records.
_INSTRUCTION_OFFSET: Final = {"x86_64": 168, "aarch64": 440}
_X86_ERROR_OFFSET, _X86_PAGE_FAULT, _X86_WRITE = 192, 14, 2
_ARM_RECORDS_OFFSET, _ARM_SYNDROME, _ARM_WRITE = 464, 0x45535201, 1 << 6
_ARM_DATA_ABORTS: Final = (0x24, 0x25)
# What the faulting instruction did, as far as the machine tells.
Access = Literal["read", "wrote", "touched"]
Position = Literal["inside", "behind", "in front", "far"]


class RecordedFault(Value):
    """A memory fault as the kernel told it; `address` is None where it told none, `instruction` where it lies."""

    signal: signal.Signals
    address: int | None
    access: Access = "touched"
    instruction: int = 0

    def placed(self, buffers: Mapping[int, Iterable[Placed]], code: Iterable[CodeRange]) -> Fault:
        """Where it happened, by the buffers behind each base address, and in which function."""
        fault = _in_code(Fault(self.signal.name), self.instruction, code)
        if self.address is None:
            return fault
        fault = msgspec.structs.replace(fault, access=self.access, address=f"{self.address:#x}")
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
            return RecordedFault(told, None, instruction=_instruction(data[CONTEXT_OFFSET:], machine))
        (address,) = struct.unpack_from("<Q", data, INFO_OFFSET + 16)
        context = data[CONTEXT_OFFSET:]
        return RecordedFault(told, address, _access(context, machine), _instruction(context, machine))


def _instruction(context: bytes, machine: str) -> int:
    offset = _INSTRUCTION_OFFSET.get(machine)
    return 0 if offset is None else int(struct.unpack_from("<Q", context, offset)[0])


def _in_code(fault: Fault, instruction: int, code: Iterable[CodeRange]) -> Fault:
    """The fault with the place of that instruction, where a file has it."""
    at = next((one for one in code if one.start <= instruction < one.end), None)
    if at is None:
        return fault
    offset = instruction - at.start + at.offset
    place = find_code(Path(at.path), offset) or CodePlace(offset)
    function = f"{place.function}+{place.distance:#x}" if place.function else ""
    return msgspec.structs.replace(fault, function=function, code=f"{Path(at.path).name}+{place.address:#x}")


def _access(context: bytes, machine: str) -> Access:
    match machine:
        case "x86_64":
            error, trap = struct.unpack_from("<QQ", context, _X86_ERROR_OFFSET)
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
    found: tuple[Position, str, int] = ("far", "", GAP_BYTES + 1)
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


class WorkerMemory:
    """Buffers between guard zones, in slabs that the worker maps once."""

    def __init__(self) -> None:
        self.tensors = SharedArena()
        self.workspace = SharedArena()
        self._mapped: dict[str, SharedSlab] = {}

    def retire(self) -> None:
        """The worker is dead: what it left behind may still write here, so that the next one gets other memory."""
        self.tensors.retire()
        self.workspace.retire()
        self._mapped = {}

    def request(self, call: OpCall, device: int | None) -> tuple[dict[str, Any], tuple[int, ...]]:
        """What a request about this call says of its memory, and the files that the worker does not have yet."""
        fresh = {slot: slab for slot, slab in self._slabs().items() if self._mapped.get(slot) is not slab}
        self._mapped |= fresh
        message = {
            "call": {**call_message(call, self.tensors.offset_of, self.workspace.offset_of), "device": device},
            "map": {slot: slab.size for slot, slab in fresh.items()},
        }
        return message, tuple(slab.fd for slab in fresh.values())

    def fault(self, exit_code: int | None, code: Iterable[CodeRange]) -> Fault | None:  # noqa: ARG002
        """Where the worker that died with this exit code touched memory outside its buffers; None if that is unknown.

        `code` says where it had the code of which files.
        """
        return None

    def close(self) -> None:
        """Give all of it back."""
        self.tensors.close()
        self.workspace.close()

    def _slabs(self) -> dict[str, SharedSlab]:
        slabs = {"tensors": self.tensors.shared, "workspace": self.workspace.shared}
        return {slot: slab for slot, slab in slabs.items() if slab is not None}


class PagedWorkerMemory(WorkerMemory):
    """Buffers between inaccessible pages, and a record of the fault that ends a call."""

    def __init__(self) -> None:
        super().__init__()
        self.tensors: PagedArena = PagedArena()
        self.workspace: PagedArena = PagedArena()
        self._slab = SharedSlab(RECORD_BYTES)

    def retire(self) -> None:
        """The record as well."""
        super().retire()
        self._slab.close()
        self._slab = SharedSlab(RECORD_BYTES)

    def request(self, call: OpCall, device: int | None) -> tuple[dict[str, Any], tuple[int, ...]]:
        """As without guard pages, and where each buffer lies in its pages."""
        if call.workspace is None:
            self.workspace.placed = ()
        FaultRecord(self._slab.bytes).clear()
        message, fds = super().request(call, device)
        pages = {slot: [astuple(one) for one in placed] for slot, placed in self._placed().items()}
        return {**message, "pages": pages}, fds

    def fault(self, exit_code: int | None, code: Iterable[CodeRange]) -> Fault | None:
        """By the address that the worker's signal handler recorded."""
        record = FaultRecord(self._slab.bytes)
        fault = record.fault()
        if fault is None or exit_code is None or fault.signal != -exit_code:
            return None
        return fault.placed({record.base(slot): placed for slot, placed in self._placed().items() if placed}, code)

    def _placed(self) -> dict[str, tuple[Placed, ...]]:
        return {"tensors": self.tensors.placed, "workspace": self.workspace.placed}

    def close(self) -> None:
        """The record as well."""
        super().close()
        self._slab.close()

    def _slabs(self) -> dict[str, SharedSlab]:
        return {**super()._slabs(), "fault": self._slab}
