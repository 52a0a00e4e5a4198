"""Plain lines; without rich, so that commands that print nothing else start fast.

Standard output and error that cannot fail in the middle of the work; what they did not take is told at the end.

What Ctrl-C does to a command that has something to write at its end.
"""

import contextlib
import io
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

import click

from mluops_gtest.base.text import strip_controls

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def echo(line: str) -> None:
    """Print a line, or several, on standard output."""
    click.echo(strip_controls(line))


def echo_error(line: str) -> None:
    """The same on stderr."""
    click.echo(strip_controls(line), err=True)


class SafeStream(io.RawIOBase):
    """A descriptor to write to. After the first failure it drops everything, so that the output has no holes."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._deaf = False
        # Why something was not written; None also if the reader left (`| head`), which is not a failure.
        self.trouble: OSError | None = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write as much as goes at once; never raises for what the descriptor does."""
        size = memoryview(data).nbytes
        while not self._deaf:
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:
                self._wait()
            except BrokenPipeError:
                self._deaf = True
            except OSError as error:
                self._deaf, self.trouble = True, error
        return size

    def _wait(self) -> None:
        """Somebody who shares a terminal or a pipe with us may have made it non-blocking."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        poll.poll()


def install_safe_streams() -> SafeStream:
    """Put outlets in the place of sys.stdout and sys.stderr; the one of stdout."""
    for descriptor in range(3):
        _fill(descriptor)
    out = SafeStream(1)
    sys.stdout = _text(out, sys.stdout, line_buffering=out.isatty())
    sys.stderr = _text(SafeStream(2), sys.stderr, line_buffering=True)
    return out


def _fill(descriptor: int) -> None:
    """A closed one (`>&-`) would become the number of the next file that is opened."""
    try:
        os.fstat(descriptor)
    except OSError:
        nowhere = os.open(os.devnull, os.O_RDWR)
        if nowhere != descriptor:
            os.dup2(nowhere, descriptor)
            os.close(nowhere)


def _text(outlet: SafeStream, before: TextIO | Any, *, line_buffering: bool) -> TextIO:
    if before is not None:
        with contextlib.suppress(OSError, ValueError):
            before.flush()
    # What an encoding has no sign for is written as an escape: a result is never lost to a code page.
    return io.TextIOWrapper(
        io.BufferedWriter(outlet),
        encoding=getattr(before, "encoding", None) or "utf-8",
        errors="backslashreplace",
        line_buffering=line_buffering,
        write_through=bool(getattr(before, "write_through", False)),
    )


@contextlib.contextmanager
def one_interrupt() -> Iterator[None]:
    """The first Ctrl-C ends the work; a second one must not lose the report that is then written."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
