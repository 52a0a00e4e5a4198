"""Large cases on disk outside the checkout: whole or not at all."""

import contextlib
import os
import re
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mluops_gtest.base.files import DECLARATIONS
from mluops_gtest.base.frozen import Value

# Below the cache folder: a folder per --reseed number.
RESEEDED: Final = "reseed"
# In the folder of a cached case.
CASE_FILE: Final = "case.pb"
MADE_FILE: Final = "made.json"
# What `publish` is given to make: <case>-<16 digits>-<16 digits>, with nothing but these files in it.
_ENTRY: Final = re.compile(r"[a-z0-9_]{1,255}-[0-9a-f]{16}-[0-9a-f]{16}")
# The second is what earlier versions wrote.
_BOUND: Final = r"bound-[0-9a-f]{16}\.(?:arrays|npz)"
# The last is what a killed process leaves of a file that it was writing.
_FILE: Final = re.compile(
    rf"{re.escape(CASE_FILE)}|case\.[A-Za-z0-9_]{{1,255}}\.bin|{re.escape(MADE_FILE)}|{_BOUND}"
    r"|\.mluops-[0-9]{1,20}-[0-9a-f]{8}\.tmp"
)
_KEPT: Final = re.compile(r"[A-Za-z0-9_]{1,255}-[0-9a-f]{16}")
_ASIDE: Final = re.compile(rf"\.{_ENTRY.pattern}\.[0-9]{{1,20}}\.[0-9a-f]{{8}}")
# No process writes one case for so long: the one that began was killed.
_ABANDONED_SECONDS: Final = 3600.0


def bound_file(code: str) -> str:
    """In the folder of a cached case: what arithmetic allows it, as the code with this digest computes it."""
    return f"bound-{code}.arrays"


def bound_files(entry: Path) -> list[Path]:
    """All bounds that are kept for a case, by whatever code."""
    return [path for path in entry.iterdir() if re.fullmatch(_BOUND, path.name)]


def publish(entry: Path, fill: Callable[[Path], None]) -> None:
    """Make the folder `entry` by `fill(folder)`, written aside and renamed: readers see all of it or nothing."""
    entry.parent.mkdir(parents=True, exist_ok=True)
    aside = entry.parent / f".{entry.name}.{os.getpid()}.{os.urandom(4).hex()}"
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


class CachedCase(Value):
    """One entry of the cache; `seed` is its --reseed number, None as it is declared."""

    path: Path
    seed: int | None
    nbytes: int
    # Seconds since the epoch.
    used: float


@dataclass(slots=True)
class CacheContents:
    """Everything in the cache folder: cases, what declarations expand to, what killed runs left, and what somebody
    else put there."""

    cases: list[CachedCase] = field(default_factory=list)
    declarations: list[CachedCase] = field(default_factory=list)
    abandoned: list[Path] = field(default_factory=list)
    foreign: list[Path] = field(default_factory=list)


def cache_contents(folder: Path) -> CacheContents:
    """What is in the cache now; entries that vanish while it looks are left out."""
    found = CacheContents()
    for top in _children(folder):
        if top.name == DECLARATIONS:
            _sort_declarations(top, found)
            continue
        if top.name != RESEEDED:
            _sort_entries(top, None, found)
            continue
        for seed in _children(top):
            if seed.name.isascii() and seed.name.isdecimal():
                for operator in _children(seed):
                    _sort_entries(operator, int(seed.name), found)
            else:
                found.foreign.append(seed)
    return found


def _sort_declarations(folder: Path, found: CacheContents) -> None:
    for path in _children(folder):
        with contextlib.suppress(FileNotFoundError):
            status = path.lstat()
            if _KEPT.fullmatch(path.name) and stat.S_ISREG(status.st_mode):
                found.declarations.append(CachedCase(path, None, status.st_size, status.st_mtime))
            elif not path.name.startswith("."):
                found.foreign.append(path)
            elif time.time() - status.st_mtime > _ABANDONED_SECONDS:
                found.abandoned.append(path)


def _sort_entries(operator: Path, seed: int | None, found: CacheContents) -> None:
    if operator.is_symlink() or not operator.is_dir():
        found.foreign.append(operator)
        return
    for path in _children(operator):
        if path.is_symlink():
            found.foreign.append(path)
        elif _ASIDE.fullmatch(path.name):
            if time.time() - _age(path) > _ABANDONED_SECONDS:
                found.abandoned.append(path)
        elif (case := _cached_case(path, seed)) is not None:
            found.cases.append(case)
        elif path.exists():
            found.foreign.append(path)


def _cached_case(path: Path, seed: int | None) -> CachedCase | None:
    """The entry; None if its name or a file in it shows that we did not make it."""
    if not _ENTRY.fullmatch(path.name):
        return None
    try:
        files = {file.name: file.lstat() for file in path.iterdir()}
        ours = all(_FILE.fullmatch(name) and stat.S_ISREG(status.st_mode) for name, status in files.items())
        return CachedCase(path, seed, sum(s.st_size for s in files.values()), path.stat().st_mtime) if ours else None
    except OSError:
        return None


def _children(folder: Path) -> Iterator[Path]:
    """The entries sorted by name; empty if the folder does not exist or is a file."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        yield from sorted(folder.iterdir())


def mark_used(entry: Path) -> None:
    """Remember that the entry was used now, for pruning."""
    with contextlib.suppress(OSError):
        os.utime(entry)


def discard(entry: Path) -> None:
    """Remove a useless entry; it is moved aside first, so that no process reads it half deleted."""
    aside = entry.parent / f".{entry.name}.{os.getpid()}.{os.urandom(4).hex()}"
    try:
        entry.rename(aside)
    except FileNotFoundError:
        return
    if aside.is_dir():
        shutil.rmtree(aside, ignore_errors=True)
    else:
        aside.unlink(missing_ok=True)


def prune(entries: Iterable[Path], folder: Path) -> None:
    """Remove these entries of the cache at `folder`, and the folders that are empty then."""
    for entry in entries:
        discard(entry)
        for parent in entry.parents:
            if not parent.is_relative_to(folder) or parent == folder:
                break
            try:
                parent.rmdir()
            except OSError:
                break  # not empty


def keep_newest(folder: Path, count: int, used: str) -> None:
    """Mark the entry `used` as used now, and remove all but the `count` entries that were used last."""
    mark_used(folder / used)
    entries = [path for path in folder.iterdir() if not path.name.startswith(".")]
    for entry in sorted(entries, key=_age)[:-count]:
        discard(entry)


def _age(entry: Path) -> float:
    try:
        return entry.stat().st_mtime
    except FileNotFoundError:
        return 0.0  # another run removed it meanwhile


def _flush(folder: Path) -> None:
    """Flush before the rename: a power cut must not leave an empty file under the final name."""
    for path in (*folder.iterdir(), folder):
        if path.is_dir() and sys.platform == "win32":
            continue
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
