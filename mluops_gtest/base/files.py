"""Files: their names, places and limits, written whole or not at all, mapped for reading, removed with all below them.

This is the one place that writes files: nothing is left beside them, and one sentence says when it fails. A mapped file
gives back what was read at once; whoever looks again reads it again. Folders that others filled are removed however
deep they are, without recursion and never through a link. Python code of users runs as it is now, also where it was
edited a moment after it was compiled. What another process prints comes through a pipe of its own.
"""

import contextlib
import itertools
import mmap
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mluops_gtest.base.errors import ContentError, UnwritableError, repr_short

if TYPE_CHECKING:
    import numpy.typing as npt


# Compiled files know their source by its size and by the whole second of its last change.
UNSETTLED_SECONDS: Final = 2.0


@contextlib.contextmanager
def settled_bytecode(path: Path) -> Iterator[None]:
    """While a Python file in that file's folder may still change within its second, no compiled file is written."""
    before = sys.dont_write_bytecode
    sys.dont_write_bytecode = before or any(map(_is_unsettled, path.parent.glob("*.py")))
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def _is_unsettled(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime < UNSETTLED_SECONDS
    except OSError:
        return False


ENVIRONMENT: Final = "MLUOPS_TEST_CACHE"
# Below it: what declarations expand to, a file for each YAML file. No operator has such a name.
DECLARATIONS: Final = ".declarations"


def cache_folder() -> Path:
    """$MLUOPS_TEST_CACHE, else the platform's cache directory."""
    given = os.environ.get(ENVIRONMENT)
    if given:
        return Path(given)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "mluops-test"


# How the names of case files end: the name alone decides the format.
TEXT: Final = ".prototxt"
BINARY: Final = ".pb"
CASE_SUFFIXES: Final = (TEXT, BINARY)


# How much a declaration may ask for; what exceeds a limit is refused before any work is done. Of one YAML file:
MAX_FILE_BYTES: Final = 4 << 20
# Lists and mappings inside each other.
MAX_NESTING: Final = 50
# Of a YAML file whose aliases are written out.
MAX_WRITTEN_OUT: Final = 16 << 20
# No number in a declaration, and no result of an expression, is further from 0.
LARGEST_NUMBER: Final = 2**63 - 1
# Characters between `{` and `}`.
LONGEST_EXPRESSION: Final = 200
# Characters that a variable puts into a text.
LONGEST_INSERTION: Final = 200
LARGEST_EXPONENT: Final = 64
# Of one file.
MAX_CASES: Final = 100_000
# Characters of a declaration times the number of cases it makes.
MAX_DECLARED: Final = 1 << 28
# A recipe's argument: the lengths of axes are among them.
LARGEST_ARGUMENT: Final = 2**32


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


def remove_tree(folder: str) -> None:
    """Remove the folder and all below it, as far as the system lets us.

    Folders inside folders are moved up first, so that no path grows long and no stack deep.
    """
    names = (os.path.join(folder, f".up-{os.getpid()}-{number}") for number in itertools.count())
    while children := _entries(folder):
        done = False
        for child in children:
            if not child.is_dir(follow_symlinks=False):
                done |= _succeeds(os.unlink, child.path)
                continue
            for inner in _entries(child.path):
                if inner.is_dir(follow_symlinks=False):
                    done |= _succeeds(os.rename, inner.path, next(names))
                else:
                    done |= _succeeds(os.unlink, inner.path)
            done |= _succeeds(os.rmdir, child.path)
        if not done:
            return
    _succeeds(os.rmdir, folder)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """What is in the folder; nothing where it cannot be read."""
    with contextlib.suppress(OSError):
        # Whoever made it may have locked it.
        os.chmod(folder, 0o700)
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _succeeds(change: Callable[..., None], *paths: str) -> bool:
    try:
        change(*paths)
    except OSError:
        return False
    return True


def replace_file(path: Path, pieces: Iterable[Any], *, make_folder: bool = True) -> None:
    """Write the pieces aside and move them into place, so that no reader ever sees half a file."""
    try:
        if make_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            # A device or a pipe, e.g. -o /dev/stdout: nothing may take its place.
            with path.open("wb") as device:
                device.writelines(pieces)
        else:
            # A link stays one: what it leads to is replaced.
            _replace(Path(os.path.realpath(path)), pieces)
    except OSError as error:
        raise UnwritableError.of(path, error) from error


def replace_text(path: Path, text: str, *, make_folder: bool = True) -> None:
    """The same for text, in UTF-8."""
    replace_file(path, [text.encode()], make_folder=make_folder)


def place_below(folder: Path, name: str | Path) -> Path:
    """Where a file goes whose name comes from data: below the folder, or nowhere (ContentError)."""
    try:
        path, inside = (Path(os.path.realpath(one)) for one in (folder / name, folder))
    except ValueError as error:
        raise ContentError(f"{repr_short(str(name))} is not the name of a file: {error}.") from error
    if path == inside or not path.is_relative_to(inside):
        raise ContentError(
            f"{repr_short(str(name))} leads out of {folder}, by '..', an absolute path or a link: "
            "nothing is written there."
        )
    return path


def _replace(path: Path, pieces: Iterable[Any]) -> None:
    # A short name: the file's own may be as long as the disk allows.
    aside = path.with_name(f".mluops-{os.getpid()}-{os.urandom(4).hex()}.tmp")
    try:
        with aside.open("wb") as file:
            file.writelines(pieces)
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


# What a process prints for one case, 1 MiB: how it began, and how it ended with the trace of a crash.
_HEAD_BYTES: Final = 512 << 10
_TAIL_BYTES: Final = 512 << 10
# More than a pipe holds, unless root says otherwise.
_PIPE_BYTES: Final = 1 << 20


class OutputPipe:
    """Where one process prints; of an endless stream the first and the last bytes are kept.

    A pipe per process: what a child of a dead one prints reaches no later case.
    """

    def __init__(self, head: int = _HEAD_BYTES, tail: int = _TAIL_BYTES) -> None:
        self._most_head, self._most_tail = head, tail
        self._head, self._tail, self._cut = bytearray(), bytearray(), 0
        self.fd, self.writer = os.pipe()
        os.set_blocking(self.fd, False)

    def close_writer(self) -> None:
        """The process has its own; this end must not keep the pipe open."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def close(self) -> None:
        """Give the pipe back; whoever still prints gets an error."""
        self.close_writer()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def drain(self) -> None:
        """Take what is in the pipe now, and only that: somebody may print for ever."""
        if self.fd >= 0:
            with contextlib.suppress(BlockingIOError):
                self.add(os.read(self.fd, _PIPE_BYTES))

    def add(self, data: bytes) -> None:
        """What was printed, here or elsewhere; bytes in the middle of a long stream are counted and forgotten."""
        free = self._most_head - len(self._head)
        self._head += data[:free]
        self._tail += data[free:]
        if len(self._tail) >= 2 * self._most_tail:
            self._shorten()

    def take(self) -> str:
        """What was printed since the last time: all of it, or its head and tail with the number of bytes between."""
        self.drain()
        self._shorten()
        head, tail, cut = self._head, self._tail, self._cut
        self._head, self._tail, self._cut = bytearray(), bytearray(), 0
        if not cut:
            return (head + tail).decode("utf-8", "replace")
        return f"{head.decode('utf-8', 'replace')}\n[… {cut} bytes cut …]\n{tail.decode('utf-8', 'replace')}"

    def _shorten(self) -> None:
        excess = max(0, len(self._tail) - self._most_tail)
        del self._tail[:excess]
        self._cut += excess
