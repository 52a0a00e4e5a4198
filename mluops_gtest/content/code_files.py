"""The files that made an operator what it is: while they stay as they are, it need not be loaded to know it."""

import os
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from mluops_gtest.files.bytecode import UNSETTLED_SECONDS
from mluops_gtest.value import Value

_PACKAGE: Final = Path(__file__).resolve().parents[1]
_OF_OPERATORS: Final = ("authoring", "content", "files", "model")


class CodeFile(Value):
    """A file as Python knows the source of a compiled module: with the same size and time it is the same."""

    path: str
    size: int
    changed_ns: int

    @staticmethod
    def at(path: str) -> "CodeFile":
        """The file as it is now; OSError where there is none."""
        status = os.stat(path)
        return CodeFile(path, status.st_size, status.st_mtime_ns)

    @property
    def is_unchanged(self) -> bool:
        """The file is still the same."""
        try:
            return CodeFile.at(self.path) == self
        except OSError:
            return False

    @property
    def is_settled(self) -> bool:
        """Another change would show: the last one is not of this moment."""
        return time.time() - self.changed_ns / 1e9 > UNSETTLED_SECONDS


def code_of(module: str, others: str) -> tuple[CodeFile, ...]:
    """All code that a loaded module may have run, empty if that cannot be told yet: files that are not installed.

    Modules whose names begin with `others` have nothing to do with it, unless they belong to it.
    """
    own = f"{module}."
    names = [name for name in sys.modules if not name.startswith(others) or f"{name}.".startswith(own)]
    try:
        found = tuple(map(CodeFile.at, sorted(set(_files(names)))))
    except OSError:
        return ()
    return found if all(file.is_settled for file in found) else ()


def _files(names: list[str]) -> Iterator[str]:
    known = tuple(f"{path}{os.sep}" for path in (_PACKAGE, os.path.dirname(os.__file__), *_folders_of_packages()))
    for name in names:
        file = getattr(sys.modules[name], "__file__", None)
        if file is not None and not file.startswith(known):
            yield file


@cache
def installed_code() -> tuple[CodeFile, ...]:
    """Our own code that operators and declarations go through, and the folders of packages; empty if there are none."""
    try:
        ours = [file for name in _OF_OPERATORS for file in _python_files(_PACKAGE / name)]
        return tuple(map(CodeFile.at, (*ours, *_folders_of_packages())))
    except OSError:
        return ()


def _folders_of_packages() -> list[str]:
    """A folder shows by its own time that a package was added, removed or replaced by another version."""
    return [path for path in sys.path if path.endswith(("site-packages", "dist-packages")) and os.path.isdir(path)]


def _python_files(folder: Path) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name.endswith(".py"):
                yield entry.path
            elif entry.is_dir():
                yield from _python_files(Path(entry.path))
