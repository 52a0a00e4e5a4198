"""The library touches no byte outside of its arrays and does nothing that C leaves undefined."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mluops_gtest.base.native.library import LIBRARY, build, compiler
from tests.conftest import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.needs_gcc]
TESTS = ("tests/unit/base/native", "tests/unit/judging/test_criteria.py")


def runtime(name: str) -> str:
    """The file of a sanitizer's own library, which must be loaded before all others."""
    asked = subprocess.run([*compiler(), f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return asked.stdout.strip()


@pytest.mark.slow(seconds=40)
def test_the_tests_of_the_library_pass_under_sanitizers(tmp_path: Path) -> None:
    target = tmp_path / LIBRARY.name
    flags = ("-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
    assert build(target, flags) is None
    environment = os.environ | {
        "LD_PRELOAD": " ".join(map(runtime, ("libasan.so", "libubsan.so"))),
        # The interpreter itself leaks, and numpy asks for more than there is. Where memory was asked for is told by a
        # debugger; to note it at every request, and to keep what is freed for long, takes most of the time.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:malloc_context_size=0:quarantine_size_mb=16",
        "MLUOPS_TEST_NATIVE_FILE": str(target),
        "MLUOPS_TEST_EXAMPLES": "5",
    }
    # The other types read the same bounds.
    chosen = ("-m", "not slow", "-k", "not (bounds_that_shrink and (half or double))")
    command = [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider", *chosen, *TESTS]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert "passed" in done.stdout
