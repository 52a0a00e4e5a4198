"""The C example built outside the checkout, once for all tests."""

import shutil
import subprocess
from pathlib import Path

from tests.conftest import ROOT
from tests.support.built_once import built_once

SOURCES = {path.stem: path.read_text() for path in (ROOT / "examples" / "c_backend").glob("*.c")}
# Operators that the library has: each has a file, whose code makes the deliberate mistakes when it is told to.
OPERATORS_IN_C = sorted(name for name, text in SOURCES.items() if "BUGS_BEFORE" in text)


def c_example(tmp_path_factory) -> Path:
    """A folder with the library, and in its `build` the variants, the bare and the sanitized one."""

    def build(folder):
        shutil.copytree(ROOT / "examples" / "c_backend", folder, ignore=shutil.ignore_patterns("*.so", "build"))
        # A mistake stays one, however little the compiler optimises, and a buffer is as long.
        for words in (["all"], ["variants", "bare", "CFLAGS=-O0"], ["sanitize"]):
            subprocess.run(["make", "-j2", "-C", folder, *words], check=True, capture_output=True)

    return built_once(tmp_path_factory, "c-example", build)
