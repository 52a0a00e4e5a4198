"""Removes folders that others filled: however deep, without recursion, never through a link."""

import contextlib
import itertools
import os
from collections.abc import Callable


def remove_tree(folder: str) -> None:
    """Remove the folder and all below it, as far as the system lets us.

    Folders inside folders are moved up first, so that no path grows long and no stack deep.
    """
    names = (os.path.join(folder, f".up-{os.getpid()}-{number}") for number in itertools.count())
    while children := _entries(folder):
        done = False
        for child in children:
            if not child.is_dir(follow_symlinks=False):
                done |= _succeeds(os.unlink, child.path)
                continue
            for inner in _entries(child.path):
                if inner.is_dir(follow_symlinks=False):
                    done |= _succeeds(os.rename, inner.path, next(names))
                else:
                    done |= _succeeds(os.unlink, inner.path)
            done |= _succeeds(os.rmdir, child.path)
        if not done:
            return
    _succeeds(os.rmdir, folder)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """What is in the folder; nothing where it cannot be read."""
    with contextlib.suppress(OSError):
        # Whoever made it may have locked it.
        os.chmod(folder, 0o700)
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _succeeds(change: Callable[..., None], *paths: str) -> bool:
    try:
        change(*paths)
    except OSError:
        return False
    return True
