"""Messages, descriptors and shared memory between processes; a worker that breaks the protocol is an error, in time."""

import array
import os
import socket
import struct
import sys
import threading

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mluops_gtest.base.files import OutputPipe
from mluops_gtest.core.buffers import BufferSpec
from mluops_gtest.core.call import Handle, OpCall, Status, TensorArg
from mluops_gtest.core.cause import LegacyReason
from mluops_gtest.core.tensor import DType, Layout, TensorDesc
from mluops_gtest.running.caller import Ending, Reply
from mluops_gtest.running.workers.memory import SharedArena, SharedSlab, call_from, call_message, map_slab, view_of
from mluops_gtest.running.workers.protocol import (
    BEGIN,
    HEAD,
    LOAD,
    MAX_ANSWER_BYTES,
    RUN,
    STATEMENT,
    Answered,
    Channel,
    ClosedError,
    Conversation,
    Ended,
    LateError,
    ProtocolError,
    StaleAnswerError,
    answer_of,
    encoded,
    framed,
    reply_from,
)
from tests.support.examples import examples

GOOD = {"is": "answered", "status": 0, "seconds": 0.5, "device_seconds": None}
GOOD |= {"scalars": {}, "notes": [], "refusals": []}


class Peer:
    """The other end of a conversation: answers in a thread, so that the test may ask."""

    def __init__(self):
        ours, self.channel = Channel.pair()
        self.output = OutputPipe()
        self._ours = ours
        self.conversation = Conversation(ours, self.output, -1)

    @property
    def socket(self):
        return self.channel.socket

    def hear(self):
        """The number of the next request."""
        number, self.heard, _ = self.channel.receive_numbered()
        return number

    def after_request(self, act, request=b"{}"):
        """Ask, and let `act(number)` be what the worker does then."""
        thread = threading.Thread(target=lambda: act(self.hear()), daemon=True)
        thread.start()
        try:
            return self.conversation.ask(request, timeout=20)
        finally:
            thread.join(20)

    def after_answer(self, body, request=b"{}"):
        """Ask, and let this be the worker's answer."""
        return self.after_request(lambda number: self.channel.send_bytes(number, body), request)

    def close(self):
        self._ours.close()
        self.channel.close()
        self.output.close()


@pytest.fixture
def peer():
    peer = Peer()
    yield peer
    peer.close()


def test_an_answer_comes_back_whole(peer):
    for body in (b"x" * 3_000_000, b"2"):
        assert peer.after_answer(body) == body


def test_an_answer_may_come_in_pieces(peer):
    def answer(number):
        for byte in framed(number, b"hello"):
            peer.socket.send(bytes([byte]))

    assert peer.after_request(answer) == b"hello"


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda peer, number: peer.channel.send_bytes(number + 5, b"{}"), "that nobody made"),
        (lambda peer, number: peer.channel.send_bytes(0, b"{}"), "that nobody made"),
        (lambda peer, number: peer.socket.sendall(framed(number, b"{}") * 2), "more than one answer"),
        (lambda peer, number: peer.socket.sendall(framed(number, b"{}") + b"x"), "more than one answer"),
        (lambda peer, number: peer.socket.sendall(HEAD.pack(2**32 - 1, number)), "4294967295 bytes"),
        (lambda peer, number: peer.socket.sendall(HEAD.pack(MAX_ANSWER_BYTES + 1, number)), "at most 8388608"),
        (lambda peer, number: peer.socket.sendall(b"Traceback (most recent call last)"), "that nobody made"),
    ],
)
def test_what_is_no_answer_is_told(peer, act, words):
    with pytest.raises(ProtocolError, match="the worker did not answer as agreed: ") as caught:
        peer.after_request(lambda number: act(peer, number))
    assert words in str(caught.value)
    assert not isinstance(caught.value, StaleAnswerError)


@pytest.mark.parametrize("comes_first", [True, False])
def test_an_earlier_answer_is_never_taken_for_a_later_one(peer, comes_first):
    numbers = []

    def answer(number):
        numbers.append(number)
        earlier = [framed(one, b"1") for one in numbers[:-1]]
        answers = [*earlier, framed(number, b"1")]
        peer.socket.sendall(b"".join(answers if comes_first else reversed(answers)))

    assert peer.after_request(answer) == b"1"
    with pytest.raises(StaleAnswerError):
        peer.after_request(answer)


def test_descriptors_that_come_with_an_answer_are_closed_and_told(peer):
    reader, writer = os.pipe()

    def answer(number):
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [writer] * 3))]
        peer.socket.sendmsg([framed(number, b"{}")], rights)
        os.close(writer)

    with pytest.raises(ProtocolError, match="file descriptors"):
        peer.after_request(answer)
    assert os.read(reader, 1) == b""  # no copy of the other end is open any more
    os.close(reader)


@pytest.mark.parametrize("piece", [b"", b"\x05", framed(1, b"hello")[:-1]])
def test_the_time_holds_for_the_whole_answer(peer, piece):
    peer.socket.sendall(HEAD.pack(100, peer.conversation._number + 1)[: len(piece)])
    with pytest.raises(LateError):
        peer.conversation.ask(b"{}", timeout=0.05)


def test_a_trickle_of_bytes_does_not_buy_time(peer):
    stop = threading.Event()

    def trickle(number):
        peer.socket.sendall(HEAD.pack(1_000_000, number))
        while not stop.wait(0.001):
            peer.socket.send(b"x")

    thread = threading.Thread(target=lambda: trickle(peer.hear()), daemon=True)
    thread.start()
    try:
        with pytest.raises(LateError):
            peer.conversation.ask(b"{}", timeout=0.2)
    finally:
        stop.set()
        thread.join(20)


def test_the_time_holds_for_sending_too(peer):
    with pytest.raises(LateError):
        peer.conversation.ask(b"x" * 10_000_000, timeout=0.05)


def test_a_large_request_arrives_whole(peer):
    assert peer.after_answer(b"1", b'{"a": "' + b"x" * 5_000_000 + b'"}') == b"1"
    assert len(peer.heard["a"]) == 5_000_000


@pytest.mark.parametrize("piece", [b"", b"\x05"])
def test_a_closed_end_is_told(peer, piece):
    def close(number):
        peer.socket.sendall(piece)
        peer.channel.close()

    with pytest.raises(ClosedError):
        peer.after_request(close)


def test_a_worker_that_prints_without_end_is_heard_and_answers(peer):
    def answer(number):
        with open(peer.output.writer, "wb", closefd=False) as output:
            output.write(b"first\n" + b"x" * 10_000_000 + b"\nlast")
        peer.channel.send_bytes(number, b"1")

    assert peer.after_request(answer) == b"1"
    printed = peer.output.take()
    assert printed.startswith("first\nx")
    assert printed.endswith("x\nlast")
    assert f"[… {10_000_011 - (1 << 20)} bytes cut …]" in printed
    assert peer.output.take() == ""


def test_output_that_nobody_can_write_any_more_costs_no_time(peer):
    peer.output.close_writer()
    for body in (b"1", b"2"):
        assert peer.after_answer(body) == body


def test_descriptors_beyond_the_range_of_select_are_no_matter(peer):
    resource = pytest.importorskip("resource")
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 1200:
        pytest.skip("no descriptor above 1024 here")
    ours, theirs = Channel.pair()
    with ours.socket, theirs.socket, socket.socket(fileno=os.dup2(ours.fileno(), 1100, inheritable=False)) as end:
        far = Conversation(Channel(end), peer.output, -1)
        thread = threading.Thread(target=lambda: theirs.send_bytes(theirs.receive_numbered()[0], b"1"), daemon=True)
        thread.start()
        assert far.ask(b"{}", timeout=20) == b"1"
        thread.join(20)


NOT_ALLOWED = {
    "is": ("passed", "loaded"),
    "outcome": ("passed",),
    "status": (99, "SUCCESS", None, True),
    "seconds": (None, "1"),
    "notes": ("text", [1], ["x"] * 100_001, ["x" * (2 << 20) + "x"]),
    "scalars": ({"n": 1.5}, [1], {str(i): i for i in range(10_001)}),
    "more": (1,),
}
VERDICTS = ("passed", "failed", "suspect", "skipped", "wrong_status", "xfailed", "timed_out", "not_run", "flaky", "")


@pytest.mark.parametrize(
    "answer",
    [
        *({**GOOD, name: value} for name, values in NOT_ALLOWED.items() for value in values),
        # A worker cannot name a verdict.
        *({"is": "ended", "how": how, "causes": [], "notes": []} for how in VERDICTS),
    ],
)
def test_an_answer_is_read_strictly(answer):
    with pytest.raises(ProtocolError, match="did not answer as agreed"):
        RUN.read(msgspec.json.encode(answer))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b'{"is": "answered"',
        b"[" * 1_000_000,
        b'{"is":' * 100_000,
        b'{"is":"answered","scalars":' + b'{"a":' * 100_000,
        b"\xff\xfe",
        b'{"is":"ended","how":"error","reason":"\\ud800","notes":[]}',
        b'{"is":"ended","how":"error","reason":"\xff","notes":[]}',
        msgspec.json.encode(GOOD).replace(b"0.5", b"NaN"),
        msgspec.json.encode(GOOD).replace(b"0.5", b"1e999"),
        msgspec.json.encode(GOOD).replace(b'"scalars":{}', b'"scalars":{"a":' + b"9" * 100_000 + b"}"),
    ],
)
@pytest.mark.parametrize("kind", [RUN, LOAD, STATEMENT, BEGIN])
def test_garbage_is_refused_by_every_kind_of_answer(kind, data):
    with pytest.raises(ProtocolError):
        kind.read(data)


FIELDS = st.sampled_from([*GOOD, "how", "reason", "size"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(FIELDS | st.text(), inner),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(
    changes=st.dictionaries(FIELDS | st.text(), JSON)
    | st.fixed_dictionaries({"is": st.sampled_from(["answered", "ended"])}, optional={"how": st.text(), "notes": JSON})
)
def test_whatever_is_read_is_a_valid_reply_or_a_protocol_error(changes):
    try:
        answer = RUN.read(msgspec.json.encode({**GOOD, **changes}))
    except ProtocolError:
        return
    reply = reply_from(answer)
    assert (reply.status is None) != (reply.ended is None)
    assert reply.ended is not Ending.TIMED_OUT


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(data=st.binary(max_size=200), numbered=st.booleans(), shortened=st.booleans())
def test_random_bytes_on_the_line_are_an_answer_or_an_error(data, numbered, shortened):
    peer = Peer()
    try:
        number = peer.conversation._number + 1
        peer.socket.sendall(framed(number, data)[: -1 if shortened else None] if numbered else data)
        peer.socket.shutdown(socket.SHUT_WR)
        answer = peer.conversation.ask(b"{}", timeout=20)
        assert numbered
        assert not shortened
        assert answer == data
    except (ProtocolError, ClosedError):
        assert not numbered or shortened
    finally:
        peer.close()


@pytest.mark.parametrize(
    "reply",
    [
        Reply(Status.BAD_PARAM, 0.25, 0.125, {"n": -(10**400)}, ("note", "Ω"), ("refused",)),
        *(Reply(ended=e, causes=(LegacyReason("why"),), notes=("n",)) for e in Ending if e is not Ending.TIMED_OUT),
    ],
)
def test_a_reply_survives_the_line(reply):
    assert reply_from(RUN.read(encoded(answer_of(reply)))) == reply


def test_halves_of_characters_do_not_stop_an_answer():
    reply = Reply(Status.SUCCESS, scalars={"\ud800": 1}, notes=("bad \udcff name",))
    answer = RUN.read(encoded(answer_of(reply)))
    assert isinstance(answer, Answered)
    assert answer.notes == ("bad \ufffd name",)
    assert isinstance(RUN.read(encoded(answer_of(Reply(ended=Ending.ERROR, causes=(LegacyReason("\ud800"),))))), Ended)


linux = pytest.mark.skipif(sys.platform != "linux", reason="memfd is Linux's")


@pytest.fixture
def pair():
    left, right = Channel.pair()
    yield left, right
    left.close()
    right.close()


def test_messages_and_descriptors_arrive(pair):
    left, right = pair
    slab = SharedSlab(10)
    slab.bytes[:] = 7
    left.send({"a": [1, None, "x" * 100_000]}, (slab.fd,))
    message, fds = right.receive()
    assert message == {"a": [1, None, "x" * 100_000]}
    seen = map_slab(fds[0], 10)
    assert seen.tolist() == [7] * 10
    seen[3] = 9
    assert slab.bytes[3] == 9
    os.close(fds[0])
    slab.close()


@pytest.mark.parametrize(
    "garbage",
    [b"", b"\x01", struct.pack("<I", 5) + b"{", struct.pack("<I", 3) + b"[1]", struct.pack("<I", 2**31) + b"x"],
)
def test_a_broken_other_side_is_told(pair, garbage):
    left, right = pair
    left.socket.sendall(garbage)
    left.socket.shutdown(socket.SHUT_WR)
    with pytest.raises(ClosedError):
        right.receive()


def test_sending_to_nobody_is_told(pair):
    left, right = pair
    right.close()
    with pytest.raises(ClosedError):
        left.send({"a": "x" * 1_000_000})


def test_a_call_is_the_same_on_the_other_side():
    slab = np.zeros(256, np.uint8)
    values = slab[64:88].view("<f4").reshape(2, 3)
    values[...] = np.arange(6).reshape(2, 3)
    strided = TensorDesc(DType.INT32, Layout.NCHW, (2, 2), (3, 1))
    call = OpCall(
        "op",
        {"n": 3, "pad": (1, 2), "none": None},
        {
            "x": TensorArg(TensorDesc(DType.FLOAT, Layout.ARRAY, (2, 3)), values),
            "s": TensorArg(strided, strided.view(slab[128:148].view("<i4"))),
            "null": TensorArg(strided, None, null=True),
            "paper": TensorArg(TensorDesc(DType.HALF, Layout.ARRAY, (2**40,)), None),
            "absent": None,
        },
        {},
        Handle(270, 9),
        workspace=slab[200:210],
        workspace_size=10,
        device=4,
    )

    def place(array):
        return array.ctypes.data - slab.ctypes.data

    again = call_from(call_message(call, place, place), view_of(slab), view_of(slab))
    assert again.params == call.params
    assert again.inputs["x"].array.tolist() == values.tolist()
    assert np.shares_memory(again.inputs["x"].array, values)
    there = ("x", "s", "null", "paper")
    assert [again.inputs[n].desc for n in there] == [call.inputs[n].desc for n in there]
    assert again.inputs["null"].null
    assert not again.inputs["paper"].null
    assert again.inputs["absent"] is None
    assert (again.handle, again.workspace_size, again.workspace.size, again.device) == (Handle(270, 9), 10, 10, 4)


@linux
@pytest.mark.parametrize("size", [0, 4096 * 4, 1])
def test_nobody_resizes_a_slab(size):
    slab = SharedSlab(4096)
    with pytest.raises(PermissionError):
        os.ftruncate(slab.fd, size)
    slab.close()


@linux
def test_a_slab_has_no_name_that_could_be_left_behind():
    slab = SharedSlab(100)
    assert os.readlink(f"/proc/self/fd/{slab.fd}").startswith("/memfd:")
    slab.close()


def test_a_retired_slab_serves_the_case_it_has_and_no_other():
    arena = SharedArena()
    first = arena.allocate([BufferSpec("a", 64)])["a"]
    before = arena.shared
    old = map_slab(before.fd, before.size)
    arena.retire()
    assert arena.shared is before
    assert arena.offset_of(first.data) > 0
    second = arena.allocate([BufferSpec("a", 64)])["a"]
    second.data[:] = 1
    old[:] = 9
    assert arena.shared is not before
    assert np.unique(second.data).tolist() == [1]
    assert np.unique(first.data).tolist() == [9]
    arena.allocate([BufferSpec("a", 64)])
    kept = arena.shared
    arena.allocate([BufferSpec("a", 32)])
    assert arena.shared is kept
    arena.close()
