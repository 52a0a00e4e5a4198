"""What tests of native code share: the mark, and the compiler."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

# A machine that must run everything fails in the compiler call instead of skipping.
needs_gcc = [
    pytest.mark.needs_gcc,
    pytest.mark.skipif(
        shutil.which("gcc") is None and os.environ.get("MLUOPS_TEST_REQUIRE_ALL") != "1", reason="gcc is not installed"
    ),
]


def compile_library(target: Path, *sources: Path, flags: tuple[str, ...] = ()) -> Path:
    """The shared object made of these C files."""
    command = ["gcc", "-shared", "-fPIC", "-g", *flags, "-o", str(target), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target
