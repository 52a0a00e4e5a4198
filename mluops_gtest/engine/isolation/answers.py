"""What a worker may answer: a type per kind of request, read strictly. No answer can name a verdict on a case."""

from typing import Annotated, Final, Generic, Literal, TypeVar

import msgspec

from mluops_gtest.engine.isolation.conversation import ProtocolError
from mluops_gtest.engine.reply import Ending, Reply
from mluops_gtest.files.typed import json_bytes
from mluops_gtest.model.call import QueryAnswer
from mluops_gtest.model.cause import Cause
from mluops_gtest.model.precision import PRECISIONS
from mluops_gtest.model.status import Status

# Lengths that no right worker reaches: notes are held to 1 MiB where they are made.
_Name = Annotated[str, msgspec.Meta(max_length=10_000)]
_Text = Annotated[str, msgspec.Meta(max_length=2 << 20)]
_Texts = Annotated[tuple[_Text, ...], msgspec.Meta(max_length=100_000)]
# No `pattern`: a struct with a pattern beside a dict in one union frees memory that is not its own when Python ends.
_Precision = Literal[PRECISIONS]  # type: ignore[valid-type]
_Scalars = Annotated[dict[_Name, int], msgspec.Meta(max_length=10_000)]


class _Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="is"):
    """Unknown fields, missing fields and wrong types are refused."""


class Loaded(_Answer, frozen=True, tag="loaded"):
    """The backend is there."""

    name: _Name
    is_reference: bool
    deterministic: bool
    precision: _Precision | dict[_Name, _Precision | dict[_Name, _Precision]]
    version: _Name
    offers: Annotated[tuple[_Name, ...], msgspec.Meta(max_length=100)]
    misfits: Annotated[tuple[_Text, ...], msgspec.Meta(max_length=100)] = ()


class NotLoaded(_Answer, frozen=True, tag="not loaded"):
    """The backend does not load, and the exit code for that: usage, content or backend."""

    reason: _Text
    exit_code: Literal[2, 3, 4]


class Health(_Answer, frozen=True, tag="health"):
    """What healthy() says, or why it says nothing."""

    healthy: bool
    reason: _Text = ""


class Support(_Answer, frozen=True, tag="support"):
    """What supports() says."""

    supports: bool


class SupportFailed(_Answer, frozen=True, tag="raised"):
    """A question beside the call raised."""

    reason: _Text


class Workspace(_Answer, frozen=True, tag="workspace"):
    """The bytes of workspace that the backend asks for."""

    size: int


class Answered(_Answer, frozen=True, tag="answered"):
    """The call came back with a status.

    `left` is what it left behind in its process for good; `spent`: there is no memory for another call; `memory` is
    what the process has for itself; `busy`: threads or children may still be at work; `changed`: state was put back.
    """

    status: Status
    seconds: float
    device_seconds: float | None
    scalars: _Scalars
    notes: _Texts
    refusals: _Texts
    queries: Annotated[tuple[QueryAnswer, ...], msgspec.Meta(max_length=100)] = ()
    left: _Texts = ()
    spent: bool = False
    memory: int = 0
    busy: bool = False
    changed: bool = False


class Ended(_Answer, frozen=True, tag="ended"):
    """The call ended without a status. Of what happened, a worker has only these words."""

    how: Literal["declined", "memory", "crashed", "error"]
    causes: Annotated[tuple[Cause, ...], msgspec.Meta(max_length=10_000)]
    notes: _Texts
    left: _Texts = ()
    spent: bool = False
    changed: bool = False


class Settled(_Answer, frozen=True, tag="settled"):
    """What goes on in the worker although it was given time to end."""

    left: _Texts


class NoRoomLeft(_Answer, frozen=True, tag="no room"):
    """The call was not made: under its memory limit this worker cannot hold the tensors and the call beside them."""


class NoRoomError(Exception):
    """The worker has no room for the call; another one may."""


A = TypeVar("A")


class AnswerType(Generic[A]):
    """The answers to one kind of request."""

    def __init__(self, kind: type[A]) -> None:
        self._decoder = msgspec.json.Decoder(kind)

    def read(self, data: bytes) -> A:
        """The answer, or ProtocolError with the place and what was expected there; NoRoomError is no answer yet."""
        try:
            answer: A = self._decoder.decode(data)
        except (ValueError, RecursionError) as error:
            raise ProtocolError(str(error)) from error
        if isinstance(answer, NoRoomLeft):
            raise NoRoomError
        return answer


LOAD: Final[AnswerType[Loaded | NotLoaded]] = AnswerType(Loaded | NotLoaded)  # type: ignore[arg-type]
HEALTH: Final = AnswerType(Health)
SETTLE: Final = AnswerType(Settled)
SUPPORT: Final[AnswerType[Support | SupportFailed]] = AnswerType(Support | SupportFailed)  # type: ignore[arg-type]
BEGIN: Final[AnswerType[Workspace | Answered | Ended]] = AnswerType(Workspace | Answered | Ended | NoRoomLeft)  # type: ignore[arg-type]
RUN: Final[AnswerType[Answered | Ended]] = AnswerType(Answered | Ended | NoRoomLeft)  # type: ignore[arg-type]


def encoded(answer: object) -> bytes:
    """The answer for the line; what a backend says may hold halves of characters, which no text can carry."""
    try:
        return msgspec.json.encode(answer)
    except UnicodeEncodeError:
        return json_bytes(msgspec.to_builtins(answer))


def answer_of(reply: Reply, *, spent: bool = False, memory: int = 0, changed: bool = False) -> Answered | Ended:
    """What the worker sends of a reply."""
    if reply.status is None:
        return ended_of(reply, spent=spent, changed=changed)
    return Answered(
        reply.status,
        reply.seconds,
        reply.device_seconds,
        dict(reply.scalars),
        reply.notes,
        reply.refusals,
        reply.queries,
        reply.left,
        spent,
        memory,
        reply.busy,
        changed,
    )


def ended_of(reply: Reply, *, spent: bool = False, changed: bool = False) -> Ended:
    """What the worker sends of a reply without a status."""
    assert reply.ended is not None, "a reply has a status or an ending"
    return Ended(reply.ended.value, reply.causes, reply.notes, reply.left, spent, changed)  # type: ignore[arg-type]


def reply_from(answer: Answered | Ended) -> Reply:
    """What the controller makes of an answer."""
    if isinstance(answer, Ended):
        return Reply(ended=Ending(answer.how), causes=answer.causes, notes=answer.notes, left=answer.left)
    return Reply(
        answer.status,
        answer.seconds,
        answer.device_seconds,
        answer.scalars,
        answer.notes,
        answer.refusals,
        answer.queries,
        left=answer.left,
        busy=answer.busy,
    )
