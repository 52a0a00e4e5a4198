"""Processes that lost their parents, found again: by who adopts them, and by a mark that every child inherits."""

import contextlib
import ctypes
import functools
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37
_TOKEN = "MLUOPS_TEST_RUN"
_MARKS = 1 << 62  # no size that anybody would choose for a core file
_KILL_SECONDS = 20.0  # a loaded machine takes its time to let go of many large processes
_STOP_SECONDS = 1.0
_PAUSE = 0.002


@functools.cache
def c_library() -> ctypes.CDLL:
    """The C library of this process."""
    return ctypes.CDLL(None)


def kill_group(pid: int) -> None:
    """Kill a worker and what stayed in its process group; it leads a session of its own."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def stopped_group(pid: int) -> Iterator[None]:
    """Stop a worker and its process group while this lasts."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGSTOP)
    deadline = time.monotonic() + _STOP_SECONDS
    while any(_runs(one, pid) for one in (pid, *children_of(pid))) and time.monotonic() < deadline:
        time.sleep(_PAUSE / 10)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGCONT)


def _runs(pid: int, group: int) -> bool:
    """Whether a thread of a process in that group is neither stopped nor dead."""
    with contextlib.suppress(OSError):
        return os.getpgid(pid) == group and not {*task_states(pid)} <= {b"T", b"t", b"Z", b"X", b""}
    return False


def task_states(pid: int) -> list[bytes]:
    """Of every thread of a process the letter that /proc has for its state."""
    return [_state(f"/proc/{pid}/task/{task}/stat") for task in os.listdir(f"/proc/{pid}/task")]


def _state(stat: str) -> bytes:
    """The name stands in parentheses and may hold anything; the state follows it."""
    with contextlib.suppress(OSError, IndexError):
        return Path(stat).read_bytes().rpartition(b")")[2].split()[0]
    return b""


def wake_when_parent_dies() -> None:
    """Let Linux continue this process then, should somebody have stopped it: it has to clean up."""
    if sys.platform == "linux":
        c_library().prctl(_PR_SET_PDEATHSIG, signal.SIGCONT, 0, 0, 0)


def die_with(parent: int) -> None:
    """Let Linux kill this process when `parent` dies; ended at once where it is dead already."""
    if sys.platform != "linux":
        return
    c_library().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def adopt_orphans() -> None:
    """Become the parent of descendants whose parents die (Linux): a double fork loses nobody."""
    if sys.platform == "linux":
        c_library().prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


_adopting = threading.Lock()
# Runs that adopt, and the flag before the first of them: the process may be a notebook, which we do not own.
_adopters: list[bool] = []
_flag_before = ctypes.c_int()


@contextlib.contextmanager
def adopting_orphans() -> Iterator[None]:
    """Adopt orphans for as long as this lasts; runs may overlap, and the last one puts the flag back."""
    if sys.platform != "linux":
        yield
        return
    with _adopting:
        if not _adopters:
            c_library().prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(_flag_before), 0, 0, 0)
            adopt_orphans()
        _adopters.append(True)
    try:
        yield
    finally:
        with _adopting:
            _adopters.pop()
            if not _adopters:
                c_library().prctl(_PR_SET_CHILD_SUBREAPER, _flag_before.value, 0, 0, 0)


class Mark:
    """What every process of one run inherits: a word in its environment and an odd hard limit of core files.

    The word is lost where a child gets a new environment, and cannot be read of a dead one; the limit is lost
    where the system grants it to nobody. Core files stay off: the soft limit is 0.
    """

    def __init__(self, word: str | None = None) -> None:
        self.word = word or secrets.token_hex(8)
        self._limit = _MARKS + (int(self.word, 16) >> 8)
        self._entry = f"{_TOKEN}={self.word}".encode()

    @property
    def environment(self) -> dict[str, str]:
        """To be added to the environment of the process that starts all others."""
        return {_TOKEN: self.word}

    @staticmethod
    def of_this_process() -> "Mark":
        """The mark that this process inherited."""
        return Mark(os.environ.get(_TOKEN))

    def apply(self) -> None:
        """Mark this process and all that it will start."""
        import resource

        try:
            resource.setrlimit(resource.RLIMIT_CORE, (0, self._limit))
        except (ValueError, OSError):  # the limit is lower already, and only root may raise it
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def belongs_to_run(self, pid: int) -> bool:
        """Whether that process comes from this run."""
        import resource

        with contextlib.suppress(OSError, ValueError):
            if hasattr(resource, "prlimit") and resource.prlimit(pid, resource.RLIMIT_CORE)[1] == self._limit:
                return True
        with contextlib.suppress(OSError):
            return self._entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return False


def children_of(pid: int) -> set[int]:
    """Its children, dead ones that nobody waited for included; empty where the system does not tell."""
    if not _kernel_lists_children():
        return _children_by_scan(pid)
    found: set[int] = set()
    with contextlib.suppress(OSError):  # it has just ended
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                found.update(map(int, Path(f"/proc/{pid}/task/{task}/children").read_bytes().split()))
    return found


@functools.cache
def _kernel_lists_children() -> bool:
    return Path(f"/proc/self/task/{os.getpid()}/children").exists()


def _children_by_scan(parent: int) -> set[int]:
    found = set()
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if entry.isdigit():
            with contextlib.suppress(OSError):
                # The name stands in parentheses and may hold anything; state and parent follow it.
                fields = Path(f"/proc/{entry}/stat").read_bytes().rpartition(b")")[2].split()
                if int(fields[1]) == parent:
                    found.add(int(entry))
    return found


def is_stopped(pid: int) -> bool:
    """Whether a signal stopped the process."""
    return _state(f"/proc/{pid}/stat") in (b"T", b"t")


def end_children(which: Callable[[int], bool]) -> None:
    """Kill and reap the children of this process that are meant, and with them all that descends from them.

    Children of the killed are adopted here and found in the next round, as long as this process adopts orphans.
    """
    deadline = time.monotonic() + _KILL_SECONDS
    while time.monotonic() < deadline:
        meant = {pid for pid in children_of(os.getpid()) if which(pid)}
        if not meant:
            return
        _kill_all(meant)
        if not _reap(meant):
            time.sleep(_PAUSE)


def _kill_all(pids: Iterable[int]) -> None:
    """Kill whole trees, each parent before its children: it could start them again."""
    for pid in pids:
        below = children_of(pid)  # now, because they change their parent when it dies
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
        _kill_all(below)


def _reap(pids: Iterable[int]) -> bool:
    """Whether any of them was dead and is gone now."""
    reaped = False
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            reaped |= os.waitpid(pid, os.WNOHANG)[0] == pid
    return reaped
