"""Memory that two processes see and that has no name: nothing is left behind, whoever dies."""

import mmap
import os
import tempfile

import numpy as np

from mluops_gtest.engine.buffers import Arena
from mluops_gtest.model.dtypes import Array


class SharedSlab:
    """Bytes behind a file descriptor: a memfd where the system has it, else a file that is unlinked already."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.fd = _anonymous_file()
        os.ftruncate(self.fd, max(size, 1))
        self.bytes = map_slab(self.fd, size)

    def close(self) -> None:
        """Give the descriptor back; the memory goes when the last view of it does."""
        os.close(self.fd)


class SharedArena(Arena):
    """An arena whose slab another process maps."""

    def __init__(self) -> None:
        super().__init__()
        self.shared: SharedSlab | None = None

    def _allocate(self, size: int) -> Array:
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
        return os.memfd_create("mluops-test", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
