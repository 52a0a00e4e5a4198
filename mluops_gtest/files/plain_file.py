"""Files that end: opened without waiting, read up to a limit."""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from mluops_gtest.errors import ContentError


@contextlib.contextmanager
def open_plain_file(path: Path) -> Iterator[BinaryIO]:
    """A regular file, opened for reading; the caller handles OSError."""
    # To open a pipe would otherwise wait for its writer.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise ContentError(f"{path}: not a plain file; name a regular file.")
        yield file


def plain_file_bytes(path: Path, most: int) -> bytes:
    """The content of a regular file up to a size limit; the caller handles OSError."""
    with open_plain_file(path) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ContentError(f"{path}: larger than {most >> 20} MiB, too large for such a file.")
    return data
