"""What a call changes in its process beside the tensors: put back where that is possible, told where it is not.

It may be in the interpreter, in floats, signals, limits and variables, in threads, children, memory and timers. Looking
follows every call and costs a few reads; only a difference costs more. Pools of OpenMP, BLAS or torch do not count,
only threads that run Python or use the processor after the call.
"""

import builtins
import contextlib
import ctypes
import faulthandler
import json
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from mluops_gtest.base.float_state import FloatState
from mluops_gtest.running.workers.memory import SLAB_NAME
from mluops_gtest.running.workers.process_tree import c_library, children_of, task_states

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


_LIMITS: dict[int, str] = {
    getattr(resource, name): name for name in reversed(dir(resource)) if name.startswith("RLIMIT_")
}
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
# A thread may still be ending when the call returns.
_PROCESS_STATE_GRACE_SECONDS = 0.2


class ProcessState:
    """The state once the backend is loaded; `limits_memory` where the address space is limited elsewhere."""

    def __init__(self, *, limits_memory: bool = False) -> None:
        self._floats = FloatState()
        self._interpreter = Interpreter()
        self._actions = _Actions()
        self._status = ProcFile("/proc/self/status", b"Name:")
        self._text = self._status.read()
        self._processes = Processes(self._text)
        # Of the last look: what was put back and a user should know, and whether threads may still be at work.
        self.notes: tuple[str, ...] = ()
        self.is_busy = False
        self._umask = os.umask(0)
        os.umask(self._umask)
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self._folder = _folder()
        self._variables = dict(_python_variables())
        numbers = _LIMITS.keys() - ({resource.RLIMIT_AS} if limits_memory else set())
        self._rlimits = {number: resource.getrlimit(number) for number in numbers}
        # Descriptors are given from below: this one is taken when half of all were in use.
        self._middle = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2
        self._priority = os.getpriority(os.PRIO_PROCESS, 0)
        self._threads = set(sys._current_frames())
        self._traces_faults = faulthandler.is_enabled()
        self._kernel_view = self._look()
        self._c_variables = _CVariables()

    def _look(self) -> tuple[bytes, bytes, list[tuple[int, int]], list[int | None]]:
        """Umask, masks of signals and limits as the kernel tells them, and the handlers of signals that are caught."""
        status = self._text
        signals = status[status.find(b"SigBlk:") : status.find(b"CapInh:")]
        umask = status[status.find(b"Umask:") : status.find(b"State:")]
        return umask, signals, list(map(resource.getrlimit, self._rlimits)), self._actions.caught()

    @property
    def private_bytes(self) -> int:
        """Writable memory that this process shares with no other, at the last look; 0 where the system tells none."""
        _, _, rest = self._text.partition(b"VmData:")
        return int(rest.split(None, 1)[0]) << 10 if rest else 0

    def restore(self) -> tuple[str, ...]:
        """Put back what can be; what cannot, in words: such a process is used no more."""
        changes = self._interpreter.restore()
        if floats := self._floats.changes():
            self._floats.enter()
        self.notes = (*changes, *floats)
        self._text = self._status.read()
        left, self.is_busy = self._processes.look(self._text)
        others = others_nanoseconds() if self._processes.has_threads else 0
        if not sys._current_frames().keys() <= self._threads:
            self.is_busy = True
        if _folder() != self._folder:
            left += self._restored_folder()
        if os.getpriority(os.PRIO_PROCESS, 0) != self._priority:
            left += self._restored_priority()
        with contextlib.suppress(OSError):
            os.fstat(self._middle)
            left.append("left too many files open")
        if any(signal.getitimer(timer)[0] for timer in _TIMERS):
            for timer in _TIMERS:
                signal.setitimer(timer, 0)
        if _python_variables() != self._variables or self._c_variables.changed:
            self._restore_environment()
        if faulthandler.is_enabled() != self._traces_faults or self._look() != self._kernel_view:
            left += self._restored_kernel_view()
        if self._processes.has_threads and others_nanoseconds() > others:
            self.is_busy = True
        return tuple(left)

    def settle(self) -> tuple[str, ...]:
        """Wait a moment for threads that are about to end or to become idle; in words, those that do neither."""
        return (*self._running_threads(), *self._processes.settle())

    def _running_threads(self) -> Iterator[str]:
        started = {one.ident: one for one in threading.enumerate() if one.ident not in self._threads}
        deadline = time.monotonic() + _PROCESS_STATE_GRACE_SECONDS
        for thread in started.values():
            thread.join(max(0.0, deadline - time.monotonic()))
        for ident in sys._current_frames().keys() - self._threads:
            yield f"left the thread {started[ident].name if ident in started else ident!r} running"
            self._threads.add(ident)

    def _restored_folder(self) -> Iterator[str]:
        try:
            os.chdir(self._folder or "/")
        except OSError as error:
            yield f"left the folder {self._folder}, which cannot be entered again: {error.strerror}"
            self._folder = _folder()

    def _restored_priority(self) -> Iterator[str]:
        try:
            os.setpriority(os.PRIO_PROCESS, 0, self._priority)
        except OSError:
            yield "lowered the priority of its process"
            self._priority = os.getpriority(os.PRIO_PROCESS, 0)

    def _restore_environment(self) -> None:
        for name in _python_variables().keys() - self._variables.keys():
            os.environb.pop(name, None)
        for name in _c_names() - self._variables.keys():
            os.unsetenv(name)
        os.environb.update(self._variables)  # and with it C's, which may differ unseen
        self._c_variables = _CVariables()

    def _restored_kernel_view(self) -> Iterator[str]:
        if self._traces_faults and not faulthandler.is_enabled():
            faulthandler.enable(file=2)
        os.umask(self._umask)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        self._actions.restore()
        for number, before in self._rlimits.items():
            if resource.getrlimit(number) == before:
                continue
            try:
                resource.setrlimit(number, before)
            except (ValueError, OSError):
                yield f"lowered the limit {_LIMITS[number]} for good"
                self._rlimits[number] = resource.getrlimit(number)
        self._text = self._status.read()
        self._kernel_view = self._look()


class _Actions:
    """What is done on each signal, Python's handlers and C's."""

    def __init__(self) -> None:
        # Not the library's shared attribute, whose argument types belong to everybody.
        self._sigaction = ctypes.CDLL(None)["sigaction"]
        self._sigaction.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        self._buffer = ctypes.create_string_buffer(512)  # more than any system's struct, which begins with the handler
        self._address = ctypes.addressof(self._buffer)
        self._pointer = ctypes.c_void_p.from_buffer(self._buffer)
        settable = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
        self._before = {number: self._raw(number) for number in settable}
        self._python = {number: signal.getsignal(number) for number in self._before}
        self._watched = tuple(self._before)
        if sys.platform == "linux":
            # 0 and 1 are SIG_DFL and SIG_IGN, which the kernel's masks tell.
            handlers = zip(self._watched, self.caught(), strict=True)
            self._watched = tuple(number for number, handler in handlers if (handler or 0) > 1)

    def _raw(self, number: int) -> bytes:
        self._sigaction(number, None, self._address)
        return self._buffer.raw

    def caught(self) -> list[int | None]:
        """Where the handlers of the signals stand that are watched."""
        ask, address, pointer, handlers = self._sigaction, self._address, self._pointer, []
        for number in self._watched:
            ask(number, None, address)
            handlers.append(pointer.value)
        return handlers

    def restore(self) -> None:
        """As it was, Python's own table included."""
        for number, raw in self._before.items():
            handler = self._python[number]
            if handler is not None and signal.getsignal(number) is not handler:
                with contextlib.suppress(OSError, ValueError, TypeError):
                    signal.signal(number, handler)
            if self._raw(number) != raw:
                self._sigaction(number, raw, None)


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None


def _python_variables() -> Mapping[bytes, bytes]:
    """What Python holds of the environment, as one dict; os.environb would decode every name again."""
    data: Mapping[bytes, bytes] | None = getattr(os.environ, "_data", None)
    return dict(os.environb) if data is None else data


class _CVariables:
    """Where the environment of the C library lies: a variable that C code sets lies elsewhere."""

    def __init__(self) -> None:
        self._place = _environ()
        self._array = self._place.value if self._place is not None else None
        self._size = (len(_c_names()) + 1) * ctypes.sizeof(ctypes.c_void_p)
        self._pointers = self._read()

    @property
    def changed(self) -> bool:
        """Whether a variable was set or removed since; an array in another place may be shorter and is not read."""
        return self._place is not None and (self._place.value != self._array or self._read() != self._pointers)

    def _read(self) -> bytes:
        return ctypes.string_at(self._array, self._size) if self._array else b""


def _environ() -> ctypes.c_void_p | None:
    with contextlib.suppress(ValueError):  # a system that hides it
        return ctypes.c_void_p.in_dll(c_library(), "environ")
    return None


def _c_names() -> set[bytes]:
    place = _environ()
    names: set[bytes] = set()
    if place is not None and place.value:
        lines, index = ctypes.cast(place.value, ctypes.POINTER(ctypes.c_char_p)), 0
        while (line := lines[index]) is not None:
            names.add(line.partition(b"=")[0])
            index += 1
    return names
