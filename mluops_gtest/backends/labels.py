"""The files that a backend's kernels come from, told by digest and build id, without loading any of them.

The labels of a run: what the user says, the git state of the folder, and the files of the backend.
"""

import contextlib
import hashlib
import importlib.machinery
import os
import shlex
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from mluops_gtest.backends.registry import BUILT_IN, python_target
from mluops_gtest.base.text import (
    BRANCH,
    BUILD_ID,
    CLEAN,
    COMMIT,
    FILE,
    MAX_LETTERS,
    STATE,
    VERSION,
    merged_labels,
    strip_to_line,
)

_MAGIC: Final = b"\x7fELF"
_PT_NOTE: Final = 4
_NT_GNU_BUILD_ID: Final = 3
_OWNER: Final = b"GNU\0"
# More is neither a table of segments nor a note that a linker writes.
_MAX_SEGMENTS: Final = 4096
_MAX_NOTES: Final = 1 << 16


class _Form(NamedTuple):
    """Where a file of one word size has its numbers: the header behind the first 16 bytes, and one segment."""

    header: str
    segment: str
    # Places of type, offset and size among the numbers of a segment.
    places: tuple[int, int, int]


_FORMS: Final = {
    1: _Form("HHIIIIIHHHHHH", "IIIIIIII", (0, 1, 4)),
    2: _Form("HHIQQQIHHHHHH", "IIQQQQQQ", (0, 2, 5)),
}


def build_id(path: Path) -> str:
    """The GNU build id in hexadecimal; empty where the file is no ELF file, has none or is damaged."""
    try:
        with path.open("rb") as file:
            return _build_id(file)
    except (OSError, struct.error, OverflowError, ValueError):
        return ""


def _build_id(file: BinaryIO) -> str:
    identity = file.read(16)
    form = _FORMS.get(identity[4]) if identity[:4] == _MAGIC and len(identity) == 16 else None
    if form is None:
        return ""
    order = ">" if identity[5] == 2 else "<"
    header = struct.Struct(order + form.header)
    numbers = header.unpack(file.read(header.size))
    table, size, count = numbers[4], numbers[8], numbers[9]
    segment = struct.Struct(order + form.segment)
    if size < segment.size:
        return ""
    for index in range(min(count, _MAX_SEGMENTS)):
        file.seek(table + index * size)
        fields = segment.unpack(file.read(segment.size))
        kind, offset, length = (fields[place] for place in form.places)
        if kind == _PT_NOTE and length <= _MAX_NOTES:
            file.seek(offset)
            found = _within(file.read(length), order)
            if found:
                return found
    return ""


def _within(notes: bytes, order: str) -> str:
    """The build id among the notes of one segment; every part of a note fills whole words of 4 bytes."""
    at = 0
    while at + 12 <= len(notes):
        name, size, kind = struct.unpack_from(f"{order}III", notes, at)
        begin = at + 12 + -(-name // 4) * 4
        if kind == _NT_GNU_BUILD_ID and notes[at + 12 : at + 12 + name] == _OWNER:
            found = notes[begin : begin + size]
            return found.hex() if len(found) == size else ""
        at = begin + -(-size // 4) * 4
    return ""


_DIGITS: Final = 16
# A second of hashing at most; a larger library is told by its build id.
_MAX_BYTES: Final = 1 << 29
_LIBRARY_FOLDERS: Final = ("/usr/local/lib", "/lib64", "/usr/lib64", "/lib", "/usr/lib")


def file_labels(spec: str, runtime: str | None) -> dict[str, str]:
    """`backend.file` with a short sha256 per file, and `backend.build_id` where the linker left one."""
    files = list(dict.fromkeys(_files(spec, runtime)))
    labels = {FILE: ", ".join(filter(None, map(_digested, files)))}
    labels[BUILD_ID] = ", ".join(filter(None, map(build_id, files)))
    return {name: value for name, value in labels.items() if value}


def _files(spec: str, runtime: str | None) -> Iterator[Path]:
    word, _, rest = spec.partition(":")
    if spec in BUILT_IN or word == "torch":
        return
    found: list[Path | None] = []
    if word in ("c", "mlu"):
        from mluops_gtest.backends.c_library import MLU_LIBRARY, MLU_RUNTIME

        libraries = (MLU_LIBRARY, runtime or MLU_RUNTIME) if word == "mlu" else (rest, runtime)
        found = [_library(library) for library in libraries if library]
    elif word == "exec":
        found = _programs(rest)
    else:
        found = [_python_file(python_target(spec))]
    yield from (path for path in found if path is not None and path.is_file())


def _library(name: str) -> Path | None:
    """The file, or what the loader finds by a bare name in the folders that it asks first."""
    if "/" in name or Path(name).is_file():
        return Path(name)
    folders = [*filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")), *_LIBRARY_FOLDERS]
    return next((Path(folder, name) for folder in folders if Path(folder, name).is_file()), None)


def _programs(command: str) -> list[Path | None]:
    """The program, and the words behind it that are files: a script says more than its interpreter."""
    try:
        program, *arguments = shlex.split(command)
    except ValueError:
        return []
    return [Path(shutil.which(program) or program), *map(Path, arguments)]


def _python_file(target: str | None) -> Path | None:
    """The file of a module, found as an import finds it, but without running the packages above it."""
    if target is None or target.endswith(".py") or "/" in target:
        return None if target is None else Path(target)
    parts, origin = target.split("."), None
    folders: Sequence[str] | None = ["", *sys.path]
    for count in range(1, len(parts) + 1):
        found = importlib.machinery.PathFinder.find_spec(".".join(parts[:count]), folders)
        if found is None:
            return None
        origin, folders = found.origin, found.submodule_search_locations
    return None if origin is None else Path(origin)


def _digested(path: Path) -> str:
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size > _MAX_BYTES:
                return path.name
            return f"{path.name} sha256:{hashlib.file_digest(file, 'sha256').hexdigest()[:_DIGITS]}"
    except OSError:
        return ""


# Do not wait longer for git: a label is not worth it.
_PATIENCE_SECONDS: Final = 2.0
# Run no hooks or monitors of the repository, write nothing, ask nothing. Of submodules look at the commit alone: they
# have their own settings.
_GIT: Final = ("git", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}", "--no-optional-locks")
_STATUS: Final = ("status", "--porcelain=v2", "--branch", "--untracked-files=no", "--ignore-submodules=dirty")


def run_labels(labels: Mapping[str, str], backend: str, runtime: str | None, version: str) -> dict[str, str]:
    """The labels of a run that begins, or goes on: then what is no longer as it was is told as such.

    `labels` are those of the user, and those that a run had which is resumed.
    """
    given = {name: value for name, value in labels.items() if "." not in name}
    said = {VERSION: strip_to_line(version)[:MAX_LETTERS]} if version else {}
    now = {**git_labels(Path()), **file_labels(backend, runtime), **said, **given}
    return merged_labels([labels, now]) if len(labels) > len(given) else now


def git_labels(folder: Path) -> dict[str, str]:
    """Commit, branch and state of the repository that the folder is in; empty where git does not tell them in time."""
    status = _git(folder, *_STATUS)
    if status is None:
        commit = _git(folder, "rev-parse", "--verify", "--quiet", "HEAD")
        return {COMMIT: commit.strip()} if commit else {}
    lines = status.splitlines()
    head = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# ") and " " in line[2:])
    changed = any(not line.startswith("#") for line in lines)
    found = {COMMIT: head.get("branch.oid", ""), BRANCH: head.get("branch.head", "")}
    # A repository without a commit, and a commit that is on no branch, have a word in brackets there.
    told = {name: value for name, value in found.items() if value and not value.startswith("(")}
    return {**told, STATE: "changed" if changed else CLEAN} if told else {}


def _git(folder: Path, *arguments: str) -> str | None:
    """What git prints; None where it is missing, refuses or takes too long."""
    environment = {**os.environ, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    quiet = subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            [*_GIT, *arguments],
            cwd=folder,
            env=environment,
            stdin=quiet,
            stdout=subprocess.PIPE,
            stderr=quiet,
            start_new_session=True,
        )
    except OSError:
        return None
    with process:
        try:
            printed, _ = process.communicate(timeout=_PATIENCE_SECONDS)
        except BaseException as error:
            # Together with its children, which may hold the pipe open.
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                return None
            raise
    return printed.decode(errors="replace") if process.returncode == 0 else None
