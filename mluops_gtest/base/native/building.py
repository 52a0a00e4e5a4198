"""Compiles the C library; the build hook loads this file by path, before anything is installed."""

import hashlib
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

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
