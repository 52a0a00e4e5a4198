"""Any program as a backend: a call goes into a folder, the program runs, what it left comes back.

The program is started for each call, or once and told its folders line by line. Its result.json and the files that it
leaves are opened without waiting, only if they are plain files, and checked before they are believed.
"""

import contextlib
import io
import json
import os
import select
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from msgspec import field

from mluops_gtest.base.errors import BackendError
from mluops_gtest.base.files import OutputPipe, remove_tree
from mluops_gtest.base.frozen import Value
from mluops_gtest.core.buffers import checked_seconds, short, whole_buffer
from mluops_gtest.core.call import Crashed, Declined, OpCall, Status, TensorArg, Violated
from mluops_gtest.core.case import DEVICE_VARIABLE
from mluops_gtest.core.cause import Cause, FileSize, LegacyReason, ProgramDied
from mluops_gtest.core.tensor import Array


class UnreadableError(Exception):
    """Something of that name is there and cannot be read as a file."""


@contextlib.contextmanager
def open_regular(path: Path) -> Iterator[tuple[io.BufferedReader, int]]:
    """The open file and its size; FileNotFoundError where there is none."""
    try:
        # To open a pipe would otherwise wait for its writer.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnreadableError(f"{path.name} cannot be read: {error.strerror or error}") from error
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise UnreadableError(f"{path.name} cannot be read: it is not a regular file")
    with os.fdopen(handle, "rb") as file:
        yield file, status.st_size


RESULT: Final = "result.json"
# Thousands of notes would fit; a larger file is a mistake.
RESULT_BYTES: Final = 1 << 20
_KEYS: Final = ("status", "scalars", "notes", "device_seconds", "declined")


class ProgramError(Exception):
    """The program did not do its part of the protocol; the case's outcome is error."""


class ProgramAnswer(Value):
    """The status with what else the program tells, or the reason why it declines."""

    status: Status = Status.SUCCESS
    scalars: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    device_seconds: float | None = None
    declined: str | None = None


def read_answer(path: Path, last_words: str = "") -> ProgramAnswer:
    """The answer in the file; `last_words` of the program explain a missing one."""
    try:
        with open_regular(path) as (file, size):
            if size > RESULT_BYTES:
                raise ProgramError(f"{path.name} holds {size} bytes; at most {RESULT_BYTES} are read")
            content = json.loads(file.read(RESULT_BYTES))
    except FileNotFoundError:
        raise ProgramError(f"the program ended without a status: it wrote no {path.name}{last_words}") from None
    except UnreadableError as error:
        raise ProgramError(str(error)) from error
    except (ValueError, RecursionError) as error:
        raise ProgramError(f'{path.name} is not JSON, e.g. {{"status": 0}}: {error}') from error
    return _checked(content)


def _checked(content: Any) -> ProgramAnswer:
    _require(isinstance(content, dict), "must hold an object", content)
    unknown = sorted(set(content) - set(_KEYS))
    _require(not unknown, f"has unknown keys; known: {', '.join(_KEYS)}", unknown)
    if "declined" in content:
        declined = content["declined"]
        _require(isinstance(declined, str), "declined: must be the reason, a string", declined)
        return ProgramAnswer(declined=declined)
    scalars, notes, seconds = content.get("scalars", {}), content.get("notes", []), content.get("device_seconds")
    is_scalars = isinstance(scalars, dict) and all(type(value) is int for value in scalars.values())
    _require(is_scalars, "scalars: must be an object of integers", scalars)
    is_notes = isinstance(notes, list) and all(isinstance(note, str) for note in notes)
    _require(is_notes, "notes: must be a list of strings", notes)
    status = _status(content)
    try:
        seconds = None if seconds is None else checked_seconds(f"{RESULT} device_seconds is", seconds)
    except (TypeError, ValueError) as error:
        raise ProgramError(str(error)) from error
    return ProgramAnswer(status, scalars, tuple(notes), seconds)


def _status(content: dict[str, Any]) -> Status:
    """By number or by name."""
    known = ", ".join(f"{status.value} {status.name}" for status in Status)
    _require("status" in content, f"has no status; known: {known}", content)
    word = content["status"]
    for status in Status:
        if (type(word) is int and word == status.value) or word == status.name:
            return status
    raise ProgramError(f"{RESULT}: unknown status {short(word)}; known: {known}")


def _require(holds: bool, message: str, value: Any) -> None:
    if not holds:
        raise ProgramError(f"{RESULT} {message}; found {short(value)}")


# Of what a program prints, this many lines and letters stand in a reason.
LAST_LINES: Final = 5
LAST_LETTERS: Final = 600
# What stands in the notes of a failure.
HEAD_BYTES, TAIL_BYTES = 4 << 10, 12 << 10
# Milliseconds between two looks at a silent program: a child of its own may hold its output open when it is dead.
LOOK: Final = 100


class ProgramEnding(Value):
    """How the program finished with a folder; signal or failure say what went wrong, if anything."""

    printed: str
    signal: str | None = None
    failure: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def last_words(self) -> str:
        """The last lines that it printed, as the tail of a sentence."""
        lines = self.printed.splitlines()[-LAST_LINES:]
        return f". Last printed: {' | '.join(lines)[-LAST_LETTERS:]}" if lines else ""


class StartedProgram:
    """`COMMAND FOLDER`, a process per call."""

    def __init__(self, argv: list[str]) -> None:
        self._argv = argv

    def finish(self, folder: Path, device: int | None) -> ProgramEnding:
        """Start, wait, tell how it ended."""
        with contextlib.closing(OutputPipe(HEAD_BYTES, TAIL_BYTES)) as output:
            streams = {"stdin": subprocess.DEVNULL, "stdout": output.writer, "stderr": output.writer}
            process = start([*self._argv, str(folder)], device, **streams)
            output.close_writer()
            try:
                code = _wait(process, output)
            except BaseException:
                process.kill()
                process.wait()
                raise
            printed = output.take().rstrip()
        if code < 0:
            return ProgramEnding(printed, signal=signal_name(-code))
        hint = "; a program that answers exits with 0, whatever the status"
        return ProgramEnding(printed, failure=f"exited with {code}{hint}" if code else None)

    def close(self) -> None:
        """Nothing lives beyond a call."""


def start(argv: list[str], device: int | None, **streams: Any) -> "subprocess.Popen[bytes]":
    """The running program, in the working directory and the process group of the harness.

    No session or group of its own: whoever kills this process with its group ends the program, too.
    """
    environment = None if device is None else {**os.environ, DEVICE_VARIABLE: str(device)}
    try:
        return subprocess.Popen(argv, env=environment, **streams)
    except OSError as error:
        raise ProgramError(f"{argv[0]} cannot be started: {error.strerror or error}") from error


def signal_name(number: int) -> str:
    """SIGSEGV and the like; real-time signals have numbers only."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _wait(process: "subprocess.Popen[bytes]", output: OutputPipe) -> int:
    """The exit code; what the program prints until then is taken, so that it never waits for us."""
    death = os.pidfd_open(process.pid) if hasattr(os, "pidfd_open") else -1
    ready = select.poll()
    ready.register(output.fd, select.POLLIN)
    if death >= 0:
        ready.register(death, select.POLLIN)
    try:
        while (code := process.poll()) is None:
            events = dict(ready.poll(LOOK))
            output.drain()
            if output.fd in events and not events[output.fd] & select.POLLIN:
                ready.unregister(output.fd)  # closed by its writers: it would be ready for ever
        return code
    finally:
        if death >= 0:
            os.close(death)


DONE: Final = b"done"
# Seconds for the program to end by itself once a stream between us is closed.
GRACE: Final = 2.0
# A longer line cannot be `done`; it is passed on in pieces.
LINE_BYTES: Final = 1 << 16


class ServedProgram:
    """`COMMAND`, one process: a line with a folder in, a line `done` out; started again when it died."""

    def __init__(self, argv: list[str]) -> None:
        self._argv = argv
        self._service: _Service | None = None

    def finish(self, folder: Path, device: int | None) -> ProgramEnding:
        """Send the folder and wait for `done`, or for the end of the process, which then decides."""
        notes = self._retire(device)
        service = self._service = self._service or _Service(self._argv, device)
        try:
            done = service.ask(folder)
            # None: it lives on without speaking to us.
            code = None
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = None if done else service.process.wait(GRACE)
            printed = service.output.take().rstrip()
        except BaseException:
            service.process.kill()
            self.close()
            raise
        if done:
            return ProgramEnding(printed, notes=notes)
        self.close()
        if code is not None and code < 0:
            return ProgramEnding(printed, signal=signal_name(-code), notes=notes)
        how = "closed its output without the line" if code is None else f"exited with {code} before it said"
        return ProgramEnding(printed, failure=f"{how} {DONE.decode()!r}", notes=notes)

    def close(self) -> None:
        """Close its input, give it a moment, kill it."""
        if self._service is not None:
            self._service.end()
            self._service = None

    def _retire(self, device: int | None) -> tuple[str, ...]:
        """Let go of a process that died since its last `done`, or that was started for another device."""
        code = None if self._service is None else self._service.process.poll()
        if code is not None or (self._service is not None and device != self._service.device):
            self.close()
        if code is None:
            return ()
        how = f"died by {signal_name(-code)}" if code < 0 else f"exited with {code}"
        return (f"the served program {how} after the call before this one and was started again",)


class _Service:
    """The running program, with what it has printed since it was last asked."""

    def __init__(self, argv: list[str], device: int | None) -> None:
        self.device = device
        # Of what it prints for a folder a few KiB: stderr, and lines of stdout that are not ours.
        self.output = OutputPipe(HEAD_BYTES, TAIL_BYTES)
        try:
            self.process = start(
                argv, device, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.output.writer, bufsize=0
            )
        except BaseException:
            self.output.close()
            raise
        self.output.close_writer()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._stdin, self._stdout = self.process.stdin, self.process.stdout.fileno()
        os.set_blocking(self._stdout, False)
        self._line = b""
        # Runs at the latest when the interpreter ends: no process is left because somebody forgot to close.
        self.end = weakref.finalize(self, _end, self.process, self.output)

    def ask(self, folder: Path) -> bool:
        """True when it said `done`; False when it will not say it any more."""
        # What came after the last `done` answers no later question.
        self._line = b""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._stdout, LINE_BYTES):
                pass
        self.output.take()
        try:
            self._stdin.write(os.fsencode(folder) + b"\n")
        except BrokenPipeError:
            return False
        ready = select.poll()
        ready.register(self._stdout, select.POLLIN)
        ready.register(self.output.fd, select.POLLIN)
        while True:
            events = dict(ready.poll(LOOK))
            self.output.drain()
            if events.get(self.output.fd, select.POLLIN) != select.POLLIN:
                ready.unregister(self.output.fd)  # closed by its writers: it would be ready for ever
            if self._stdout in events:
                piece = os.read(self._stdout, LINE_BYTES)
                if not piece:
                    return False
                if self._hear(piece):
                    return True
            elif not events and self.process.poll() is not None:
                return False

    def _hear(self, piece: bytes) -> bool:
        """Take the next bytes of stdout; True when they complete the line `done`."""
        *lines, self._line = (self._line + piece).split(b"\n")
        for line in lines:
            if line.rstrip(b"\r") == DONE:
                return True
            self.output.add(line + b"\n")
        if len(self._line) > LINE_BYTES:
            self.output.add(self._line)
            self._line = b""
        return False


def _end(process: "subprocess.Popen[bytes]", output: OutputPipe) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    try:
        process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()
    output.close()


def take_outputs(call: OpCall, files: Mapping[str, Path], status: Status) -> None:
    """Copy every file of the right size; a wrong size, or a file missing after SUCCESS, is a violation.

    A file written beside a refusal is copied too, so that the harness sees the write.
    """
    # With nothing to do an operator returns early, and an early return writes nothing.
    idle = any(arg is not None and arg.desc.is_empty for arg in (*call.inputs.values(), *call.outputs.values()))
    wrong: list[Cause] = []
    for name, path in files.items():
        arg = call.tensor(name)
        size = arg.desc.nbytes
        try:
            with open_regular(path) as (file, length):
                got = _copy(file, arg, call.array(name)) if length == size else length
            if got != size:
                wrong.append(FileSize(path.name, got, name, size))
        except FileNotFoundError:
            if status is Status.SUCCESS and not idle:
                wrong.append(FileSize(path.name, None, name, size))
        except UnreadableError as error:
            wrong.append(LegacyReason(str(error)))
    if wrong:
        raise Violated(*wrong)


def _copy(file: io.BufferedReader, arg: TensorArg, array: Array) -> int:
    """Read into the buffer; answers the bytes that the file really had."""
    return file.readinto(whole_buffer(arg, array).view(np.uint8).data)


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
        self._program = ServedProgram(self._argv) if serve else StartedProgram(self._argv)
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
            ignored = "; its result.json does not count" if (folder / RESULT).exists() else ""
            raise ProgramError(f"{self.name} {ending.failure}{ignored}{ending.last_words}")
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
    program = shutil.which(words[0])
    if program is None:
        raise BackendError(f"Backend exec:{command}: {_why_not(words[0])}")
    return [os.path.abspath(program), *words[1:]]


def _why_not(program: str) -> str:
    path = Path(program)
    if not path.is_file():
        what = "there is no such program" if path.name != program else "no such program is on PATH"
        return f"{program!r}: {what}. Relative paths start in {Path.cwd()}."
    if path.name == program:
        return f"{program!r} is not on PATH, but there is such a file here; write ./{program}."
    return f"{program!r} is not executable. chmod +x {program}, or name its interpreter, e.g. 'exec:python3 {program}'."
