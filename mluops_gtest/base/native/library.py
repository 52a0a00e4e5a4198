"""The C library, if there is one that may be used: compiled beside its sources, loaded when first asked for.

The build hook loads this file by path, before anything is installed: nothing of the package is imported at the top.
"""

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

SOURCES: Final = Path(__file__).parent / "c"
# Beside the sources: no Python package, where a library would be taken for a module.
LIBRARY: Final = SOURCES / {"win32": "mluops_native.dll", "darwin": "libmluops_native.dylib"}.get(
    sys.platform, "libmluops_native.so"
)
# The order is that of the levels in dispatch.c. -mfma is left out: a fused product has other bits.
LEVELS: Final = {
    "baseline": (),
    "avx2": ("-mavx2", "-mf16c"),
    "avx512": (
        *("-mavx2", "-mf16c", "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl"),
        "-mprefer-vector-width=512",
    ),
}
# What is compiled once for each level.
LEVELLED: Final = ("kernels.c", "rows.c")
# Nothing here changes a rounding: no -ffast-math (it flushes subnormals in the whole process), and no contraction of a
# product and a sum. Nobody looks at floating-point exceptions and errno, and bits are read through integer pointers.
FLAGS: Final = (
    *("-std=c11", "-O3", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror"),
    *("-ffp-contract=off", "-fno-trapping-math", "-fno-math-errno", "-fno-strict-aliasing"),
)


def sources_digest(folder: Path = SOURCES) -> str:
    """Tells a library that was built from other sources, or with other flags."""
    digest = hashlib.sha256(repr((FLAGS, LEVELS)).encode())
    for path in sorted(folder.glob("*.[ch]")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def compiler() -> list[str] | None:
    """$CC, else the first C compiler on the path; None where there is none."""
    named = os.environ.get("CC")
    found = shlex.split(named) if named else next(([c] for c in ("cc", "gcc", "clang") if shutil.which(c)), None)
    return found if found and shutil.which(found[0]) else None


def build_unless_current(target: Path) -> str | None:
    """As `build`, unless the file was built from these sources; what cannot be built anew is removed."""
    if target.exists() and sources_digest().encode() in target.read_bytes():
        return None
    failure = build(target)
    if failure is not None:
        target.unlink(missing_ok=True)
    return failure


def build(target: Path, extra: Sequence[str] = ()) -> str | None:
    """Compile the library to that file; None on success, else why there is none. `extra` flags go to every step."""
    # Late: who only loads the library does not compile.
    import tempfile
    from concurrent.futures import ThreadPoolExecutor

    command = compiler()
    if command is None:
        return "no C compiler"
    intel = platform.machine().lower() in ("x86_64", "amd64")
    levels = LEVELS if intel else {"baseline": LEVELS["baseline"]}
    with tempfile.TemporaryDirectory() as folder:
        objects = {
            Path(folder, f"{source}.{name}.o"): (source, (*LEVELS[name], f"-DLEVEL={name}"))
            for source in LEVELLED
            for name in levels
        }
        for path in sorted(SOURCES.glob("*.c")):
            if path.name not in LEVELLED:
                flags = (f'-DSOURCES="{sources_digest()}"',) if path.name == "dispatch.c" else ()
                objects[Path(folder, f"{path.stem}.o")] = (path.name, flags)

        def compiled(step: tuple[Path, tuple[str, Sequence[str]]]) -> str | None:
            output, (source, flags) = step
            return _failure([*command, *FLAGS, *flags, *extra, "-c", str(SOURCES / source), "-o", str(output)])

        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            failures = [failure for failure in pool.map(compiled, objects.items()) if failure]
        linked = Path(folder, LIBRARY.name)
        failure = (
            failures[0] if failures else _failure([*command, "-shared", *extra, "-o", str(linked), *map(str, objects)])
        )
        if failure is None:
            # In one step: a process that has the old library open keeps it.
            beside = target.with_name(f"{target.name}.{os.getpid()}")
            shutil.copyfile(linked, beside)
            beside.replace(target)
        return failure


def _failure(command: Sequence[str]) -> str | None:
    import subprocess

    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return None if done.returncode == 0 else done.stderr or f"{command[0]} answers {done.returncode}"


ENVIRONMENT: Final = "MLUOPS_TEST_NATIVE"
_OFF: Final = "0"
_NAMES: Final = tuple(LEVELS)
_NUMPY_ALONE: Final = ContextVar("numpy_alone", default=False)


class NativeCore(NamedTuple):
    """What is used: the loaded library, or the reason why numpy does the work."""

    library: ctypes.CDLL | None
    level: str | None
    reason: str | None

    @property
    def words(self) -> str:
        """For people."""
        return f"active ({self.level})" if self.library is not None else f"not used: {self.reason}"


@cache
def native_core() -> NativeCore:
    """Looks once per process; $MLUOPS_TEST_NATIVE is 0 (use numpy), 1, or the best instruction set to use."""
    wanted = os.environ.get(ENVIRONMENT) or "1"
    if wanted == _OFF:
        return NativeCore(None, None, f"{ENVIRONMENT}=0")
    if wanted != "1" and wanted not in _NAMES:
        from mluops_gtest.base.errors import UsageError  # late: the build hook has no package to import from

        raise UsageError(f"{ENVIRONMENT}={wanted} is not known. Allowed: 0, 1, {', '.join(_NAMES)}.")
    return load(LIBRARY, wanted if wanted in _NAMES else _NAMES[-1])


def load(path: Path, most: str = _NAMES[-1]) -> NativeCore:
    """The library in that file, with the kernels of at most that instruction set."""
    if not path.exists():
        return NativeCore(None, None, "it was not built; install a C compiler and mluops-test again")
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        return NativeCore(None, None, f"it cannot be loaded: {error}")
    library.mluops_sources.restype = ctypes.c_char_p
    if SOURCES.is_dir() and library.mluops_sources().decode() != sources_digest():
        return NativeCore(None, None, "it was built from other sources; install mluops-test again")
    return NativeCore(library, _NAMES[library.mluops_use(_NAMES.index(most))], None)


def native_library() -> ctypes.CDLL | None:
    """The loaded library, or None: use numpy."""
    return None if _NUMPY_ALONE.get() else native_core().library


def native_function(name: str, result: Any, *arguments: Any) -> Any:
    """The library's function of that name with these types, or None: use numpy."""
    library = native_library()
    return None if library is None else _typed_function(library, name, result, arguments)


@cache
def _typed_function(library: ctypes.CDLL, name: str, result: Any, arguments: tuple[Any, ...]) -> Any:
    function = getattr(library, f"mluops_{name}")
    function.restype, function.argtypes = result, arguments
    return function


def native_level() -> str | None:
    """The instruction set whose functions are used, or None: use numpy."""
    return None if _NUMPY_ALONE.get() else native_core().level


@contextmanager
def numpy_alone() -> Iterator[None]:
    """Inside, numpy does the work of this thread."""
    before = _NUMPY_ALONE.set(True)
    try:
        yield
    finally:
        _NUMPY_ALONE.reset(before)
