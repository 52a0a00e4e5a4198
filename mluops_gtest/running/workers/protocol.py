"""How controller, fork server and workers speak: JSON messages over a private pipe, descriptors beside them.

Each message has its length and a number before it. A worker gets one request at a time and owes exactly one answer
within one deadline. What it may answer is a type per kind of request, read strictly: none can name a verdict on a case.
"""

import array
import contextlib
import json
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Annotated, Any, Final, Generic, Literal, TypeVar

import msgspec

from mluops_gtest.base.files import OutputPipe
from mluops_gtest.base.typed_files import json_bytes
from mluops_gtest.core.call import QueryAnswer, Status
from mluops_gtest.core.cause import Cause, ProtocolBroken, format_reason
from mluops_gtest.core.tensor import PRECISIONS
from mluops_gtest.running.caller import Ending, Reply

HEAD: Final = struct.Struct("<IQ")
_MAX_BYTES = 64 << 20
_MAX_FDS = 8


class ClosedError(Exception):
    """The other side is gone."""


def framed(number: int, body: bytes) -> bytes:
    """A message as it travels: its length and the number of the request that it is, or answers."""
    return HEAD.pack(len(body), number) + body


def rights_of(fds: tuple[int, ...]) -> list[tuple[int, int, "array.array[int]"]]:
    """The descriptors as ancillary data for `sendmsg`."""
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []


class Channel:
    """One end of the pipe. JSON, not pickle: what a worker sends must not run anything here."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end

    @staticmethod
    def pair() -> tuple["Channel", "Channel"]:
        """Both ends of a new pipe."""
        left, right = socket.socketpair()
        return Channel(left), Channel(right)

    def fileno(self) -> int:
        """For poll and for passing on."""
        return self.socket.fileno()

    def close(self) -> None:
        """Close this end; the other sees it."""
        self.socket.close()

    def send(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        """Send one message with its file descriptors."""
        self.send_bytes(0, json.dumps(message).encode(), fds)

    def send_bytes(self, number: int, body: bytes, fds: tuple[int, ...] = ()) -> None:
        """Send one message that is encoded already, under the number of the request that it answers."""
        data = framed(number, body)
        try:
            sent = self.socket.sendmsg([data], rights_of(fds))
            self.socket.sendall(memoryview(data)[sent:])
        except OSError as error:
            raise ClosedError(str(error)) from error

    def receive(self) -> tuple[dict[str, Any], list[int]]:
        """The next message and the file descriptors that came with it."""
        _, message, fds = self.receive_numbered()
        return message, fds

    def receive_numbered(self) -> tuple[int, dict[str, Any], list[int]]:
        """The next message with its number before it."""
        fds: list[int] = []
        try:
            length, number = HEAD.unpack(self._read(HEAD.size, fds))
            if length > _MAX_BYTES:
                raise ClosedError(f"a message of {length} bytes is too long")
            message = json.loads(self._read(length, fds))
        except (OSError, ValueError, RecursionError) as error:
            raise ClosedError(str(error)) from error
        if not isinstance(message, dict):
            raise ClosedError("a message must be an object")
        return number, message, fds

    def _read(self, count: int, fds: list[int]) -> bytes:
        parts = []
        while count:
            data, rights, _, _ = socket.recv_fds(self.socket, count, _MAX_FDS)
            fds += rights
            if not data:
                raise ClosedError("the other side closed the pipe")
            parts.append(data)
            count -= len(data)
        return b"".join(parts)


class ExclusiveAccess:
    """Cases side by side, or one alone: what then disturbs the fork server is this case."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._alone = 0  # waiting or running

    @contextlib.contextmanager
    def enter(self, *, alone: bool) -> Iterator[None]:
        """Run one case; `alone` waits until no other runs and lets none begin."""
        with self._changed:
            self._alone += alone
            self._changed.wait_for(lambda: not (self._running if alone else self._alone))
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._alone -= alone
                self._running -= 1
                self._changed.notify_all()


# The notes of one case, at most 1 MiB, with every letter escaped, and room for the rest.
MAX_ANSWER_BYTES: Final = 8 << 20
_PIECE: Final = 64 << 10
# poll() counts in milliseconds and in 32 bits.
_LONGEST_POLL_MS: Final = 1_000_000


class LateError(Exception):
    """The worker did not answer in time."""


class ProtocolError(Exception):
    """The worker sent what no worker sends; the words say what."""

    def __init__(self, what: str) -> None:
        self.cause = ProtocolBroken(what)
        super().__init__(format_reason((self.cause,)))


class StaleAnswerError(ProtocolError):
    """An answer to an earlier request came once more; the present request did not cause it."""


class Conversation:
    """Asks one worker. After an error the line is not used again, so no answer is mixed up."""

    def __init__(self, channel: Channel, output: OutputPipe, death: int) -> None:
        self._socket, self._output, self._death = channel.socket, output, death
        self._socket.setblocking(False)
        self._buffer = bytearray()
        # A start that no other worker shares: what a child of another one might send has no number of ours.
        self._first = self._number = int.from_bytes(os.urandom(7), "little")
        self._line = self._socket.fileno()
        self._poll = select.poll()
        self._poll.register(self._line, select.POLLIN)
        self._poll.register(output.fd, select.POLLIN)
        if death >= 0:
            self._poll.register(death, select.POLLIN)

    def ask(self, request: bytes, fds: tuple[int, ...] = (), timeout: float | None = None) -> bytes:
        """Send a request and wait for its answer; sending, waiting and reading share the time."""
        self._number += 1
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            self._send(framed(self._number, request), fds, deadline)
            while (answer := self._answer()) is None:
                self._wait(deadline)
                self._read()
        except OSError as error:
            raise ClosedError(str(error)) from error
        self._output.drain()
        return answer

    def _send(self, data: bytes, fds: tuple[int, ...], deadline: float | None) -> None:
        rest = memoryview(data)
        rights = rights_of(fds)
        while rest:
            try:
                rest = rest[self._socket.sendmsg([rest], rights) :]
                rights = []
            except BlockingIOError:
                self._poll.modify(self._line, select.POLLOUT)
                self._wait(deadline)
                self._poll.modify(self._line, select.POLLIN)

    def _wait(self, deadline: float | None) -> None:
        """Wait until the line is ready; what the worker prints meanwhile is taken, so that it never waits for us."""
        while True:
            left = _LONGEST_POLL_MS if deadline is None else (deadline - time.monotonic()) * 1e3
            if left <= 0:
                raise LateError
            ready = dict(self._poll.poll(min(left, _LONGEST_POLL_MS)))
            if self._output.fd in ready:
                self._output.drain()
                if not ready[self._output.fd] & select.POLLIN:
                    # Closed by its writers: it would be ready for ever.
                    self._poll.unregister(self._output.fd)
            if self._line in ready:
                return
            if self._death in ready:
                raise ClosedError("the worker died")

    def _read(self) -> None:
        try:
            # Without room for descriptors the system closes any that come along, and says so.
            data, _, flags, _ = self._socket.recvmsg(_PIECE, 0)
        except BlockingIOError:
            return
        if flags & socket.MSG_CTRUNC:
            raise ProtocolError("it sent file descriptors")
        if not data:
            raise ClosedError("the worker closed its end")
        self._buffer += data

    def _answer(self) -> bytes | None:
        """The answer, once all of it is here."""
        if len(self._buffer) < HEAD.size:
            return None
        length, number = HEAD.unpack_from(self._buffer)
        self._refuse_stale(number)
        if number != self._number:
            raise ProtocolError(f"it answered a request {number} that nobody made")
        if length > MAX_ANSWER_BYTES:
            raise ProtocolError(f"an answer of {length} bytes; at most {MAX_ANSWER_BYTES} are read")
        end = HEAD.size + length
        if len(self._buffer) < end:
            return None
        if len(self._buffer) > end:
            if len(self._buffer) >= end + HEAD.size:
                self._refuse_stale(HEAD.unpack_from(self._buffer, end)[1])
            raise ProtocolError("it sent more than one answer")
        answer = bytes(self._buffer[HEAD.size :])
        self._buffer.clear()
        return answer

    def _refuse_stale(self, number: int) -> None:
        """A late message from a child of an earlier call is not blamed on this call, wherever it arrives."""
        if self._first < number < self._number:
            raise StaleAnswerError("it answered an earlier request once more")


# Lengths that no right worker reaches: notes are held to 1 MiB where they are made.
_Name = Annotated[str, msgspec.Meta(max_length=10_000)]
_Text = Annotated[str, msgspec.Meta(max_length=2 << 20)]
_Address = Annotated[int, msgspec.Meta(ge=0)]
_Texts = Annotated[tuple[_Text, ...], msgspec.Meta(max_length=100_000)]
# No `pattern`: a struct with a pattern beside a dict in one union frees memory that is not its own when Python ends.
_Precision = Literal[PRECISIONS]  # type: ignore[valid-type]
_Scalars = Annotated[dict[_Name, int], msgspec.Meta(max_length=10_000)]


class _Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="is"):
    """Unknown fields, missing fields and wrong types are refused."""


class CodeRange(_Answer, frozen=True):
    """Addresses of the worker that hold code of a file, from `offset` of the file on."""

    start: _Address
    end: _Address
    offset: _Address
    path: _Text


class Loaded(_Answer, frozen=True, tag="loaded"):
    """The backend is there."""

    name: _Name
    is_reference: bool
    deterministic: bool
    precision: _Precision | dict[_Name, _Precision | dict[_Name, _Precision]]
    version: _Name
    offers: Annotated[tuple[_Name, ...], msgspec.Meta(max_length=100)]
    misfits: Annotated[tuple[_Text, ...], msgspec.Meta(max_length=100)] = ()
    # Where code was when the backend was loaded; with guard pages, which record the instruction of a fault.
    code: Annotated[tuple[CodeRange, ...], msgspec.Meta(max_length=10_000)] = ()


class NotLoaded(_Answer, frozen=True, tag="not loaded"):
    """The backend does not load, and the exit code for that: usage, content or backend."""

    reason: _Text
    exit_code: Literal[2, 3, 4]


class Statement(_Answer, frozen=True, tag="said"):
    """What the backend says when it is asked beside a call, or the problem that it had with the question."""

    holds: bool
    problem: _Text = ""


class Workspace(_Answer, frozen=True, tag="workspace"):
    """The bytes of workspace that the backend asks for."""

    size: int


class Answered(_Answer, frozen=True, tag="answered"):
    """The call came back with a status.

    `side_effects` stay in its process for good; `out_of_memory`: there is none for another call; `memory` is what the
    process has for itself; `busy`: threads or children may still be at work; `changed`: state was put back.
    """

    status: Status
    seconds: float
    device_seconds: float | None
    scalars: _Scalars
    notes: _Texts
    refusals: _Texts
    queries: Annotated[tuple[QueryAnswer, ...], msgspec.Meta(max_length=100)] = ()
    side_effects: _Texts = ()
    out_of_memory: bool = False
    memory: int = 0
    busy: bool = False
    changed: bool = False


class Ended(_Answer, frozen=True, tag="ended"):
    """The call ended without a status. Of what happened, a worker has only these words."""

    how: Literal["declined", "memory", "crashed", "error"]
    causes: Annotated[tuple[Cause, ...], msgspec.Meta(max_length=10_000)]
    notes: _Texts
    side_effects: _Texts = ()
    out_of_memory: bool = False
    changed: bool = False


class Settled(_Answer, frozen=True, tag="settled"):
    """What goes on in the worker although it was given time to end."""

    side_effects: _Texts


class WorkerIsFull(_Answer, frozen=True, tag="no room"):
    """The call was not made: under its memory limit this worker cannot hold the tensors and the call beside them."""


A = TypeVar("A")


class AnswerType(Generic[A]):
    """The answers to one kind of request."""

    def __init__(self, kind: type[A]) -> None:
        self._decoder = msgspec.json.Decoder(kind)

    def read(self, data: bytes) -> A:
        """The answer, or ProtocolError with the place and what was expected there."""
        try:
            return self._decoder.decode(data)
        except (ValueError, RecursionError) as error:
            raise ProtocolError(str(error)) from error


LOAD: Final[AnswerType[Loaded | NotLoaded]] = AnswerType(Loaded | NotLoaded)  # type: ignore[arg-type]
STATEMENT: Final = AnswerType(Statement)
SETTLE: Final = AnswerType(Settled)
CallAnswer = Workspace | Answered | Ended | WorkerIsFull
BEGIN: Final[AnswerType[CallAnswer]] = AnswerType(CallAnswer)  # type: ignore[arg-type]
RUN: Final[AnswerType[CallAnswer]] = AnswerType(Answered | Ended | WorkerIsFull)  # type: ignore[arg-type]


def encoded(answer: object) -> bytes:
    """The answer for the line; what a backend says may hold halves of characters, which no text can carry."""
    try:
        return msgspec.json.encode(answer)
    except UnicodeEncodeError:
        return json_bytes(msgspec.to_builtins(answer))


# What a reply and the answer of a worker with a status have in common.
_ALIKE: Final = [name for name in Reply.__struct_fields__ if name in Answered.__struct_fields__]


def answer_of(reply: Reply, *, out_of_memory: bool = False, memory: int = 0, changed: bool = False) -> Answered | Ended:
    """What the worker sends of a reply."""
    if reply.status is None:
        assert reply.ended is not None, "a reply has a status or an ending"
        how: Any = reply.ended.value
        return Ended(how, reply.causes, reply.notes, reply.side_effects, out_of_memory, changed)
    alike = {name: getattr(reply, name) for name in _ALIKE}
    return Answered(**alike, out_of_memory=out_of_memory, memory=memory, changed=changed)


def reply_from(answer: Answered | Ended) -> Reply:
    """What the controller makes of an answer."""
    if isinstance(answer, Ended):
        return Reply(
            ended=Ending(answer.how), causes=answer.causes, notes=answer.notes, side_effects=answer.side_effects
        )
    return Reply(**{name: getattr(answer, name) for name in _ALIKE})
