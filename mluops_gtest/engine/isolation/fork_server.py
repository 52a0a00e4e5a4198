"""The process that forks workers and outlives none of them: warm imports make a new worker cost milliseconds.

Started once per run as `python -m mluops_gtest.engine.isolation.fork_server FD`. It stays single-threaded, so forking
is safe. When the controller dies, its pipe closes here, and every worker's process group is killed.
"""

import contextlib
import os
import signal
import socket
import sys
import tempfile

from mluops_gtest.engine.isolation.channel import Channel, ClosedError


def serve(channel: Channel) -> None:
    """Fork on request, tell how workers ended, and kill them all when the controller is gone."""
    workers: set[int] = set()
    try:
        while True:
            message, fds = channel.receive()
            if "fork" in message:
                pid = _fork(channel, message["fork"], fds)
                workers.add(pid)
                channel.send({"pid": pid})
            else:
                pid = message["wait"]
                _, status = os.waitpid(pid, 0)
                workers.discard(pid)
                channel.send({"code": os.waitstatus_to_exitcode(status)})
    except ClosedError:
        pass
    finally:
        for pid in workers:
            kill_group(pid)
        for pid in workers:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def kill_group(pid: int) -> None:
    """Kill a worker and everything it started; it leads a session of its own."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def _fork(channel: Channel, options: dict[str, object], fds: list[int]) -> int:
    """Fork a worker whose pipe and output file are `fds`; in the child this does not return."""
    pid = os.fork()
    if pid:
        for fd in fds:
            os.close(fd)
        return pid
    code = 70
    try:
        channel.close()
        from mluops_gtest.engine.isolation.worker import work

        pipe, output = fds
        work(Channel(socket.socket(fileno=pipe)), output, options)
        code = 0
    finally:
        os._exit(code)


def main() -> None:
    """Preload what every worker needs, then serve."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the controller's to handle
    import mluops_gtest.engine.isolation.worker  # noqa: F401 - preloaded, numpy included, before the first fork

    # What a killed worker leaves in its temporary folder goes with the run, also when the controller was killed.
    with tempfile.TemporaryDirectory(prefix="mluops-test-", ignore_cleanup_errors=True) as folder:
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        serve(Channel(socket.socket(fileno=int(sys.argv[1]))))


if __name__ == "__main__":
    main()
