"""The functions of the C API and of the device runtime with the types of their arguments."""

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from ctypes import POINTER, byref, c_float, c_int, c_int64, c_size_t, c_void_p
from pathlib import Path
from typing import Any, Final

from mluops_gtest.errors import BackendError
from mluops_gtest.model.status import Status

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


Prototypes = Mapping[str, tuple[Any, ...]]

MADE: Final = POINTER(c_void_p)  # a handle or descriptor that the function makes
_INTS: Final = POINTER(c_int)
_LONGS: Final = POINTER(c_int64)

# Without these no operator can be called.
CORE: Final[Prototypes] = {
    "mluOpCreate": (MADE,),
    "mluOpDestroy": (c_void_p,),
    "mluOpSetQueue": (c_void_p, c_void_p),
    "mluOpCreateTensorDescriptor": (MADE,),
    "mluOpDestroyTensorDescriptor": (c_void_p,),
    "mluOpSetTensorDescriptor_v2": (c_void_p, c_int, c_int, c_int, _LONGS),
    "mluOpSetTensorDescriptorEx_v2": (c_void_p, c_int, c_int, c_int, _LONGS, _LONGS),
}
# It answers nothing, and fills in three numbers.
VERSION: Final[Prototypes] = {"mluOpGetLibVersion": (_INTS, _INTS, _INTS)}
# Offered by libraries that can play another device than the one they run on.
HOOKS: Final[Prototypes] = {
    "mluOpTestSetArch": (c_void_p, c_int),
    "mluOpTestSetNramBytes": (c_void_p, c_int64),
}
RUNTIME: Final[Prototypes] = {
    "cnrtSetDevice": (c_int,),
    "cnrtQueueCreate": (MADE,),
    "cnrtQueueDestroy": (c_void_p,),
    "cnrtQueueSync": (c_void_p,),
    "cnrtMalloc": (MADE, c_size_t),
    "cnrtFree": (c_void_p,),
    "cnrtMemcpy": (c_void_p, c_void_p, c_size_t, c_int),
}
# A runtime without these is good enough: the wall clock times the call then.
NOTIFIERS: Final[Prototypes] = {
    "cnrtNotifierCreate": (MADE,),
    "cnrtNotifierDestroy": (c_void_p,),
    "cnrtPlaceNotifier": (c_void_p, c_void_p),
    "cnrtWaitNotifier": (c_void_p,),
    "cnrtNotifierDuration": (c_void_p, c_void_p, POINTER(c_float)),
}


class Refused(Exception):  # noqa: N818 - an answer of the library, not a fault of the adapter
    """A function around the operator did not answer success; `note` says which."""

    def __init__(self, status: Status, note: str) -> None:
        super().__init__(note)
        self.status = status
        self.note = note


def status_of(function: str, code: int) -> Status:
    """The number that a function of the library answered as a status."""
    try:
        return Status(code)
    except ValueError:
        raise ValueError(f"{function} answered {code}, which is not an mluOpStatus_t (0 to {max(Status):d})") from None


class Api:
    """The library's functions around its operators, called by name; `Refused` names the one that refuses."""

    def __init__(self, library: SharedLibrary) -> None:
        missing = library.lacking(CORE)
        if missing:
            raise BackendError(
                f"The library {library.name} does not export {', '.join(missing)}. Every operator needs these; "
                "docs/reference/c-backend.md lists what a library must offer."
            )
        self.library = library
        self._functions: dict[str, Function] = {}
        self.bind({**CORE, **HOOKS, **VERSION})

    def bind(self, prototypes: Prototypes) -> None:
        """Make these functions callable, those that the library exports."""
        for name, types in prototypes.items():
            if self.library.exports(name):
                self._functions[name] = self.library.bind(name, types)

    def offers(self, name: str) -> bool:
        """An optional function is there."""
        return name in self._functions

    def version(self) -> str:
        """The version that the library tells, e.g. 1.2.0; empty where it tells none."""
        if not self.offers("mluOpGetLibVersion"):
            return ""
        numbers = [c_int() for _ in range(3)]
        self._functions["mluOpGetLibVersion"](*map(byref, numbers))
        return ".".join(str(number.value) for number in numbers)

    def call(self, name: str, *arguments: Any, about: str = "") -> None:
        """Call the function; `about` tells what it was called for, where its name does not."""
        status = status_of(name, self._functions[name](*arguments))
        if status is not Status.SUCCESS:
            raise Refused(status, f"status from {name}{f' for {about}' if about else ''}")

    def make(self, name: str) -> int:
        """The handle or descriptor that the function makes."""
        made = c_void_p()
        self.call(name, byref(made))
        if made.value is None:
            raise Refused(Status.INTERNAL_ERROR, f"{name} answered SUCCESS and made nothing")
        return made.value
