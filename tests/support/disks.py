"""Commands on disks that are full, and disks that are small."""

import os
import resource
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT


def command(*arguments, most_bytes=None, cwd=None, **streams):
    """The command in a process of its own; no file of it may grow beyond `most_bytes`."""

    def limit():
        if most_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if most_bytes is not None:
        # Python does not notice a short write of a compiled module, and other processes would read what is left of it.
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    return subprocess.run(
        [sys.executable, "-m", "mluops_gtest", *map(str, arguments)],
        cwd=cwd, env=environment, preexec_fn=limit,
        text=True, timeout=120, check=False, **streams,
    )  # fmt: skip


def mount(folder: Path, kilobytes: int) -> bool:
    """A file system of that size in the folder; False where this user may not mount."""
    words = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "none", str(folder)]
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def unmount(folder: Path) -> None:
    subprocess.run(["umount", str(folder)], check=True)
