"""The process that forks workers and outlives none of them: warm imports make a new worker cost milliseconds.

Started by `forking.ForkServer` with its end of a pipe and the run's temporary folder. It stays single-threaded, so
forking is safe. When the controller dies, every worker and all that they started are killed and the folder removed.
"""

import os
import select
import signal
import socket
import sys

from mluops_gtest.base.errors import ExitCode
from mluops_gtest.base.files import remove_tree
from mluops_gtest.running.workers.process_tree import (
    Mark,
    adopt_orphans,
    end_children,
    kill_group,
    wake_when_parent_dies,
)
from mluops_gtest.running.workers.protocol import Channel, ClosedError


def serve(channel: Channel) -> None:
    """Fork on request, tell how workers ended, and kill all processes of the run when the controller is gone."""
    workers: set[int] = set()
    controller = _pidfd(os.getppid())
    try:
        while True:
            _wait(channel, controller)
            message, fds = channel.receive()
            if "fork" in message:
                channel.send(_forked(channel, message["fork"], fds, workers))
            else:
                channel.send({"code": _ended(message["end"], workers)})
    except ClosedError:
        pass
    finally:
        for pid in workers:
            kill_group(pid)
        end_children(lambda _: True)


def _pidfd(pid: int) -> int | None:
    return os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None


def _wait(channel: Channel, controller: int | None) -> None:
    """Until the controller asks, or is dead: a forked copy of it may hold its end of the pipe open."""
    poll = select.poll()
    for fd in (channel.fileno(), controller):
        if fd is not None:
            poll.register(fd, select.POLLIN)
    if channel.fileno() not in dict(poll.poll()):
        raise ClosedError("the controller died")


def _ended(pid: int, workers: set[int]) -> int:
    """Kill a worker and reap it, and kill what it left: its children are children of this process now."""
    kill_group(pid)
    _, status = os.waitpid(pid, 0)
    workers.discard(pid)
    end_children(lambda child: child not in workers)
    return os.waitstatus_to_exitcode(status)


def _forked(channel: Channel, options: dict[str, object], fds: list[int], workers: set[int]) -> dict[str, object]:
    """Fork a worker whose pipe and output file are `fds`; in the child this does not return."""
    server = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        return {"refused": f"{type(error).__name__}: {error}"}
    finally:
        if os.getpid() == server:
            for fd in fds:
                os.close(fd)
    if pid:
        workers.add(pid)
        return {"pid": pid}
    code = int(ExitCode.BUG)
    try:
        channel.close()
        from mluops_gtest.running.workers.worker import work

        pipe, output = fds
        work(Channel(socket.socket(fileno=pipe)), output, {**options, "fork_server": server})
        code = 0
    finally:
        os._exit(code)


def main() -> None:
    """Preload what every worker needs, then serve; `argv` names the pipe, the package's place and the folder."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the controller's to handle
    adopt_orphans()
    wake_when_parent_dies()
    Mark.of_this_process().wear()
    try:
        import mluops_gtest.running.workers.worker  # noqa: F401 - preloaded, numpy included, before the first fork

        serve(Channel(socket.socket(fileno=int(sys.argv[1]))))
    finally:
        # The controller removes it, too: either of the two may die first.
        remove_tree(sys.argv[3])


if __name__ == "__main__":
    main()
