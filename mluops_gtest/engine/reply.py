"""What one call of a backend came to: a status, or the reason why there is none."""

import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mluops_gtest.model.call import Backend, Crashed, Declined, OpCall, Violated
from mluops_gtest.model.result import Outcome
from mluops_gtest.model.status import Status

_BY_WORD = {outcome.value: outcome for outcome in Outcome}


@dataclass(frozen=True, slots=True)
class Reply:
    """`status` where the backend answered; else `outcome` and `reason` say what happened instead."""

    status: Status | None = None
    seconds: float = 0.0
    device_seconds: float | None = None
    scalars: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    outcome: Outcome | None = None
    reason: str = ""
    # What the backend printed, C code included, where it was captured.
    output: str = ""

    def to_message(self) -> dict[str, Any]:
        """Plain values for a pipe."""
        return {
            "status": None if self.status is None else int(self.status),
            "seconds": self.seconds,
            "device_seconds": self.device_seconds,
            "scalars": dict(self.scalars),
            "notes": self.notes,
            "refusals": self.refusals,
            "outcome": None if self.outcome is None else self.outcome.value,
            "reason": self.reason,
        }

    @staticmethod
    def from_message(message: Mapping[str, Any]) -> "Reply":
        """The reply that a worker sent; a worker's memory may be in any state, so nothing is taken on trust."""
        status, outcome = message["status"], message["outcome"]
        return Reply(
            None if status is None else Status(status),
            float(message["seconds"]),
            message["device_seconds"],
            {str(name): int(value) for name, value in message["scalars"].items()},
            tuple(map(str, message["notes"])),
            tuple(map(str, message["refusals"])),
            None if outcome is None else _BY_WORD[outcome],
            str(message["reason"]),
        )


class NoAnswerError(Exception):
    """A question beside the call itself (its workspace) ended it; `reply` says how."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.reason)
        self.reply = reply


def reply_of(backend: Backend, call: OpCall) -> Reply:
    """Run the call; whatever the backend raises becomes an outcome with its reason."""
    start = time.perf_counter()
    try:
        answer: Any = backend.run(call)
        seconds = time.perf_counter() - start
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
            return Reply(outcome=Outcome.SKIPPED, reason=f"declined: {error}", notes=notes)
        case Violated():
            return Reply(outcome=Outcome.MEMORY, reason=str(error), notes=notes)
        case Crashed():
            return Reply(outcome=Outcome.CRASHED, reason=str(error), notes=notes)
        case MemoryError() | SystemExit():
            return Reply(outcome=Outcome.CRASHED, reason=reason, notes=notes)
    trace = "".join(traceback.format_exception(error)).rstrip()
    return Reply(outcome=Outcome.ERROR, reason=reason, notes=(*notes, trace))


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
    return {str(name): int(value) for name, value in call.scalars.items()}


def _device_seconds(backend: Backend) -> float | None:
    ask = getattr(backend, "device_seconds", None)
    value = None if ask is None else ask()
    return None if value is None else float(value)
