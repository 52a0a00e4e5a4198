"""Files that somebody else left: opened without waiting, and only if they are plain files."""

import contextlib
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path


class UnreadableError(Exception):
    """Something of that name is there and cannot be read as a file."""


@contextlib.contextmanager
def open_regular(path: Path) -> Iterator[tuple[io.BufferedReader, int]]:
    """The open file and its size; FileNotFoundError where there is none."""
    try:
        # To open a pipe would otherwise wait for its writer.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnreadableError(f"{path.name} cannot be read: {error.strerror or error}") from error
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise UnreadableError(f"{path.name} cannot be read: it is not a regular file")
    with os.fdopen(handle, "rb") as file:
        yield file, status.st_size
