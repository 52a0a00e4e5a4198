"""From the word after --backend to a backend: built in, an adapter, an entry point or any Python object."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mluops_gtest.base.errors import BackendError, UnknownNameError, UsageError
from mluops_gtest.base.files import settled_bytecode
from mluops_gtest.base.frozen import Value
from mluops_gtest.core.case import MEMBERS, Backend, invalid_members
from mluops_gtest.core.operator_parts import C_API, KnownOperators

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from mluops_gtest.backends.exec_backend import CallWriter
    from mluops_gtest.core.operator_parts import CApi


ENTRY_POINTS = "mluops_gtest.backends"
# Not entry points: `python cli.py` must work in a checkout without metadata.
BUILT_IN: Final = {
    "numpy": "mluops_gtest.backends.numpy_backend:NumpyBackend",
    "reference": "mluops_gtest.backends.numpy_backend:ReferenceBackend",
}
# What a file is asked for when nothing stands behind its name.
_DEFAULT_ATTRIBUTE: Final = "backend"

# Adapters: words that lead to kernels outside of Python; what follows the colon is the adapter's own.
ADAPTERS: Final = {
    "c": "c:LIBRARY, a shared library with the C API",
    "mlu": "mlu, the C API with its default library names",
    "exec": "exec:COMMAND, any program",
    "torch": "torch[:DEVICE], the operators written with torch",
}
_NEEDS_MORE: Final = ("c", "exec")


class BackendDependencies(Value):
    """What backends need from packages that they may not import, and the options that are theirs."""

    operators: Callable[[], KnownOperators]
    call_writer: "Callable[[], CallWriter]"
    runtime: str | None = None
    serve: bool = False


def is_in_process(spec: str) -> bool:
    """Our own backends need no process of their own; whatever a user brings does."""
    return spec in BUILT_IN


def is_native(spec: str) -> bool:
    """The backend runs code that can take the whole process down."""
    return spec.partition(":")[0] in ("c", "mlu")


def can_be_debugged(spec: str) -> bool:
    """The backend's code runs in a process of ours, where a debugger sees it; a program has processes of its own."""
    return spec.partition(":")[0] != "exec"


def has_host_memory(spec: str, runtime: str | None) -> bool:
    """The backend may work on the harness's own buffers; a library with a runtime says no when it loads."""
    return spec.partition(":")[0] not in ("mlu", "exec", "torch") and runtime is None


class KnownBackend(Value):
    """A backend that can be named, and whether it loads."""

    name: str
    origin: str
    problem: str = ""


def load_backend(spec: str, dependencies: BackendDependencies) -> Backend:
    """The backend that `spec` names; an unknown word is a usage error, one that does not load exits 4."""
    word, _, rest = spec.partition(":")
    if word not in ("c", "mlu") and dependencies.runtime is not None:
        raise UsageError(f"--runtime works with C libraries only (c:LIBRARY, mlu); the backend is {spec!r}.")
    if word != "exec" and dependencies.serve:
        raise UsageError(f"--serve works with exec:COMMAND only; the backend is {spec!r}.")
    if spec in BUILT_IN:
        module, _, attribute = BUILT_IN[spec].partition(":")
        backend: Backend = getattr(importlib.import_module(module), attribute)(dependencies.operators())
        return backend
    if word in ADAPTERS:
        return _open(word, rest, dependencies)
    for point in _installed():
        if point.name == spec:
            return checked_backend(spec, _guarded(spec, point.load))
    return _load_object(spec)


def _open(word: str, rest: str, dependencies: BackendDependencies) -> Backend:
    """The adapter of that word; each is imported only when it is used."""
    if word in _NEEDS_MORE and not rest:
        raise UsageError(f"--backend {word}: is not complete; write {ADAPTERS[word]}.")
    if word == "mlu" and rest:
        raise UsageError("--backend mlu takes no argument; for your own library write c:LIBRARY.")
    match word:
        case "c":
            from mluops_gtest.backends.c_library import CLibraryBackend

            return CLibraryBackend(_c_functions(dependencies), rest, dependencies.runtime)
        case "mlu":
            from mluops_gtest.backends.c_library import CLibraryBackend

            return CLibraryBackend.mlu(_c_functions(dependencies), dependencies.runtime)
        case "exec":
            from mluops_gtest.backends.exec_backend import ExecBackend

            return ExecBackend(rest, dependencies.call_writer(), dependencies.serve)
    from mluops_gtest.backends.numpy_backend import TorchBackend

    return TorchBackend(dependencies.operators(), rest or "cpu")


def python_target(spec: str) -> str | None:
    """The module or file of a Python object that `spec` names, be it by an entry point; None where it names none."""
    for point in _installed():
        if point.name == spec:
            return point.module
    return _split(spec)[0] or None


def _installed() -> "Iterable[EntryPoint]":
    # Takes longer to import than the rest of this module together, and most runs need none.
    import importlib.metadata

    return importlib.metadata.entry_points(group=ENTRY_POINTS)


def _split(spec: str) -> tuple[str, str, str]:
    """Module or file, the colon, and the attribute."""
    return (spec, ":", _DEFAULT_ATTRIBUTE) if spec.endswith(".py") else spec.rpartition(":")


def _c_functions(dependencies: BackendDependencies) -> "Callable[[str], CApi | None]":
    return lambda operator: dependencies.operators().part(operator, C_API)


def _load_object(spec: str) -> Backend:
    """A Python object by module:attribute or path/file.py[:attribute]."""
    target, colon, attribute = _split(spec)
    if not colon or not target or not attribute:
        words = [*BUILT_IN, *ADAPTERS, *_entry_points(), "module:attribute", "path/file.py[:attribute]"]
        raise UnknownNameError("backend", spec, words)
    is_path = target.endswith(".py") or "/" in target or "\\" in target
    module = _load_file(spec, Path(target)) if is_path else _guarded(spec, lambda: _import(target))
    value = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            advice = f" Name one that it has: {spec}:ATTRIBUTE." if target == spec else ""
            raise BackendError(f"Backend {spec!r}: {target} has no attribute {attribute!r}.{advice}")
        value = getattr(value, part)
    return checked_backend(spec, value)


def _entry_points() -> list[str]:
    return [point.name for point in _installed()]


def backend_words() -> list[str]:
    """Everything that may begin a --backend word, without loading any of it."""
    return [*BUILT_IN, *(f"{word}:" if word in _NEEDS_MORE else word for word in ADAPTERS), *_entry_points()]


def known_backends() -> Iterator[KnownBackend]:
    """The named backends with their status; an entry point that does not load says why."""
    for name, target in BUILT_IN.items():
        yield KnownBackend(name, f"built in ({target})")
    for word, message in ADAPTERS.items():
        yield KnownBackend(word, message, _adapter_problem(word))
    for point in _installed():
        problem = ""
        try:
            checked_backend(point.name, _guarded(point.name, point.load))
        except BackendError as error:
            problem = str(error)
        yield KnownBackend(point.name, f"entry point ({point.value})", problem)


def _adapter_problem(word: str) -> str:
    """Why an adapter cannot be used here, where that can be told without a library or a command."""
    if word == "torch" and importlib.util.find_spec("torch") is None:
        return "torch is not installed: pip install 'mluops-test[torch]'"
    if word == "mlu":
        from mluops_gtest.backends.c_library import CLibraryBackend

        try:
            CLibraryBackend.mlu(lambda _: None)
        except BackendError as error:
            return str(error)
    return ""


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
    with settled_bytecode(path):
        _guarded(spec, lambda: loader.exec_module(module))
    return module


def _guarded(spec: str, load: Any) -> Any:
    """Whatever goes wrong in the user's code while it loads is told as one sentence."""
    try:
        return load()
    except (Exception, SystemExit) as error:
        raise BackendError(f"Backend {spec!r} does not load: {type(error).__name__}: {error}") from error


def checked_backend(spec: str, value: Any) -> Backend:
    """An instance as it is; a class or a factory without arguments is called."""
    if inspect.isclass(value) or (callable(value) and not hasattr(value, "run")):
        value = _guarded(spec, value)
    for misfit in invalid_members(value, [member for member in MEMBERS if member.required]):
        raise BackendError(f"Backend {spec!r}: {type(value).__name__} is not a backend. {misfit}")
    backend: Backend = value
    return backend
