"""Large cases on disk outside the checkout: whole or not at all."""

import os
import secrets
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

ENVIRONMENT = "MLUOPS_TEST_CACHE"


def cache_folder() -> Path:
    """$MLUOPS_TEST_CACHE, else the platform's cache directory."""
    given = os.environ.get(ENVIRONMENT)
    if given:
        return Path(given)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "mluops-test"


def publish(entry: Path, fill: Callable[[Path], None]) -> None:
    """Make the folder `entry` by `fill(folder)`, written aside and renamed: readers see all of it or nothing."""
    entry.parent.mkdir(parents=True, exist_ok=True)
    aside = entry.parent / f".{entry.name}.{os.getpid()}.{secrets.token_hex(4)}"
    aside.mkdir()
    try:
        fill(aside)
        _flush(aside)
        aside.rename(entry)
    except OSError:
        # Two runs may finish the same entry: the first one wins, both wrote the same bytes.
        if not entry.is_dir():
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def discard(entry: Path) -> None:
    """Remove an entry that cannot be used; moved aside first, so that nobody reads it half deleted."""
    aside = entry.parent / f".{entry.name}.{os.getpid()}.{secrets.token_hex(4)}"
    try:
        entry.rename(aside)
    except FileNotFoundError:
        return
    shutil.rmtree(aside, ignore_errors=True)


def keep_newest(folder: Path, count: int, used: str) -> None:
    """Mark the entry `used` as used now, and remove all but the `count` entries that were used last."""
    os.utime(folder / used)
    entries = [path for path in folder.iterdir() if not path.name.startswith(".")]
    for entry in sorted(entries, key=_age)[:-count]:
        discard(entry)


def _age(entry: Path) -> float:
    try:
        return entry.stat().st_mtime
    except FileNotFoundError:
        return 0.0  # another run removed it meanwhile


def _flush(folder: Path) -> None:
    """Bytes on disk before the rename is: a power cut must not leave an empty file under the final name."""
    for path in (*folder.iterdir(), folder):
        if path.is_dir() and sys.platform == "win32":
            continue
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
