"""What a command does to its surroundings, without rich, so that commands that print lines alone start fast.

It prints lines, on streams that cannot fail in the middle of the work (what they did not take is reported at the end),
and ends at the first Ctrl-C with what it has to write.
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


_later: list[str] | None = None


def print_json(document: Any) -> None:
    """Print a document for programs on standard output."""
    import json

    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    (echo if _later is None else _later.append)(text)


@contextlib.contextmanager
def documents_alone() -> Iterator[None]:
    """What is printed goes to stderr, whoever prints it; documents go to standard output at the end."""
    global _later  # noqa: PLW0603 - standard output is the process's
    import ctypes

    sys.stdout.flush()
    before = os.dup(1)
    documents: list[str] = []
    _later = documents
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        # What a kernel in this process printed may still be in the buffers of C.
        ctypes.CDLL(None).fflush(None)
        os.dup2(before, 1)
        os.close(before)
        _later = None
    echo("\n".join(documents))


class SafeStream(io.RawIOBase):
    """A descriptor to write to. After the first failure it drops everything, so that the output has no holes."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._is_closed = False
        # Why something was not written; None also if the reader left (`| head`), which is not a failure.
        self.error: OSError | None = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write as much as goes at once; never raises for what the descriptor does."""
        size = memoryview(data).nbytes
        while not self._is_closed:
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:
                # Somebody who shares a terminal or a pipe with us may have made it non-blocking.
                poll = select.poll()
                poll.register(self._descriptor, select.POLLOUT)
                poll.poll()
            except BrokenPipeError:
                self._is_closed = True
            except OSError as error:
                self._is_closed, self.error = True, error
        return size


def install_safe_streams() -> SafeStream:
    """Puts safe streams in the place of sys.stdout and sys.stderr; returns the one of stdout."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # A closed one (`>&-`) would become the number of the next file that is opened.
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != descriptor:
                os.dup2(nowhere, descriptor)
                os.close(nowhere)
    out = SafeStream(1)
    sys.stdout = _wrap_as_text(out, sys.stdout, line_buffering=out.isatty())
    sys.stderr = _wrap_as_text(SafeStream(2), sys.stderr, line_buffering=True)
    return out


def _wrap_as_text(stream: SafeStream, before: TextIO | Any, *, line_buffering: bool) -> TextIO:
    if before is not None:
        with contextlib.suppress(OSError, ValueError):
            before.flush()
    # What an encoding has no sign for is written as an escape: a result is never lost to a code page.
    return io.TextIOWrapper(
        io.BufferedWriter(stream),
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
