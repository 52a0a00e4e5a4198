"""A shared library in this process: found, loaded, its functions bound by name."""

import ctypes
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from mluops_gtest.errors import BackendError

Function = Callable[..., int]


class SharedLibrary:
    """Loads `library`: a file if there is one of that path, else a name that the system's loader looks for."""

    def __init__(self, library: str | Path, *, visible: bool = False) -> None:
        path = Path(library)
        self.name = path.name
        # A bare name is no path to the loader, even where the file lies in the current folder.
        target = str(path.resolve()) if path.is_file() else str(library)
        try:
            self._library = ctypes.CDLL(target, ctypes.RTLD_GLOBAL if visible else ctypes.RTLD_LOCAL)
        except OSError as error:
            raise BackendError(
                f"The library {target} does not load: {error}. Give the path of a shared object, or a name that the "
                "loader finds (LD_LIBRARY_PATH, ldconfig)."
            ) from error

    def exports(self, name: str) -> bool:
        """The library, or one that it depends on, has this function."""
        return hasattr(self._library, name)

    def lacking(self, names: Iterable[str]) -> list[str]:
        """Those of the functions that are not there."""
        return [name for name in names if not self.exports(name)]

    def bind(self, name: str, types: Sequence[Any]) -> Function:
        """The function of that name with the types of its arguments; every one answers an int."""
        function = getattr(self._library, name)
        function.argtypes = list(types)
        function.restype = ctypes.c_int
        bound: Function = function
        return bound
