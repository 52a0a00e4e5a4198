"""What several test processes need and only one of them makes."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path


def shared_folder(tmp_path_factory) -> Path:
    """One folder for all workers of this run of the tests."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if os.environ.get("PYTEST_XDIST_WORKER") else own


def built_once(tmp_path_factory, name: str, build: Callable[[Path], None]) -> Path:
    """The folder that `build` fills: by the first who asks, while the others wait."""
    folder = shared_folder(tmp_path_factory) / name
    with folder.with_name(f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder.with_name(f"{name}.done")
        if not done.exists():
            build(folder)
            done.touch()
    return folder
