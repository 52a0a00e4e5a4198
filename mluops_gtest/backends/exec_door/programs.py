"""The program as a process: how it is started, how it ended, what it printed."""

import os
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Protocol

from mluops_gtest.backends.exec_door.answer import ProgramError

# Of what a program prints, the end is kept: this many bytes in notes, this many lines and letters in a reason.
TAIL_BYTES: Final = 16 << 10
LAST_LINES: Final = 5
LAST_LETTERS: Final = 600
DEVICE: Final = "MLUOPS_TEST_DEVICE"


@dataclass(frozen=True, slots=True)
class Ending:
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

    def finish(self, folder: Path, device: int | None) -> Ending:
        """Have the program work on the folder; returns when it is done or dead."""
        ...

    def close(self) -> None:
        """Leave no process behind."""
        ...


class StartedProgram:
    """`COMMAND FOLDER`, a process per call."""

    def __init__(self, argv: list[str]) -> None:
        self._argv = argv

    def finish(self, folder: Path, device: int | None) -> Ending:
        """Start, wait, tell how it ended."""
        with tempfile.TemporaryFile() as log:
            process = start([*self._argv, str(folder)], device, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            try:
                code = process.wait()
            except BaseException:
                process.kill()
                process.wait()
                raise
            printed = tail(log)
        if code < 0:
            return Ending(printed, signal=signal_name(-code))
        hint = "; a program that answers exits with 0, whatever the status"
        return Ending(printed, failure=f"exited with {code}{hint}" if code else None)

    def close(self) -> None:
        """Nothing lives beyond a call."""


def start(argv: list[str], device: int | None, **streams: Any) -> "subprocess.Popen[bytes]":
    """The running program, in the working directory and the process group of the harness.

    No session or group of its own: whoever kills this process with its group ends the program, too.
    """
    environment = None if device is None else {**os.environ, DEVICE: str(device)}
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


def tail(log: IO[bytes]) -> str:
    """The end of what was printed; the file's own position stays where it is, as the program shares it."""
    size = os.fstat(log.fileno()).st_size
    text = os.pread(log.fileno(), TAIL_BYTES, max(0, size - TAIL_BYTES)).decode(errors="replace").rstrip()
    return f"… ({size - TAIL_BYTES} bytes before this)\n{text}" if size > TAIL_BYTES else text
