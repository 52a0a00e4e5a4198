"""What tests share that fetch a public package from the npm registry."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

# A machine that must run everything fails in the npm call instead of skipping.
needs_npm = [
    pytest.mark.needs_npm,
    pytest.mark.skipif(
        shutil.which("npm") is None and os.environ.get("MLUOPS_TEST_REQUIRE_ALL") != "1", reason="npm is not installed"
    ),
]


def install(folder: Path, *packages: str) -> Path:
    """The packages in a folder of their own; the folder that holds them by name."""
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder)]
    done = subprocess.run([*command, *packages], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "node_modules"
