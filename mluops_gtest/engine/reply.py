"""What one call of a backend came to: a status, or the reason why there is none."""

import math
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

import numpy as np

from mluops_gtest.model.call import Backend, Crashed, Declined, OpCall, Violated
from mluops_gtest.model.status import Status

# A call that takes longer than the longest time-out anybody waits for; a device time beyond it is no time.
_MOST_SECONDS: Final = 1e6
# Far beyond any count, and still short enough to be printed.
_MOST_SCALAR_BITS: Final = 4096
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


@dataclass(frozen=True, slots=True)
class Reply:
    """`status` where the backend answered; else `ended` and `reason` say what happened instead."""

    status: Status | None = None
    seconds: float = 0.0
    device_seconds: float | None = None
    scalars: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    ended: Ending | None = None
    reason: str = ""
    # What the backend printed, C code included, where it was captured.
    output: str = ""


class NoAnswerError(Exception):
    """A question beside the call itself (its workspace) ended it; `reply` says how."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.reason)
        self.reply = reply


def reply_of(backend: Backend, call: OpCall) -> Reply:
    """Run the call; whatever the backend raises becomes an ending with its reason."""
    start = _clock()
    try:
        answer: Any = backend.run(call)
        seconds = _clock() - start
        return Reply(
            _status(backend, answer),
            seconds,
            _device_seconds(backend),
            _scalars(call),
            tuple(map(str, call.notes)),
            tuple(map(str, call.refusals)),
        )
    except (Exception, SystemExit) as error:
        return failed_reply(error, call)


def failed_reply(error: BaseException, call: OpCall) -> Reply:
    """What an exception of a backend means for the case."""
    notes = tuple(map(str, call.notes))
    reason = f"{type(error).__name__}: {error}"
    match error:
        case Declined():
            return Reply(ended=Ending.DECLINED, reason=f"declined: {error}", notes=notes)
        case Violated():
            return Reply(ended=Ending.MEMORY, reason=str(error), notes=notes)
        case Crashed():
            return Reply(ended=Ending.CRASHED, reason=str(error), notes=notes)
        case MemoryError() | SystemExit():
            return Reply(ended=Ending.CRASHED, reason=reason, notes=notes)
    trace = "".join(traceback.format_exception(error)).rstrip()
    return Reply(ended=Ending.ERROR, reason=reason, notes=(*notes, trace))


def _status(backend: Backend, answer: Any) -> Status:
    if isinstance(answer, bool) or not isinstance(answer, (int, np.integer)):
        raise TypeError(f"backend {backend.name}: run() returned {answer!r}; it must return a Status.")
    if int(answer) not in Status.__members__.values():
        raise TypeError(f"backend {backend.name}: run() returned {int(answer)}, which is no Status.")
    return Status(int(answer))


def checked_size(name: str, size: Any) -> int:
    """A workspace size as an int, or an error that says what came instead."""
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 0:
        raise TypeError(f"backend {name}: workspace_size() returned {size!r}; it must be an int ≥ 0.")
    return int(size)


def _scalars(call: OpCall) -> dict[str, int]:
    for name, value in call.scalars.items():
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise TypeError(f"call.scalars[{name!r}] is {value!r}; it must be an int.")
        if int(value).bit_length() > _MOST_SCALAR_BITS:
            raise ValueError(f"call.scalars[{name!r}] has {int(value).bit_length()} bits; no result is that large.")
    return {str(name): int(value) for name, value in call.scalars.items()}


def _device_seconds(backend: Backend) -> float | None:
    ask = getattr(backend, "device_seconds", None)
    value = None if ask is None else ask()
    return None if value is None else checked_seconds("device_seconds() returned", value)


def checked_seconds(what: str, value: Any, most: float = _MOST_SECONDS) -> float:
    """A time as a float, or an error that says what came instead."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{what} {value!r}; it must be a number of seconds ≥ 0, or None.")
    # Compared before it is converted: an int may be too large for a float.
    if not 0 <= value <= most or not math.isfinite(value):
        raise ValueError(f"{what} {_short(value)}; it must be a number of seconds from 0 to {most:g}, or None.")
    return float(value)


def _short(value: Any) -> str:
    """A number in few digits, however large it is."""
    try:
        return f"{value:g}"
    except OverflowError:
        return f"an int of {value.bit_length()} bits"
