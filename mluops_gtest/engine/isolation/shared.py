"""Memory without a name that two processes share: nothing is left behind when either of them dies."""

import contextlib
import fcntl
import mmap
import os
import tempfile
from typing import Final

import numpy as np

from mluops_gtest.engine.buffers import Arena
from mluops_gtest.model.dtypes import Array

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
        _seal(self.fd)
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
        return os.memfd_create(SLAB_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _seal(fd: int) -> None:
    if hasattr(fcntl, "F_ADD_SEALS"):
        with contextlib.suppress(OSError):  # a file on disk has no seals
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
