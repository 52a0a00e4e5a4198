"""Why a case came to its outcome: a small type per kind, so that nobody has to read words.

A result has a tuple of them, the main one first. What stands in files is the `kind` and the fields; words are made in
model/reasons, once per language. Only text that comes from outside (a backend's own words, an exception's message)
is kept as text.
"""

import re
from typing import Literal

import msgspec

from mluops_gtest.model.outcome import Outcome


def _kind(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


class _Cause(msgspec.Struct, frozen=True, tag_field="kind", tag=_kind):
    """One reason; equal ones are the same cause."""


class Places(msgspec.Struct, frozen=True):
    """Which of the `size` elements of an output are meant: how many, and the flat indices of the first and the last."""

    count: int
    size: int
    # None where none is, although the output is beyond its criteria: a threshold below 0.
    first: int | None
    last: int | None


class Excess(msgspec.Struct, frozen=True):
    """A criterion that an output does not keep."""

    criterion: str
    value: float
    threshold: float


class PassedAtTry(_Cause, frozen=True):
    """It passed when it was tried again; the causes of the first try follow."""

    tries: int
    after: Outcome


class AfterTimedCalls(_Cause, frozen=True):
    """It passed before it was called again and again; what the last call came to follows."""

    calls: int


# What stands before other causes.
Prelude = PassedAtTry | AfterTimedCalls


class UnknownOperator(_Cause, frozen=True):
    """There is no such operator here."""

    operator: str


class Unsupported(_Cause, frozen=True):
    """supports() says no."""

    backend: str
    operator: str


class Declined(_Cause, frozen=True):
    """The backend declined the call, in its own words."""

    text: str


class Interrupted(_Cause, frozen=True):
    """The user ended the run."""


class StoppedAtFailure(_Cause, frozen=True):
    """Another case failed, and the run was asked to end there."""


class DeviceLost(_Cause, frozen=True):
    """No worker is healthy any more."""

    backend: str
    device: int | None
    text: str


class RunLost(_Cause, frozen=True):
    """No worker can be started any more."""

    text: str


# The backend was not asked, or does not offer it.
NotAsked = UnknownOperator | Unsupported | Declined | Interrupted | StoppedAtFailure | DeviceLost | RunLost


class ContentError(_Cause, frozen=True):
    """The case is broken, in the words of the error."""

    text: str


class Unreadable(_Cause, frozen=True):
    """The system does not give the case's file."""

    case: str
    text: str


class TooLarge(_Cause, frozen=True):
    """The case does not fit into memory."""

    case: str


class Unwritable(_Cause, frozen=True):
    """Something the case needs could not be written."""

    text: str


class Shortage(_Cause, frozen=True):
    """The machine does not give what the case needs."""

    exception: str
    text: str


class Bug(_Cause, frozen=True):
    """The harness is wrong."""

    exception: str
    text: str


class Disturbed(_Cause, frozen=True):
    """Something from outside cut the case short whenever it ran, although it ran alone."""

    by: Literal["late answer", "fork server"]


class NoRoom(_Cause, frozen=True):
    """No worker can hold the tensors."""


# Not the backend's doing.
NotItsFault = ContentError | Unreadable | TooLarge | Unwritable | Shortage | Bug | Disturbed | NoRoom


class Raised(_Cause, frozen=True):
    """The backend raised; `asked` is what it was asked beside the call itself."""

    exception: str
    text: str
    asked: Literal["", "workspace_size"] = ""


class SupportsRaised(_Cause, frozen=True):
    """supports() raised."""

    operator: str
    exception: str
    text: str


class BadAnswer(_Cause, frozen=True):
    """What the backend told cannot be: a size, a time."""

    text: str
    asked: Literal["", "workspace_size"] = ""


class ProtocolBroken(_Cause, frozen=True):
    """The worker sent what no worker sends."""

    text: str


class TimedOut(_Cause, frozen=True):
    """No answer within the limit."""

    seconds: float


class Exited(_Cause, frozen=True):
    """The worker ended itself."""

    code: int


class Killed(_Cause, frozen=True):
    """The worker died by a signal; `signal` is empty where the system has no name for the number."""

    signal: str
    number: int


class Fault(_Cause, frozen=True):
    """A memory fault with its place: by the nearest buffer, else by the address alone."""

    signal: str
    access: Literal["read", "wrote", "touched"] = "touched"
    # Hexadecimal; empty where the kernel told none.
    address: str = ""
    place: Literal["", "inside", "behind", "in front", "null", "far"] = ""
    buffer: str = ""
    # From the buffer's start where it is inside, else from its nearest end.
    distance: int = 0


class ProgramDied(_Cause, frozen=True):
    """The program of exec:COMMAND died by a signal; `printed` are its last words."""

    program: str
    signal: str
    printed: str


# A call without an answer.
NoReply = Raised | SupportsRaised | BadAnswer | ProtocolBroken | TimedOut | Exited | Killed | Fault | ProgramDied


class Overrun(_Cause, frozen=True):
    """A byte outside of a buffer was written, `distance` bytes from its end or start."""

    buffer: str
    side: Literal["behind", "in front"]
    distance: int


class InputChanged(_Cause, frozen=True):
    """An input was written."""

    input: str
    element: int


class HostArrayChanged(_Cause, frozen=True):
    """A C array that is const was written."""

    array: str


class PageWritten(_Cause, frozen=True):
    """The address that stands for a descriptor without data was written."""

    tensor: str


class FileSize(_Cause, frozen=True):
    """A program's output file has another size than the buffer; None: there is no file."""

    file: str
    bytes: int | None
    output: str
    wanted: int


# Memory.
Damage = Overrun | InputChanged | HostArrayChanged | PageWritten | FileSize


class WrongStatus(_Cause, frozen=True):
    """Another status than expected; `remarks` are the backend's, `says` is the check in the operator's words."""

    answered: str
    expected: str
    remarks: str = ""
    check: str = ""
    message: str = ""


class Refusals(_Cause, frozen=True):
    """A function around the operator refused although the call should succeed."""

    texts: tuple[str, ...]


class WrittenAnyway(_Cause, frozen=True):
    """An output was written although the call fails or returns early."""

    output: str
    places: Places
    status: str
    check: str


class ScalarMissing(_Cause, frozen=True):
    """A result that is no tensor was not reported."""

    output: str
    expected: int


class ScalarWrong(_Cause, frozen=True):
    """A result that is no tensor is wrong; `got` in digits, which may be more than a number in JSON holds."""

    output: str
    got: str
    expected: int


class Unwritten(_Cause, frozen=True):
    """Elements still hold what was there before the call."""

    output: str
    places: Places
    index: tuple[int, ...]


class NonFinite(_Cause, frozen=True):
    """Elements differ in being NaN or infinite; `differing` is what differs at all, `criteria` what it was held to."""

    output: str
    elements: int
    first: int
    criteria: tuple[str, ...]
    differing: Places


class Exceeded(_Cause, frozen=True):
    """Criteria that an output does not keep, and how much of it differs; see criteria/tolerance.py for `beyond`."""

    output: str
    criteria: tuple[Excess, ...]
    differing: Places
    # They were measured on the finite elements; a NonFinite stands before it.
    finite_only: bool
    equality: bool
    beyond: int | None
    bits_unequal: int


class BitsUnequal(_Cause, frozen=True):
    """Equal, but not bit for bit, where that was asked."""

    output: str
    elements: int


class BeyondBound(_Cause, frozen=True):
    """Elements that no order of right operations explains, where each is asked to keep what arithmetic allows."""

    output: str
    places: Places
    precision: str


class NotReproducible(_Cause, frozen=True):
    """A repeated call gave other bits."""

    run: int
    outputs: tuple[str, ...]


# Wrong answers.
WrongCall = WrongStatus | Refusals | WrittenAnyway
WrongValue = (
    ScalarMissing | ScalarWrong | Unwritten | NonFinite | Exceeded | BitsUnequal | BeyondBound | NotReproducible
)


class NoCriterion(_Cause, frozen=True):
    """Nobody says how near is near enough."""

    output: str
    dtype: str


class NotJudged(_Cause, frozen=True):
    """No criterion could be judged on the output."""

    output: str


class ConstantBaseline(_Cause, frozen=True):
    """Whoever writes a constant agrees with it."""

    output: str


class ComparedWithItself(_Cause, frozen=True):
    """The reference was held to a baseline that it had just computed."""


class NothingCompared(_Cause, frozen=True):
    """There was nothing to compare."""


# Agreement that proves nothing.
Doubt = NoCriterion | NotJudged | ConstantBaseline | ComparedWithItself | NothingCompared


class Told(_Cause, frozen=True):
    """Words as a backend gave them, or as a results file of an earlier version has them."""

    text: str


Cause = Prelude | NotAsked | NotItsFault | NoReply | Damage | WrongCall | WrongValue | Doubt | Told
