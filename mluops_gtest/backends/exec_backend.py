"""Files that somebody else left: opened without waiting, and only if they are plain files.

result.json: what a program answers, checked before it is believed.

What another process prints: a pipe of its own, emptied while it runs, of which the head and the tail are kept.

The program as a process: started for each call, or once and told its folders line by line.
"""

import array
import contextlib
import fcntl
import io
import json
import os
import select
import signal
import stat
import subprocess
import termios
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from msgspec import field

from mluops_gtest.base.frozen import Value
from mluops_gtest.core.buffers import checked_seconds, short
from mluops_gtest.core.call import Status
from mluops_gtest.core.case import DEVICE_VARIABLE


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
    scalars, notes = content.get("scalars", {}), content.get("notes", [])
    is_scalars = isinstance(scalars, dict) and all(type(value) is int for value in scalars.values())
    _require(is_scalars, "scalars: must be an object of integers", scalars)
    is_notes = isinstance(notes, list) and all(isinstance(note, str) for note in notes)
    _require(is_notes, "notes: must be a list of strings", notes)
    return ProgramAnswer(_status(content), scalars, tuple(notes), _device_seconds(content.get("device_seconds")))


def _device_seconds(value: Any) -> float | None:
    try:
        return None if value is None else checked_seconds(f"{RESULT} device_seconds is", value)
    except (TypeError, ValueError) as error:
        raise ProgramError(str(error)) from error


def _status(content: dict[str, Any]) -> Status:
    """By number or by name."""
    known = ", ".join(f"{status.value} {status.name}" for status in Status)
    _require("status" in content, f"has no status; known: {known}", content)
    word = content["status"]
    for status in Status:
        if (type(word) is int and word == status.value) or word == status.name:
            return status
    raise ProgramError(f"{RESULT}: unknown status {short(word)}; known: {known}")


def _require(holds: bool, message: str, found: Any) -> None:
    if not holds:
        raise ProgramError(f"{RESULT} {message}; found {short(found)}")


# Of one case 1 MiB: how it began, and how it ended with the trace of a crash.
HEAD_BYTES: Final = 512 << 10
TAIL_BYTES: Final = 512 << 10


class TruncatedLog:
    """The first and the last bytes of a stream that may be endless."""

    def __init__(self, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self._most_head, self._most_tail = head, tail
        self._head, self._tail = bytearray(), bytearray()
        self._cut = 0

    def add(self, data: bytes) -> None:
        """The next bytes; those in the middle of a long stream are counted and forgotten."""
        room = self._most_head - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) >= 2 * self._most_tail:
            self._shorten()

    def text(self) -> str:
        """What is kept, with the number of bytes that were cut between."""
        self._shorten()
        if not self._cut:
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = self._head.decode("utf-8", "replace"), self._tail.decode("utf-8", "replace")
        return f"{head}\n[… {self._cut} bytes cut …]\n{tail}"

    def _shorten(self) -> None:
        excess = len(self._tail) - self._most_tail
        if excess > 0:
            del self._tail[:excess]
            self._cut += excess


class OutputPipe:
    """Where one process prints. A pipe per process: what a child of a dead one prints reaches no later case."""

    def __init__(self, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self._head, self._tail = head, tail
        self.fd, self.writer = os.pipe()
        self._kept: TruncatedLog | None = None

    def close_writer(self) -> None:
        """The process has its own; this end must not keep the pipe open."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def close(self) -> None:
        """Give the pipe back; whoever still prints gets an error."""
        self.close_writer()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def drain(self) -> None:
        """Take what is in the pipe now, and only that: somebody may print for ever."""
        if self.fd < 0:
            return
        waiting = array.array("i", [0])
        fcntl.ioctl(self.fd, termios.FIONREAD, waiting)
        if waiting[0]:
            self.add(os.read(self.fd, waiting[0]))

    def add(self, data: bytes) -> None:
        """What was printed elsewhere and belongs to it."""
        if self._kept is None:
            self._kept = TruncatedLog(self._head, self._tail)
        self._kept.add(data)

    def take(self) -> str:
        """What was printed since the last time: all of it, or its head and tail."""
        self.drain()
        if self._kept is None:
            return ""
        kept, self._kept = self._kept, None
        return kept.text()


# Of what a program prints, this many lines and letters stand in a reason.
LAST_LINES: Final = 5
LAST_LETTERS: Final = 600
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


class Program(Protocol):
    """Works on one folder at a time."""

    def finish(self, folder: Path, device: int | None) -> ProgramEnding:
        """Have the program work on the folder; returns when it is done or dead."""

    def close(self) -> None:
        """Leave no process behind."""


def program_output() -> OutputPipe:
    """Where a program prints; it stands in the notes of a failure, where 16 KiB are plenty."""
    return OutputPipe(head=4 << 10, tail=12 << 10)


class StartedProgram:
    """`COMMAND FOLDER`, a process per call."""

    def __init__(self, argv: list[str]) -> None:
        self._argv = argv

    def finish(self, folder: Path, device: int | None) -> ProgramEnding:
        """Start, wait, tell how it ended."""
        output = program_output()
        try:
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
        finally:
            output.close()
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
            code = None if done else service.exit_code()
            printed = service.printed()
        except BaseException:
            service.process.kill()
            self.close()
            raise
        if done:
            return ProgramEnding(printed, notes=notes)
        self.close()
        if code is None:
            return ProgramEnding(printed, failure=f"closed its output without the line {DONE.decode()!r}", notes=notes)
        if code < 0:
            return ProgramEnding(printed, signal=signal_name(-code), notes=notes)
        return ProgramEnding(printed, failure=f"exited with {code} before it said {DONE.decode()!r}", notes=notes)

    def close(self) -> None:
        """Close its input, give it a moment, kill it."""
        if self._service is not None:
            self._service.end()
            self._service = None

    def _retire(self, device: int | None) -> tuple[str, ...]:
        """Let go of a process that died since its last `done`, or that was started for another device."""
        if self._service is None:
            return ()
        code = self._service.process.poll()
        if code is None and device == self._service.device:
            return ()
        self.close()
        if code is None:
            return ()
        how = f"died by {signal_name(-code)}" if code < 0 else f"exited with {code}"
        return (f"the served program {how} after the call before this one and was started again",)


class _Service:
    """The running program, with what it has printed since it was last asked."""

    def __init__(self, argv: list[str], device: int | None) -> None:
        self.device = device
        self._output = program_output()
        try:
            self.process = start(
                argv, device, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._output.writer, bufsize=0
            )
        except BaseException:
            self._output.close()
            raise
        self._output.close_writer()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._stdin, self._stdout = self.process.stdin, self.process.stdout.fileno()
        os.set_blocking(self._stdout, False)
        self._line = b""
        # Runs at the latest when the interpreter ends: no process is left because somebody forgot to close.
        self.end = weakref.finalize(self, _end, self.process, self._output)

    def ask(self, folder: Path) -> bool:
        """True when it said `done`; False when it will not say it any more."""
        self._drop_leftovers()
        try:
            self._stdin.write(os.fsencode(folder) + b"\n")
        except BrokenPipeError:
            return False
        ready = select.poll()
        ready.register(self._stdout, select.POLLIN)
        ready.register(self._output.fd, select.POLLIN)
        while True:
            events = dict(ready.poll(LOOK))
            self._output.drain()
            if events.get(self._output.fd, select.POLLIN) != select.POLLIN:
                ready.unregister(self._output.fd)  # closed by its writers: it would be ready for ever
            if self._stdout in events:
                piece = os.read(self._stdout, LINE_BYTES)
                if not piece:
                    return False
                if self._hear(piece):
                    return True
            elif not events and self.process.poll() is not None:
                return False

    def exit_code(self) -> int | None:
        """Its exit code, below 0 for a signal; None where it lives on without speaking to us."""
        try:
            return self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            return None

    def printed(self) -> str:
        """What it printed for this folder, in a few KiB: stderr, and lines of stdout that are not ours."""
        return self._output.take().rstrip()

    def _hear(self, piece: bytes) -> bool:
        """Take the next bytes of stdout; True when they complete the line `done`."""
        *lines, self._line = (self._line + piece).split(b"\n")
        for line in lines:
            if line.rstrip(b"\r") == DONE:
                return True
            self._output.add(line + b"\n")
        if len(self._line) > LINE_BYTES:
            self._output.add(self._line)
            self._line = b""
        return False

    def _drop_leftovers(self) -> None:
        """Forget what came after the last `done`, so that it answers no later question."""
        self._line = b""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._stdout, LINE_BYTES):
                pass
        self._output.take()


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
