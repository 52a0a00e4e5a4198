"""The program as a process: how it is started, how it ended, what it printed."""

import os
import select
import signal
import subprocess
from pathlib import Path
from typing import Any, Final, Protocol

from mluops_gtest.backends.exec_backend.answer import ProgramError
from mluops_gtest.backends.output_pipe import OutputPipe
from mluops_gtest.model.backend import DEVICE_VARIABLE
from mluops_gtest.value import Value

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
