"""The memory of one caller's calls, and what its worker has to be told of it."""

from typing import Any

from mluops_gtest.engine.isolation.fault_record import RECORD_BYTES, FaultRecord
from mluops_gtest.engine.isolation.messages import call_message
from mluops_gtest.engine.isolation.paged_arena import PagedArena
from mluops_gtest.engine.isolation.shared import SharedArena, SharedSlab
from mluops_gtest.model.call import OpCall
from mluops_gtest.model.cause import Fault


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

    def request(self, call: OpCall) -> tuple[dict[str, Any], tuple[int, ...]]:
        """What a request about this call says of its memory, and the files that the worker does not have yet."""
        fresh = {slot: slab for slot, slab in self._slabs().items() if self._mapped.get(slot) is not slab}
        self._mapped |= fresh
        message = {
            "call": call_message(call, self.tensors.offset_of, self.workspace.offset_of),
            "map": {slot: slab.size for slot, slab in fresh.items()},
        }
        return message, tuple(slab.fd for slab in fresh.values())

    def fault(self, exit_code: int | None) -> Fault | None:  # noqa: ARG002
        """Where the worker that died with this code touched memory outside its buffers; None if that is unknown."""
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

    def request(self, call: OpCall) -> tuple[dict[str, Any], tuple[int, ...]]:
        """As without guard pages, and where each buffer lies in its pages."""
        if call.workspace is None:
            self.workspace.placed = ()
        FaultRecord(self._slab.bytes).clear()
        message, fds = super().request(call)
        arenas = {"tensors": self.tensors, "workspace": self.workspace}
        pages = {slot: [one.to_message() for one in arena.placed] for slot, arena in arenas.items()}
        return {**message, "pages": pages}, fds

    def fault(self, exit_code: int | None) -> Fault | None:
        """By the address that the worker's signal handler recorded."""
        record = FaultRecord(self._slab.bytes)
        fault = record.fault()
        if fault is None or exit_code is None or fault.signal != -exit_code:
            return None
        arenas = {"tensors": self.tensors, "workspace": self.workspace}
        return fault.placed({record.base(slot): arena.placed for slot, arena in arenas.items() if arena.placed})

    def close(self) -> None:
        """The record as well."""
        super().close()
        self._slab.close()

    def _slabs(self) -> dict[str, SharedSlab]:
        return {**super()._slabs(), "fault": self._slab}
