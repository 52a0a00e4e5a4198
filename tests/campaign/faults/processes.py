"""Children, daemons, and attacks on the processes around the worker."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.campaign.faults import Act, fault, faults
from tests.campaign.sandbox import PIDS, started


def _note(pid: int) -> None:
    with open(os.environ[PIDS], "a") as file:
        file.write(f"{pid}:{started(pid)}\n")


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _sleep_for_ever() -> None:
    time.sleep(600)
    os._exit(0)


def _daemon(hide: bool = False) -> None:
    """Fork twice, with a session of its own in between: no ancestor is left."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            _note(os.getpid())
            if hide:
                os.execve(sys.executable, [sys.executable, "-S", "-c", "import time; time.sleep(600)"], {})
            _sleep_for_ever()
        os._exit(0)
    os.wait()
    time.sleep(0.05)


@fault("children", "passed")
def leaves_a_child(call):
    if os.fork() == 0:
        _sleep_for_ever()


@fault("children", "crashed")
def leaves_a_child_and_crashes(call):
    if os.fork() == 0:
        _sleep_for_ever()
    ctypes.string_at(0)


@fault("children", "timed_out")
def leaves_a_child_and_hangs(call):
    if os.fork() == 0:
        _sleep_for_ever()
    time.sleep(600)


faults(
    "children",
    "passed",
    leaves_a_program=lambda call: subprocess.Popen(["sleep", "600"]),
    leaves_a_daemon=lambda call: _daemon(),
    leaves_a_daemon_without_environment=lambda call: _daemon(hide=True),
)


@fault("children", "passed")
def leaves_forty_children(call):
    for _ in range(40):
        if os.fork() == 0:
            _sleep_for_ever()


@fault("children", "crashed")
def leaves_a_daemon_and_crashes(call):
    _daemon()
    ctypes.string_at(0)


@fault("children", "crashed")
def leaves_a_daemon_and_is_killed(call):
    _daemon(hide=True)
    os.kill(os.getpid(), signal.SIGKILL)


@fault("children", "passed")
def leaves_a_child_that_ignores_signals(call):
    if os.fork() == 0:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        _sleep_for_ever()


@fault("children", "passed")
def leaves_a_child_that_forks_on(call):
    if os.fork() == 0:
        end = time.monotonic() + 20
        while time.monotonic() < end:
            if os.fork():
                os._exit(0)
            time.sleep(0.02)
        os._exit(0)


@fault("children", "passed")
def leaves_a_stopped_child(call):
    pid = os.fork()
    if pid == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
        _sleep_for_ever()


@fault("children", "passed")
def leaves_zombies(call):
    for _ in range(20):
        if os.fork() == 0:
            os._exit(0)


@fault("children", "passed", "crashed")
def child_returns_into_the_worker(call):
    """The classic: a fork without an exit, so that two processes go on as the worker."""
    os.fork()


@fault("children", "passed", "crashed")
def parent_leaves_and_child_answers(call):
    if os.fork():
        os._exit(0)
    time.sleep(0.1)


@fault("children", "passed", "crashed", "failed", "memory")
def child_writes_on_into_the_tensors(call):
    if os.fork() == 0:
        end = time.monotonic() + 5
        while time.monotonic() < end:
            call.array("y")[...] = 666
            time.sleep(0.001)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)


@fault("children", "passed", "crashed")
def leaves_its_session(call):
    if os.fork() == 0:
        os.setsid()
        _sleep_for_ever()


@fault("children", "passed", "crashed", "error")
def runs_a_shell_in_the_background(call):
    os.system("(sleep 600 & sleep 600 &) >/dev/null 2>&1")


def _signals_and_waits(target: Callable[[], int], number: int, seconds: float) -> None:
    os.kill(target(), number)
    time.sleep(seconds)


faults(
    "fork server",
    "passed",
    "crashed",
    kills_the_fork_server=lambda call: _signals_and_waits(os.getppid, signal.SIGKILL, 0.3),
    segfaults_the_fork_server=lambda call: _signals_and_waits(os.getppid, signal.SIGSEGV, 0.3),
    terminates_the_fork_server=lambda call: _signals_and_waits(os.getppid, signal.SIGTERM, 0.3),
)


@fault("fork server", "passed", "crashed", "timed_out")
def stops_the_fork_server(call):
    os.kill(os.getppid(), signal.SIGSTOP)


@fault("fork server", "crashed")
def stops_the_fork_server_and_crashes(call):
    os.kill(os.getppid(), signal.SIGSTOP)
    ctypes.string_at(0)


@fault("fork server", "crashed")
def kills_the_fork_server_and_crashes(call):
    os.kill(os.getppid(), signal.SIGKILL)
    ctypes.string_at(0)


@fault("fork server", "passed", "crashed", lonely=True)
def kills_its_siblings(call):
    me, server = os.getpid(), os.getppid()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) not in (me, server):
            try:
                if _parent(int(entry.name)) == server:
                    os.kill(int(entry.name), signal.SIGKILL)
            except OSError:
                continue


def _once() -> bool:
    """Only in the first run: the resumed one must get past this case."""
    marker = Path(os.environ[PIDS]).with_name("controller-was-killed")
    if marker.exists():
        return False
    marker.touch()
    return True


def _controller() -> int:
    return int(os.environ.get("CAMPAIGN_CONTROLLER") or _parent(os.getppid()))


def _signals_the_controller(number: int) -> Act:
    return lambda call: _signals_and_waits(_controller, number, 0.5) if _once() else None


for _name, _number in {"kills": signal.SIGKILL, "terminates": signal.SIGTERM, "interrupts": signal.SIGINT}.items():
    fault("controller", "passed", "crashed", alone=True, name=f"{_name}_the_controller")(
        _signals_the_controller(_number)
    )


@fault("controller", "passed", "crashed", alone=True, may_leave="mluops-test-")
def kills_controller_and_fork_server(call):
    if _once():
        server = os.getppid()
        os.kill(_controller(), signal.SIGKILL)
        os.kill(server, signal.SIGKILL)
        time.sleep(0.5)


@fault("controller", "passed", "crashed", alone=True)
def leaves_a_daemon_and_kills_the_controller(call):
    if _once():
        _daemon(hide=True)
        _signals_and_waits(_controller, signal.SIGKILL, 0.5)


@fault("controller", "passed", "crashed")
def pesters_the_controller(call):
    for number in (signal.SIGCHLD, signal.SIGWINCH, signal.SIGCONT, signal.SIGURG, signal.SIGPIPE):
        os.kill(_controller(), number)


@fault("children", "passed", "crashed")
def listens_on_a_port(call):
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen()
    threading.Thread(target=server.accept, daemon=True).start()
