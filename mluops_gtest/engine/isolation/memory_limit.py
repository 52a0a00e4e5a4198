"""`--memory-limit`: address space on top of the loaded backend and the tensors, as a hard limit."""

import contextlib
import resource
from pathlib import Path

# What a worker may keep of earlier calls before a new one takes its place, as a share of the limit. The hard limit
# lies above the limit by as much, so that every call gets all of its own.
_KEPT_SHARE = 8


class MemoryLimit:
    """`extra` bytes for every call; None: no limit."""

    def __init__(self, extra: int | None) -> None:
        self._extra = extra
        # Only root raises a hard limit again: it is set once, before the first call.
        self._hard: int | None = None
        self._peak = 0

    def begin(self) -> bool:
        """Limit the next call; False where this process has no room left for one, and a new one has."""
        if self._extra is None:
            return True
        now = _statm() * resource.getpagesize()
        if self._hard is None:
            self._hard = now + self._extra + self._extra // _KEPT_SHARE
            _, allowed = resource.getrlimit(resource.RLIMIT_AS)
            if allowed != resource.RLIM_INFINITY:
                self._hard = min(self._hard, allowed)
        elif now + self._extra > self._hard:
            return False
        try:
            resource.setrlimit(resource.RLIMIT_AS, (min(now + self._extra, self._hard), self._hard))
        except (ValueError, OSError):  # a call lowered the hard limit
            return False
        self._peak = _peak()
        return True

    def end(self) -> tuple[str, ...]:
        """Lift the soft limit again; tells whether the backend had raised the hard one."""
        if self._hard is None:
            return ()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        peak = _peak()
        raised = hard == resource.RLIM_INFINITY or hard > self._hard or peak > max(self._peak, self._hard)
        with contextlib.suppress(ValueError, OSError):  # it may have lowered the hard limit
            resource.setrlimit(resource.RLIMIT_AS, (self._hard, self._hard))
        return ("raised its memory limit (--memory-limit), which its privileges allow",) if raised else ()

    @property
    def exhausted(self) -> bool:
        """This process has no room for another call."""
        return self._hard is not None and _statm() * resource.getpagesize() + (self._extra or 0) > self._hard


def _statm() -> int:
    """Pages of address space; 0 where the system does not tell, so that the limit is the limit of all."""
    with contextlib.suppress(OSError):
        return int(Path("/proc/self/statm").read_bytes().split()[0])
    return 0


def _peak() -> int:
    """The most bytes of address space that this process ever had."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        return int(Path("/proc/self/status").read_bytes().split(b"VmPeak:")[1].split()[0]) << 10
    return 0
