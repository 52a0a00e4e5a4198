"""What tests with protobuf's own compiler share: the mark, and the call."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

# A machine that must run everything fails in the call instead of skipping.
_skipped = pytest.mark.skipif(
    shutil.which("protoc") is None and os.environ.get("MLUOPS_TEST_REQUIRE_ALL") != "1",
    reason="protoc is not installed: apt-get install protobuf-compiler",
)


def needs_protoc(test):
    """The mark of a test that calls protoc."""
    return pytest.mark.needs_protoc(_skipped(test))


def protoc(folder: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """What protoc writes, with the .proto files of the folder."""
    command = ["protoc", f"--proto_path={folder}", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout
