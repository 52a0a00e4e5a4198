"""Values in separate files beside the case: raw bytes, plain or compressed with zstd."""

import os
import stat
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from mluops_gtest.errors import CaseFileError, shown
from mluops_gtest.files.mapped import mapped
from mluops_gtest.model.dtypes import Array

# Larger files are mapped instead of read: unused pages are never loaded.
_MAP_FROM: Final = 1 << 18
# To open a pipe would otherwise wait for its writer.
_READ_ONLY: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def file_bytes(path: Path) -> memoryview:
    """The bytes of a regular file; a large one is mapped."""
    try:
        handle = os.open(path, _READ_ONLY)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise CaseFileError(f"{path}: cannot be read: it is not a regular file.")
            if status.st_size >= _MAP_FROM:
                return mapped(handle)
            return memoryview(os.read(handle, _MAP_FROM))
        finally:
            os.close(handle)
    except OSError as error:
        # To map a file takes address space, which a limit may lack.
        raise CaseFileError(f"{path}: cannot be read: {error.strerror or error}.") from error


def resolve(name: str, folder: Path, allow_outside: bool) -> Path:
    """The file that a case in `folder` names; one outside the folder's tree is refused unless allowed."""
    try:
        path = (folder / name).resolve()
        outside = Path(name).is_absolute() or not path.is_relative_to(folder.resolve())
        there = path.is_file()
    except (OSError, ValueError, RuntimeError) as error:
        # Some messages repeat the whole path, and a name that is too long is too long to read.
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise CaseFileError(f"path {shown(name)} is not the name of a file: {why}") from error
    if outside and not allow_outside:
        raise CaseFileError(
            f"path {name!r} leads out of the case's folder {folder}; only files below it are read, "
            "unless paths outside are allowed explicitly"
        )
    if not there:
        raise CaseFileError(f"path {name!r}: there is no such file in {folder}")
    return path


def read_blob(path: Path, storage: "np.dtype[Any]", count: int) -> Array:
    """`count` elements from a file that must hold exactly them."""
    wanted = count * storage.itemsize
    if path.suffix == ".zst":
        return _read_compressed(path, wanted).view(storage)
    data = file_bytes(path)
    if len(data) != wanted:
        raise _wrong_size(path, str(len(data)), wanted)
    return np.frombuffer(data, storage)


def _wrong_size(path: Path, has: str, wanted: int) -> CaseFileError:
    return CaseFileError(f"path {path.name!r}: the file holds {has} bytes, the tensor's shape and type {wanted}")


def _read_compressed(path: Path, wanted: int) -> Array:
    """Never decompresses more than one byte beyond what the tensor holds."""
    data = np.empty(wanted, np.uint8)
    target = data.data
    filled = 0
    try:
        with path.open("rb") as file, _decompressor(file) as stream:
            while filled < wanted and (n := stream.readinto(target[filled:])):
                filled += n
            beyond = stream.read(1)
    except (OSError, EOFError) as error:
        raise CaseFileError(f"path {path.name!r}: cannot be read, or cut: {error}") from error
    except Exception as error:
        # Each zstd library has its own error type.
        if type(error).__name__ != "ZstdError":
            raise
        raise CaseFileError(f"path {path.name!r}: not zstd data, or cut: {error}") from error
    if filled < wanted or beyond:
        raise _wrong_size(path, f"more than {wanted}" if beyond else str(filled), wanted)
    return data


def _decompressor(file: IO[bytes]) -> Any:
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        import zstandard

        return zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
    return zstd.ZstdFile(file)
