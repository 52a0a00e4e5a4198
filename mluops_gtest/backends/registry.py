"""From the word after --backend to a backend: built in, entry point, module:attribute or file.py:attribute."""

import importlib
import importlib.metadata
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mluops_gtest.errors import BackendError, UnknownNameError
from mluops_gtest.model.call import Backend
from mluops_gtest.model.operator import Operator

ENTRY_POINTS = "mluops_gtest.backends"
# Not entry points: `python cli.py` must work in a checkout without metadata.
BUILT_IN: Final = {
    "numpy": "mluops_gtest.backends.numpy_backend:NumpyBackend",
    "reference": "mluops_gtest.backends.reference_backend:ReferenceBackend",
}


# Words before a colon that lead to kernels in other languages.
_NATIVE: Final = ("c", "mlu")


def runs_inline(spec: str) -> bool:
    """Our own backends need no process of their own; whatever a user brings does."""
    return spec in BUILT_IN


def is_native(spec: str) -> bool:
    """The backend runs code that can take the whole process down."""
    return spec.partition(":")[0] in _NATIVE


@dataclass(frozen=True, slots=True)
class KnownBackend:
    """A backend that can be named, and whether it loads."""

    name: str
    origin: str
    problem: str = ""


def load_backend(
    spec: str, resolve: Callable[[], Mapping[str, Operator]], *, runtime: str | None = None, serve: bool = False
) -> Backend:
    """The backend that `spec` names; an unknown word is a usage error, one that does not load exits 4.

    `resolve` gives the operators to a backend that is made of them; `runtime` and `serve` are for doors.
    """
    if spec in BUILT_IN:
        module, _, attribute = BUILT_IN[spec].partition(":")
        backend: Backend = getattr(importlib.import_module(module), attribute)(resolve())
        return backend
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        if point.name == spec:
            return _checked(spec, _guarded(spec, point.load))
    target, colon, attribute = spec.rpartition(":")
    if not colon or not target or not attribute:
        raise UnknownNameError("backend", spec, [*known_names(), "module:attribute", "path/file.py:attribute"])
    module = _load_file(spec, Path(target)) if _is_path(target) else _guarded(spec, lambda: _import(target))
    value = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            raise BackendError(f"Backend {spec!r}: {target} has no attribute {attribute!r}.")
        value = getattr(value, part)
    return _checked(spec, value)


def known_names() -> list[str]:
    """Every backend that has a name of its own."""
    return [*BUILT_IN, *(point.name for point in importlib.metadata.entry_points(group=ENTRY_POINTS))]


def known_backends() -> Iterator[KnownBackend]:
    """The named backends with their status; an entry point that does not load says why."""
    for name, target in BUILT_IN.items():
        yield KnownBackend(name, f"built in ({target})")
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        try:
            _checked(point.name, _guarded(point.name, point.load))
        except BackendError as error:
            yield KnownBackend(point.name, f"entry point ({point.value})", str(error))
        else:
            yield KnownBackend(point.name, f"entry point ({point.value})")


def _is_path(target: str) -> bool:
    return target.endswith(".py") or "/" in target or "\\" in target


def _import(name: str) -> Any:
    # As `python -m` does: a module beside the user is found although the command is a script.
    if "" not in sys.path:
        sys.path.insert(0, "")
    return importlib.import_module(name)


def _load_file(spec: str, path: Path) -> Any:
    if not path.is_file():
        raise BackendError(f"Backend {spec!r}: the file {path} does not exist.")
    name = f"_mluops_gtest_backend_{path.stem}"
    module_spec = importlib.util.spec_from_file_location(name, path)
    if module_spec is None or module_spec.loader is None:
        raise BackendError(f"Backend {spec!r}: {path} is not a Python file.")
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[name] = module
    loader = module_spec.loader
    _guarded(spec, lambda: loader.exec_module(module))
    return module


def _guarded(spec: str, load: Any) -> Any:
    """Whatever goes wrong in the user's code while it loads is told as one sentence."""
    try:
        return load()
    except (Exception, SystemExit) as error:
        raise BackendError(f"Backend {spec!r} does not load: {type(error).__name__}: {error}") from error


def _checked(spec: str, value: Any) -> Backend:
    """An instance as it is; a class or a factory without arguments is called."""
    if inspect.isclass(value) or (callable(value) and not hasattr(value, "run")):
        value = _guarded(spec, value)
    for attribute, wanted in (("name", "a str"), ("run", "a method run(call) -> Status")):
        if not hasattr(value, attribute):
            raise BackendError(f"Backend {spec!r}: {type(value).__name__} has no {attribute!r}; it needs {wanted}.")
    if not isinstance(value.name, str) or not callable(value.run):
        raise BackendError(f"Backend {spec!r}: `name` must be a str and `run` a method.")
    backend: Backend = value
    return backend
