"""The C library, if there is one that may be used: found beside this file, loaded when first asked for."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from mluops_gtest.base.errors import UsageError
from mluops_gtest.base.native.building import LEVELS, LIBRARY, SOURCES, sources_digest

ENVIRONMENT: Final = "MLUOPS_TEST_NATIVE"
_OFF: Final = "0"
_NAMES: Final = tuple(LEVELS)
_NUMPY_ALONE: Final = ContextVar("numpy_alone", default=False)


class NativeCore(NamedTuple):
    """What is used: the loaded library, or the reason why numpy does the work."""

    library: ctypes.CDLL | None
    level: str | None
    reason: str | None

    @property
    def words(self) -> str:
        """For people."""
        return f"active ({self.level})" if self.library is not None else f"not used: {self.reason}"


@cache
def native_core() -> NativeCore:
    """Looks once per process; $MLUOPS_TEST_NATIVE is 0 (use numpy), 1, or the best instruction set to use."""
    wanted = os.environ.get(ENVIRONMENT) or "1"
    if wanted == _OFF:
        return NativeCore(None, None, f"{ENVIRONMENT}=0")
    if wanted != "1" and wanted not in _NAMES:
        raise UsageError(f"{ENVIRONMENT}={wanted} is not known. Allowed: 0, 1, {', '.join(_NAMES)}.")
    return load(LIBRARY, wanted if wanted in _NAMES else _NAMES[-1])


def load(path: Path, most: str = _NAMES[-1]) -> NativeCore:
    """The library in that file, with the kernels of at most that instruction set."""
    if not path.exists():
        return NativeCore(None, None, "it was not built; install a C compiler and mluops-test again")
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        return NativeCore(None, None, f"it cannot be loaded: {error}")
    library.mluops_sources.restype = ctypes.c_char_p
    if SOURCES.is_dir() and library.mluops_sources().decode() != sources_digest():
        return NativeCore(None, None, "it was built from other sources; install mluops-test again")
    return NativeCore(library, _NAMES[library.mluops_use(_NAMES.index(most))], None)


def native_library() -> ctypes.CDLL | None:
    """The loaded library, or None: use numpy."""
    return None if _NUMPY_ALONE.get() else native_core().library


def native_level() -> str | None:
    """The instruction set whose functions are used, or None: use numpy."""
    return None if _NUMPY_ALONE.get() else native_core().level


@contextmanager
def numpy_alone() -> Iterator[None]:
    """Inside, numpy does the work of this thread."""
    before = _NUMPY_ALONE.set(True)
    try:
        yield
    finally:
        _NUMPY_ALONE.reset(before)
