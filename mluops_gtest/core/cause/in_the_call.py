"""How a call ended without a reply, and what it damaged."""

from typing import Literal

from mluops_gtest.core.cause.base import CauseBase


class Raised(CauseBase, frozen=True):
    """The backend raised; `asked` is what it was asked beside the call itself."""

    exception: str
    text: str
    asked: Literal["", "workspace_size"] = ""


class SupportsRaised(CauseBase, frozen=True):
    """supports() raised."""

    operator: str
    exception: str
    text: str


class BadAnswer(CauseBase, frozen=True):
    """What the backend told cannot be: a size, a time."""

    text: str
    asked: Literal["", "workspace_size"] = ""


class ProtocolBroken(CauseBase, frozen=True):
    """The worker sent what no worker sends."""

    text: str


class TimedOut(CauseBase, frozen=True):
    """No answer within the limit."""

    seconds: float


class Exited(CauseBase, frozen=True):
    """The worker ended itself."""

    code: int


class Killed(CauseBase, frozen=True):
    """The worker died by a signal; `signal` is empty where the system has no name for the number."""

    signal: str
    number: int


class Fault(CauseBase, frozen=True):
    """A memory fault with its place: by the nearest buffer, else by the address alone."""

    signal: str
    access: Literal["read", "wrote", "touched"] = "touched"
    # Hexadecimal; empty where the kernel told none.
    address: str = ""
    place: Literal["", "inside", "behind", "in front", "null", "far"] = ""
    buffer: str = ""
    # From the buffer's start where it is inside, else from its nearest end.
    distance: int = 0


class ProgramDied(CauseBase, frozen=True):
    """The program of exec:COMMAND died by a signal; `printed` are its last words."""

    program: str
    signal: str
    printed: str


class WorkerLost(CauseBase, frozen=True):
    """Workers of a cluster were lost while they ran the case; the last of them on `host`."""

    times: int
    host: str


# A call without an answer.
NoReply = (
    Raised | SupportsRaised | BadAnswer | ProtocolBroken | TimedOut | Exited | Killed | Fault | ProgramDied | WorkerLost
)


class Overrun(CauseBase, frozen=True):
    """A byte outside of a buffer was written, `distance` bytes from its end or start."""

    buffer: str
    side: Literal["behind", "in front"]
    distance: int


class InputChanged(CauseBase, frozen=True):
    """An input was written."""

    input: str
    element: int


class HostArrayChanged(CauseBase, frozen=True):
    """A C array that is const was written."""

    array: str


class PageWritten(CauseBase, frozen=True):
    """The address that stands for a descriptor without data was written."""

    tensor: str


class FileSize(CauseBase, frozen=True):
    """A program's output file has another size than the buffer; None: there is no file."""

    file: str
    bytes: int | None
    output: str
    wanted: int


class Leak(CauseBase, frozen=True):
    """Each of several calls kept that many bytes more."""

    bytes: int
    calls: int


# Memory.
Damage = Leak | Overrun | InputChanged | HostArrayChanged | PageWritten | FileSize
