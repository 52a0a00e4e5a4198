"""What a call leaves around it that the next one would meet: in the interpreter, in processes, memory and timers."""

import builtins
import contextlib
import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from mluops_gtest.engine.isolation.process_tree import children_of, task_states
from mluops_gtest.engine.isolation.shared import SLAB_NAME

# What the worker itself calls between two calls, or would import.
_FUNCTIONS: Final[tuple[tuple[Any, tuple[str, ...]], ...]] = (
    (builtins, ("__import__", "isinstance", "len", "open")),
    (np, ("array", "asarray", "ascontiguousarray", "empty", "frombuffer", "zeros")),
    (json, ("loads",)),
    (msgspec.json, ("encode",)),
    (os, ("close", "getpid")),
    (socket, ("recv_fds",)),
)
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_DEFAULT_MAPPINGS: Final = 65530  # vm.max_map_count of Linux
_READ = 1 << 13
# How long threads may go on after a call: OpenMP's wait for more work and use the processor for up to 0.2 s.
_GRACE_SECONDS = 0.3
_WINDOW_SECONDS = 0.002
# Of a window: what an idle pool never uses.
_IDLE_SHARE = 0.1


class Interpreter:
    """`sys.path` and a dozen functions, as loading left them."""

    def __init__(self) -> None:
        self._path = list(sys.path)
        self._functions = [
            (module.__dict__, name, module.__dict__[name], f"{module.__name__}.{name}")
            for module, names in _FUNCTIONS
            for name in names
        ]

    def restore(self) -> list[str]:
        """Put all of it back; what was changed, in words. No built-in function is needed for that."""
        changes = []
        for namespace, name, function, words in self._functions:
            if namespace.get(name) is not function:
                namespace[name] = function
                changes.append(f"replaced {words}; that was put back")
        # What a backend adds may be where it finds its own modules.
        if sys.path != self._path and not set(self._path) <= set(sys.path):
            sys.path = list(self._path)
            changes.append("removed folders from sys.path; that was put back")
        return changes


class Processes:
    """Tasks, children, mappings and POSIX timers of this process; Linux tells of them, other systems have none here."""

    def __init__(self, status: bytes) -> None:
        self._tasks = _number(status, b"Threads:")
        # The tasks of a pool that uses the processor for a while after each call.
        self._spinning = 0
        self._children = children_of(os.getpid())
        self._counted_size = _number(status, b"VmSize:")
        self._most_mappings = int(_text("/proc/sys/vm/max_map_count") or _DEFAULT_MAPPINGS)
        self._timers = ProcFile("/proc/self/timers", b"ID:", may_be_empty=True)
        self._first_timers = self._timers.read()

    def look(self, status: bytes) -> tuple[list[str], bool]:
        """What no other case should meet, in words, and whether something may still be at work on the tensors."""
        left = []
        tasks, size = _number(status, b"Threads:"), _number(status, b"VmSize:")
        is_busy, self._tasks = tasks > self._tasks, tasks
        # A page holds at most one mapping: less growth cannot use them up.
        if (size - self._counted_size) << 10 > self._most_mappings // 4 * _PAGE:
            self._counted_size, mappings = size, _text("/proc/self/maps").count(b"\n")
            if mappings > self._most_mappings // 2:
                left.append(f"left {mappings} mappings of memory, of {self._most_mappings} that a process may have")
        if self._timers.read() != self._first_timers:
            left.append("left a POSIX timer armed")
        if _has_children() and self._shares_tensors():
            left.append("left a child process that shares its tensors")
            is_busy = True
        return left, is_busy

    @property
    def has_threads(self) -> bool:
        """At the last look there were others than the one that looks."""
        return self._tasks > 1

    def _shares_tensors(self) -> bool:
        """Whether a new child was forked here and runs no program of its own: it has our memory and our line."""
        children = children_of(os.getpid())
        born, self._children = children - self._children, children
        return any(SLAB_NAME.encode() in _text(f"/proc/{child}/maps") for child in born)

    def settle(self) -> list[str]:
        """Wait until other threads are idle; in words, what uses the processor nevertheless."""
        if self._tasks == self._spinning:
            return []
        deadline = time.monotonic() + _GRACE_SECONDS
        while True:
            before = others_nanoseconds()
            time.sleep(_WINDOW_SECONDS)
            is_idle = others_nanoseconds() - before < _IDLE_SHARE * _WINDOW_SECONDS * 1e9
            # On a busy machine others may wait for their turn; this thread runs, too.
            if is_idle and task_states(os.getpid()).count(b"R") <= 1:
                break
            self._spinning = self._tasks
            if time.monotonic() > deadline:
                return ["left threads running that use the processor"]
        return []


def others_nanoseconds() -> int:
    """What all threads but this one have used of the processors."""
    return time.process_time_ns() - time.thread_time_ns()


class ProcFile:
    """A file of /proc, kept open; a backend may have closed it, or have another file in its place."""

    def __init__(self, name: str, begins: bytes, *, may_be_empty: bool = False) -> None:
        self._name, self._begins, self._may_be_empty = name, begins, may_be_empty
        self._fd = -1

    def read(self) -> bytes:
        """Its text; empty where the system has none."""
        with contextlib.suppress(OSError):
            text = os.pread(self._fd, _READ, 0)
            if text.startswith(self._begins) or (self._may_be_empty and not text):
                return text
        try:
            self._fd = os.open(self._name, os.O_RDONLY)
            return os.pread(self._fd, _READ, 0)
        except OSError:
            return b""


def _number(status: bytes, name: bytes) -> int:
    start = status.find(name)
    return 0 if start < 0 else int(status[start + len(name) : status.find(b"\n", start)].split()[0])


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (ChildProcessError, AttributeError):
        return False
    return True


def _text(path: str) -> bytes:
    with contextlib.suppress(OSError):
        return Path(path).read_bytes()
    return b""
