"""Python code of users runs as it is now, also where it was edited a moment after it was compiled."""

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

# Compiled files know their source by its size and by the whole second of its last change.
UNSETTLED_SECONDS: Final = 2.0


@contextlib.contextmanager
def settled_bytecode(path: Path) -> Iterator[None]:
    """While a Python file in that file's folder may still change within its second, no compiled file is written."""
    before = sys.dont_write_bytecode
    sys.dont_write_bytecode = before or any(map(_is_unsettled, path.parent.glob("*.py")))
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def _is_unsettled(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime < UNSETTLED_SECONDS
    except OSError:
        return False
