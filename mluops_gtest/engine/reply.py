"""What one call of a backend came to: a status, or the reason why it has no status."""

import time
import traceback
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from msgspec import field

from mluops_gtest.model import cause
from mluops_gtest.model.backend import OfferedBackend
from mluops_gtest.model.call import Crashed, Declined, OpCall, QueryAnswer, Violated
from mluops_gtest.model.cause import Cause
from mluops_gtest.model.notes import REFUSALS_LIMIT, cut_text, kept_notes
from mluops_gtest.model.numbers import checked_seconds, short
from mluops_gtest.model.reasons import reason_of
from mluops_gtest.model.status import Status
from mluops_gtest.value import Value

_MEMINFO: Final = Path("/proc/meminfo")
_CGROUP: Final = Path("/sys/fs/cgroup")


def free_bytes(meminfo: Path = _MEMINFO, cgroup: Path = _CGROUP) -> int | None:
    """The bytes that may still be taken; None where the system does not tell."""
    found = [free for free in (_of_machine(meminfo), _of_container(cgroup)) if free is not None]
    return min(found, default=None)


def _of_machine(meminfo: Path) -> int | None:
    try:
        for line in meminfo.read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(":")
            if name == "MemAvailable":
                return int(value.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _of_container(cgroup: Path) -> int | None:
    """What is left below the limit of a control group; cached files count as free, as the system drops them."""
    try:
        limit = int((cgroup / "memory.max").read_text(encoding="ascii"))
        used = int((cgroup / "memory.current").read_text(encoding="ascii"))
        stat = dict(line.split() for line in (cgroup / "memory.stat").read_text(encoding="ascii").splitlines())
        return max(0, limit - used + int(stat.get("inactive_file", 0)))
    except (OSError, ValueError):
        return None


# Of what a backend raises, this many characters are told.
_MAX_REASON: Final = 16 << 10
_MAX_TRACE: Final = 64 << 10
# A workspace below this is given without a look at the memory; beyond the other nobody has it.
_UNASKED_BYTES: Final = 64 << 20
_MAX_WORKSPACE: Final = 1 << 42
# Far beyond any count, and still short enough to be printed.
_MAX_SCALAR_BITS: Final = 4096
# Bound here: a backend may replace what `time` holds.
_clock = time.perf_counter


class Ending(Enum):
    """How a call ended where it gave no status: what happened, never a verdict."""

    DECLINED = "declined"
    MEMORY = "memory"
    CRASHED = "crashed"
    ERROR = "error"
    # Only who waits can tell; no worker has this word.
    TIMED_OUT = "timed_out"


class Reply(Value):
    """`status` where the backend answered; else `ended` and `causes` say what happened instead."""

    status: Status | None = None
    seconds: float = 0.0
    device_seconds: float | None = None
    scalars: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    queries: tuple[QueryAnswer, ...] = ()
    ended: Ending | None = None
    causes: tuple[Cause, ...] = ()
    # What the backend printed, C code included, where it was captured.
    output: str = ""
    # What it left in its process that cannot be undone, so that no other case runs there.
    left: tuple[str, ...] = ()
    # Threads or children of the call may still be at work.
    busy: bool = False

    @property
    def reason(self) -> str:
        """The causes in English."""
        return reason_of(self.causes)


def reply_of(backend: OfferedBackend, call: OpCall, *, empty: bool = False) -> Reply:
    """Run the call; whatever the backend raises becomes an ending with its reason."""
    start = _clock()
    try:
        answer = backend.run_empty(call) if empty else backend.run(call)
        seconds = _clock() - start
        return Reply(
            _status(backend, answer),
            seconds,
            _device_seconds(backend),
            _scalars(call),
            kept_notes(call.notes),
            kept_notes(call.refusals, REFUSALS_LIMIT),
            tuple(one for one in call.queries if isinstance(one, QueryAnswer)),
        )
    except (Exception, SystemExit) as error:
        return failed_reply(error, call)


def failed_reply(error: BaseException, call: OpCall, asked: Literal["", "workspace_size"] = "") -> Reply:
    """What an exception of a backend means for the case; `asked` is what it was asked beside the call."""
    notes = kept_notes(call.notes)
    raised = cause.Raised(type(error).__name__, _words(error), asked)
    match error:
        case Declined():
            return Reply(ended=Ending.DECLINED, causes=(cause.Declined(raised.text),), notes=notes)
        case Violated(findings=findings):
            return Reply(ended=Ending.MEMORY, causes=tuple(map(_typed, findings)), notes=notes)
        case Crashed(how=how):
            return Reply(ended=Ending.CRASHED, causes=(_typed(how),), notes=notes)
        case MemoryError() | SystemExit():
            return Reply(ended=Ending.CRASHED, causes=(raised,), notes=notes)
    trace = cut_text("".join(traceback.format_exception(error)).rstrip(), _MAX_TRACE)
    return Reply(ended=Ending.ERROR, causes=(raised,), notes=(*notes, trace))


def _typed(found: Cause | str) -> Cause:
    """What a backend found itself; its own words may be endless."""
    return cause.Told(cut_text(found, _MAX_REASON)) if isinstance(found, str) else found


def told(error: BaseException) -> str:
    """An exception in one line: its kind and its words."""
    return f"{type(error).__name__}: {_words(error)}"


def _words(error: BaseException) -> str:
    """The words of an exception, which may be endless, or raise themselves."""
    try:
        return cut_text(str(error), _MAX_REASON)
    except Exception as another:
        return f"its text cannot be shown ({type(another).__name__})"


def _status(backend: OfferedBackend, answer: Any) -> Status:
    if isinstance(answer, Status):
        return answer
    if isinstance(answer, bool) or not isinstance(answer, (int, np.integer)):
        raise TypeError(f"backend {backend.name}: run() returned {short(answer)}; it must return a Status.")
    if int(answer) not in Status.__members__.values():
        raise TypeError(f"backend {backend.name}: run() returned {short(int(answer))}, which is not a Status.")
    return Status(int(answer))


def checked_size(name: str, size: Any, limit: int | None = None) -> int:
    """A workspace size as an int that may be allocated, or an error that says what came instead."""
    message = f"backend {name}: workspace_size() returned"
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0:
        raise TypeError(f"{message} {short(size)}; it must be an int ≥ 0.")
    if limit is not None and size > limit:
        raise ValueError(f"{message} {short(size)}, but --memory-limit allows {limit} bytes.")
    if size > _UNASKED_BYTES:
        free = free_bytes()
        if size > (_MAX_WORKSPACE if free is None else free):
            told = "no machine has that" if free is None else f"only {free} bytes of memory are free"
            raise ValueError(f"{message} {short(size)}, but {told}.")
    return int(size)


def _scalars(call: OpCall) -> dict[str, int]:
    for name, value in call.scalars.items():
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise TypeError(f"call.scalars[{name!r}] is {short(value)}; it must be an int.")
        if int(value).bit_length() > _MAX_SCALAR_BITS:
            raise ValueError(f"call.scalars[{name!r}] has {int(value).bit_length()} bits; no result is that large.")
    return {str(name): int(value) for name, value in call.scalars.items()}


def _device_seconds(backend: OfferedBackend) -> float | None:
    value = backend.device_seconds()
    return None if value is None else checked_seconds("device_seconds() returned", value)
