"""Named arrays in one file that is mapped and not copied: a head with checksums, then the values, each aligned."""

import json
import math
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mluops_gtest.files.mapped import mapped, pieces

Arrays = Mapping[str, npt.NDArray[Any]]
_ALIGNMENT: Final = 64
# Eight digits, the checksum of the rest of the head.
_DIGITS: Final = 8


def array_file(arrays: Arrays) -> Iterator[bytes | memoryview]:
    """The bytes of the file, in pieces."""
    flat = {name: np.ascontiguousarray(array).reshape(-1).view(np.uint8) for name, array in arrays.items()}
    head = json.dumps({name: [a.dtype.str, a.shape, _checksum(flat[name])] for name, a in arrays.items()}).encode()
    head = b"%08x%s\n" % (zlib.crc32(head), head)
    yield head + bytes(-len(head) % _ALIGNMENT)
    for values in flat.values():
        yield values.data
        yield bytes(-values.size % _ALIGNMENT)


def read_array_file(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays, views of the mapped file; ValueError where it is not as it was written."""
    with path.open("rb") as file:
        data = np.frombuffer(mapped(file.fileno()), np.uint8)
        head = file.readline()
    if int(head[:_DIGITS], 16) != zlib.crc32(head[_DIGITS:-1]):
        raise ValueError(f"{path}: the head is damaged")
    arrays, start = {}, len(head) + -len(head) % _ALIGNMENT
    for name, (dtype, dims, checksum) in json.loads(head[_DIGITS:]).items():
        values = data[start : start + np.dtype(dtype).itemsize * math.prod(dims)]
        if _checksum(values) != checksum:
            raise ValueError(f"{path}: the values of {name} are damaged")
        arrays[name] = values.view(dtype).reshape(dims)
        start += values.size + -values.size % _ALIGNMENT
    return arrays


def _checksum(values: npt.NDArray[np.uint8]) -> int:
    checksum = 0
    for _, piece in pieces(values):
        checksum = zlib.crc32(piece.data, checksum)
    return checksum
