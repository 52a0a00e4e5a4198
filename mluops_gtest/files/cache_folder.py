"""Where things are kept that can be made again."""

import os
import sys
from pathlib import Path
from typing import Final

ENVIRONMENT: Final = "MLUOPS_TEST_CACHE"
# Below it: what declarations expand to, a file for each YAML file. No operator has such a name.
DECLARATIONS: Final = ".declarations"


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
