"""What arithmetic allows large cases: computed once and kept beside the case in the cache.

The folder of a cached case is named after its declaration and its values, the file after all code that shapes a bound:
neither a change of the case nor one of the operator ever meets an old bound. What is damaged is computed again.
"""

import json
import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mluops_gtest.base.errors import UnwritableError
from mluops_gtest.base.files import cache_folder, let_go, mapped, pieces, replace_file
from mluops_gtest.base.frozen import Value
from mluops_gtest.catalog.cache import CASE_FILE, bound_file, bound_files
from mluops_gtest.core.buffers import bind_values, bounds_of, mistake_in
from mluops_gtest.core.case import Case
from mluops_gtest.core.operator import Bound, Operator

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


_PARTS: Final = Bound.__struct_fields__


class BoundCache(Value):
    """The bounds of a case: of one in the cache from beside it, where they are there; else from its inputs."""

    # The folder with an operator's code.
    generators_of: Callable[[str], Path]

    def __call__(self, case: Case, operator: Operator) -> Mapping[str, Bound]:
        """The bound of every output that has one."""
        call = bind_values(case, operator)
        path = self._path(case)
        if path is not None:
            kept = _read(path)
            if kept is not None and mistake_in(operator, call, kept) is None:
                return kept
        bounds = bounds_of(operator, call)
        for tensor in case.inputs:
            if tensor.data is not None:
                let_go(tensor.data)
        if path is not None and any(np.ndim(getattr(bound, part)) for bound in bounds.values() for part in _PARTS):
            _keep(path, bounds)
            # As they are kept, so that their memory is free again.
            return _read(path) or bounds
        return bounds

    def _path(self, case: Case) -> Path | None:
        """Where the bounds of a cached case lie; None for any other case."""
        if case.path is None or case.path.name != CASE_FILE or not case.path.is_relative_to(cache_folder()):
            return None
        from mluops_gtest.catalog.source import code_digest  # late: most cases are not in the cache

        return case.path.parent / bound_file(code_digest(self.generators_of(case.operator), case.operator))


def _read(path: Path) -> dict[str, Bound] | None:
    """The bounds as they were kept, in the mapped file; None where there are none, or the disk damaged them."""
    parts: dict[str, dict[str, Any]] = {}
    try:
        for name, values in read_array_file(path).items():
            output, _, part = name.rpartition(".")
            parts.setdefault(output, {})[part] = values if values.ndim else values.item()
        return {output: Bound(**values) for output, values in parts.items()}
    except (OSError, ValueError, TypeError):
        return None


def _keep(path: Path, bounds: Mapping[str, Bound]) -> None:
    """Write them whole, and remove those of other code; what cannot be written costs time and nothing else."""
    arrays = {
        f"{output}.{part}": np.asarray(getattr(bound, part)) for output, bound in bounds.items() for part in _PARTS
    }
    try:
        replace_file(path, array_file(arrays), make_folder=False)
        for old in bound_files(path.parent):
            if old != path:
                old.unlink(missing_ok=True)
    except (OSError, UnwritableError):
        return
