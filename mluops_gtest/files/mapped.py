"""Files mapped for reading: what was read can be given back at once, and is read again by whoever looks again."""

import mmap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy.typing as npt

# Bytes that are handled at once where more would need as much memory again.
PIECE: Final = 1 << 24
# Less is not worth a call.
_LEAST: Final = 1 << 16
_DONT_NEED: Final[int | None] = getattr(mmap, "MADV_DONTNEED", None)


class MappedFile(mmap.mmap):
    """A file that nobody writes through this mapping: its pages can be dropped at any time."""


def mapped(handle: int) -> memoryview:
    """The bytes of an open file that is not empty."""
    return memoryview(MappedFile(handle, 0, access=mmap.ACCESS_READ))


def let_go(array: "npt.NDArray[Any]") -> None:
    """Give back the memory of an array in a mapped file; any other array stays as it is."""
    if array.nbytes < _LEAST or _DONT_NEED is None or not array.flags.c_contiguous:
        return
    import numpy as np

    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, memoryview):
        owner = owner.obj
    if not isinstance(owner, MappedFile):
        return
    start = array.ctypes.data - np.frombuffer(owner, np.uint8).ctypes.data
    # Whole pages of the array; those at its ends may belong to others.
    first, end = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, (start + array.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    owner.madvise(_DONT_NEED, first, end - first)


def pieces(array: "npt.NDArray[Any]") -> "Iterator[tuple[slice, npt.NDArray[Any]]]":
    """A flat array piece by piece; each is let go when the next one is asked for."""
    if 0 < array.nbytes < _LEAST:
        yield slice(0, array.size), array
        return
    step = max(1, PIECE // array.itemsize)
    for start in range(0, array.size, step):
        place = slice(start, start + step)
        yield place, array[place]
        let_go(array[place])
