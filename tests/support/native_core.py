"""Which of the two ways tests go: numpy alone, or the C library with the kernels of one instruction set."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from mluops_gtest.base.native import library
from mluops_gtest.base.native.library import LEVELS, NativeCore, compiler, load

NUMPY = "numpy"
NATIVE = "native"  # with the best kernels that this processor runs


@cache
def built() -> NativeCore:
    """The library beside the package, whatever the environment says."""
    return load(Path(os.environ.get("MLUOPS_TEST_NATIVE_FILE") or library.LIBRARY))


@contextmanager
def going(way: str) -> Iterator[None]:
    """Inside, arrays are compared, numbers read and drawn that way; skipped where this machine cannot."""
    if way == NUMPY:
        with library.numpy_alone():
            yield
        return
    core = built()
    if core.library is None:
        if compiler() is not None and os.environ.get("MLUOPS_TEST_REQUIRE_ALL"):
            pytest.fail(f"there is a C compiler, but the native core is {core.words}")
        pytest.skip(f"the native core is {core.words}")
    names = list(LEVELS)
    way = core.level if way == NATIVE else way
    used = names[core.library.mluops_use(names.index(way))]
    try:
        if used != way:
            pytest.skip(f"this processor has no {way}")
        chosen = NativeCore(core.library, way, None)
        # To make a mock takes longer than most of what is done inside.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(library, "native_core", lambda: chosen)
            yield
    finally:
        core.library.mluops_use(names.index(core.level))
