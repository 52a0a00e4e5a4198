"""The adapter itself: a call goes into a folder, the program runs, what it left comes back."""

import contextlib
import io
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from mluops_gtest.backends.exec_backend import (
    RESULT,
    Program,
    ProgramAnswer,
    ProgramEnding,
    ProgramError,
    ServedProgram,
    StartedProgram,
    UnreadableError,
    open_regular,
    read_answer,
)
from mluops_gtest.base.errors import BackendError
from mluops_gtest.base.files import remove_tree
from mluops_gtest.core.call import Crashed, Declined, OpCall, Status, TensorArg, Violated
from mluops_gtest.core.cause import Cause, FileSize, LegacyReason, ProgramDied
from mluops_gtest.core.tensor import Array


def take_outputs(call: OpCall, files: Mapping[str, Path], status: Status) -> None:
    """Copy every file of the right size; a wrong size, or a file missing after SUCCESS, is a violation.

    A file written beside a refusal is copied too, so that the harness sees the write.
    """
    # With nothing to do an operator returns early, and an early return writes nothing.
    idle = any(arg is not None and arg.desc.is_empty for arg in (*call.inputs.values(), *call.outputs.values()))
    found: list[Cause] = []
    for name, path in files.items():
        arg = call.tensor(name)
        wanted = arg.desc.nbytes
        try:
            with open_regular(path) as (file, size):
                got = _copy(file, arg, call.array(name)) if size == wanted else size
            if got != wanted:
                found.append(FileSize(path.name, got, name, wanted))
        except FileNotFoundError:
            if status is Status.SUCCESS and not idle:
                found.append(FileSize(path.name, None, name, wanted))
        except UnreadableError as error:
            found.append(LegacyReason(str(error)))
    if found:
        raise Violated(*found)


def _copy(file: io.BufferedReader, arg: TensorArg, array: Array) -> int:
    """Read into the buffer; answers the bytes that the file really had."""
    if array.flags.c_contiguous:
        return file.readinto(array.reshape(-1).view(np.uint8).data)
    flat = np.fromfile(file, arg.dtype.storage, arg.desc.extent)
    if len(flat) == arg.desc.extent:
        array[...] = arg.desc.view(flat)
    return flat.nbytes


KEEP_CALLS: Final = "MLUOPS_TEST_KEEP_CALLS"


class CallWriter(Protocol):
    """Puts a call into a folder; codec implements it, cli hands it over."""

    def write(self, call: OpCall, folder: Path) -> Mapping[str, Path]:
        """Fill the folder; answers, for every output that has a buffer, the file that is to hold it."""


class ExecBackend:
    """Runs `COMMAND FOLDER` for every call, or with `serve` one `COMMAND` that is told the folders."""

    def __init__(self, command: str, writer: CallWriter, serve: bool = False) -> None:
        self.name = f"exec:{command}"
        self._argv = _split(command)
        self._writer = writer
        self._program: Program = ServedProgram(self._argv) if serve else StartedProgram(self._argv)
        keep = os.environ.get(KEEP_CALLS)
        self._keep = Path(keep) if keep else None
        self._device_seconds: float | None = None

    def healthy(self) -> bool:
        """The program is still there and may be executed."""
        return os.access(self._argv[0], os.X_OK)

    def device_seconds(self) -> float | None:
        """The time of the last call as the program measured it, where it did."""
        return self._device_seconds

    def run(self, call: OpCall) -> Status:
        """Write the folder, run the program, take its outputs, scalars and status."""
        self._device_seconds = None
        with self._folder(call.operator) as folder:
            files = self._writer.write(call, folder)
            ending = self._program.finish(folder, call.device)
            try:
                answer = self._answer(ending, folder)
                take_outputs(call, files, answer.status)
            except (Crashed, Violated, ProgramError):
                if ending.printed:
                    call.notes.append(f"{self.name} printed:\n{ending.printed}")
                raise
        # What the harness captures of a backend's own printing includes what its program prints.
        if ending.printed:
            print(ending.printed, file=sys.stderr, flush=True)
        self._device_seconds = answer.device_seconds
        call.scalars.update(answer.scalars)
        call.notes.extend((*ending.notes, *answer.notes))
        return answer.status

    def run_empty(self, call: OpCall) -> None:
        """Write the folder, and start a program that does nothing where every call starts one."""
        with tempfile.TemporaryDirectory(prefix="mluops-call-", ignore_cleanup_errors=True) as name:
            self._writer.write(call, Path(name))
            program = shutil.which("true")
            if program is not None and isinstance(self._program, StartedProgram):
                StartedProgram([program]).finish(Path(name), call.device)

    def close(self) -> None:
        """End a served program; the next call would start it again."""
        self._program.close()

    def _answer(self, ending: ProgramEnding, folder: Path) -> ProgramAnswer:
        if ending.signal is not None:
            raise Crashed(ProgramDied(self.name, ending.signal, ending.last_words))
        if ending.failure is not None:
            found = "; its result.json does not count" if (folder / RESULT).exists() else ""
            raise ProgramError(f"{self.name} {ending.failure}{found}{ending.last_words}")
        answer = read_answer(folder / RESULT, ending.last_words)
        if answer.declined is not None:
            raise Declined(answer.declined)
        return answer

    @contextlib.contextmanager
    def _folder(self, operator: str) -> Iterator[Path]:
        """A new folder, gone afterwards unless the user keeps calls."""
        if self._keep is None:
            name = tempfile.mkdtemp(prefix="mluops-call-")
            try:
                yield Path(name).absolute()
            finally:
                # The program may leave behind what cannot be removed; that is no finding about the kernel.
                remove_tree(name)
        else:
            self._keep.mkdir(parents=True, exist_ok=True)
            yield Path(tempfile.mkdtemp(prefix=f"{operator}-", dir=self._keep)).absolute()


def _split(command: str) -> list[str]:
    """The words of the command, the first one the program's absolute path."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise BackendError(f"Backend exec:{command}: {error}; quote as in a POSIX shell.") from error
    if not words:
        raise BackendError("Backend exec: needs a program, e.g. exec:./my_kernel or 'exec:python3 my_kernel.py'.")
    found = shutil.which(words[0])
    if found is None:
        raise BackendError(f"Backend exec:{command}: {_why_not(words[0])}")
    return [os.path.abspath(found), *words[1:]]


def _why_not(program: str) -> str:
    path = Path(program)
    if not path.is_file():
        what = "there is no such program" if path.name != program else "no such program is on PATH"
        return f"{program!r}: {what}. Relative paths start in {Path.cwd()}."
    if path.name == program:
        return f"{program!r} is not on PATH, but there is such a file here; write ./{program}."
    return f"{program!r} is not executable. chmod +x {program}, or name its interpreter, e.g. 'exec:python3 {program}'."
