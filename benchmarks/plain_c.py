"""Plain C loops, compiled where they are measured: what a careful programmer gets without any library."""

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from mluops_gtest.core.tensor import Array

SOURCE = Path(__file__).with_name("plain_loops.c")


@cache
def compiled() -> ctypes.CDLL | None:
    """The loops; None where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "plain.so")
        subprocess.run([compiler, "-O3", "-march=native", "-shared", "-fPIC", "-o", library, SOURCE, "-lm"], check=True)
        return ctypes.CDLL(str(library))


def at(array: Array) -> ctypes.c_void_p:
    """The address of a contiguous array."""
    assert array.flags.c_contiguous
    return ctypes.c_void_p(array.ctypes.data)


def number(value: int) -> ctypes.c_int64:
    return ctypes.c_int64(int(value))
