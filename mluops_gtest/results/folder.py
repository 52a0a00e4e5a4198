"""A results folder that one process has to itself, from the moment it is claimed until it is closed."""

import contextlib
import itertools
import os
import sys
from pathlib import Path

from mluops_gtest.errors import UnwritableError, UsageError
from mluops_gtest.results.files import REPORT, RESULTS, RUN

LOCK = ".lock"
OUTPUTS = "outputs"
_FILES = (RUN, RESULTS, REPORT)


class ResultsFolder:
    """Locked by flock, so that the death of its owner frees it; the lock's file goes with the claim.

    A folder that was made for the claim and is still empty at its end goes, too.
    """

    def __init__(self, path: Path, *, exclusive: bool = False) -> None:
        """Claim the folder, made if need be; `exclusive`: FileExistsError where there is one already."""
        self.path = path
        try:
            self._made = _make(path, exclusive=exclusive)
            self._lock = self._locked()
        except FileExistsError:
            if exclusive:
                raise
            raise UnwritableError(f"{path}: cannot be written: a file has that name.") from None
        except OSError as error:
            raise UnwritableError.of(path, error) from error

    @staticmethod
    def fresh(parent: Path, name: str) -> "ResultsFolder":
        """A folder of that name that nobody had before; a number makes it different where need be."""
        for number in itertools.count(1):
            with contextlib.suppress(FileExistsError):
                return ResultsFolder(parent / (name if number == 1 else f"{name}-{number}"), exclusive=True)
        raise AssertionError("there is always a next number")

    @staticmethod
    def new(path: Path, *, overwrite: bool, advice: str) -> "ResultsFolder":
        """The folder for new results: one that holds a run already is refused unless it may be overwritten."""
        folder = ResultsFolder(path)
        held = folder.held()
        if held and not overwrite:
            folder.close()
            raise UsageError(f"--out {path}: the folder already holds a run ({', '.join(held)}); {advice}.")
        return folder

    def __enter__(self) -> "ResultsFolder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def held(self) -> tuple[str, ...]:
        """The files of a run that are here."""
        return tuple(name for name in _FILES if (self.path / name).exists())

    def clear(self) -> None:
        """Remove the files of a run and the outputs that it saved, and no others."""
        if (self.path / OUTPUTS).is_dir():
            from mluops_gtest.results.saved_outputs import remove_outputs  # late: it takes numpy

            remove_outputs(self.path)
        for name in _FILES:
            try:
                (self.path / name).unlink(missing_ok=True)
            except OSError as error:
                raise UnwritableError.of(self.path / name, error) from error

    def recover(self) -> bool:
        """Claim the folder again where somebody removed or moved it; False where another run may be there now."""
        if _in_place(self._lock, self.path / LOCK):
            return True
        try:
            again = ResultsFolder(self.path)
        except (UnwritableError, UsageError):
            return False
        if again.held():
            again.close()
            return False
        os.close(self._lock)
        self._lock = again._lock
        return True

    def close(self) -> None:
        """Give the folder back."""
        if _in_place(self._lock, self.path / LOCK):
            with contextlib.suppress(OSError):
                (self.path / LOCK).unlink()
        _unlock(self._lock)
        os.close(self._lock)
        for folder in self._made:
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _locked(self) -> int:
        """The descriptor that holds the lock."""
        path = self.path / LOCK
        while True:
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                _flock(descriptor, self.path)
                if _in_place(descriptor, path):
                    # Who is here; only for people, so a full disk is no reason to give up.
                    with contextlib.suppress(OSError):
                        os.ftruncate(descriptor, 0)
                        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            # Its owner took the file away between our two steps.
            os.close(descriptor)


def _make(path: Path, *, exclusive: bool) -> tuple[Path, ...]:
    """The folders that had to be made, the innermost first."""
    missing = tuple(folder for folder in (path, *path.parents) if not folder.exists())
    path.mkdir(parents=True, exist_ok=not exclusive)
    return missing


def _in_place(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False


def _flock(descriptor: int, folder: Path) -> None:
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
        who = f"process {owner}" if owner.isdecimal() else "another process"
        raise UsageError(
            f"{folder}: {who} is writing there; wait until it ends, or name another folder with --out."
        ) from None


def _unlock(descriptor: int) -> None:
    """Also for those to whom a fork gave the descriptor."""
    if sys.platform != "win32":
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
