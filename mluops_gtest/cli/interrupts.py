"""What Ctrl-C does to a command that has something to write at its end."""

import contextlib
import signal
import threading
from collections.abc import Iterator


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
