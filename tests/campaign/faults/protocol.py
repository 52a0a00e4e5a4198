"""The line between controller and worker: too much, too little, or nonsense on it, and a worker that was patched."""

import array
import json
import os
import socket
import stat
import struct
import sys
import time

from tests.campaign.faults import fault, faults


def _lines() -> list[int]:
    """Every socket of this process: one of them leads to the controller."""
    found = []
    for word in os.listdir("/proc/self/fd"):
        try:
            if stat.S_ISSOCK(os.fstat(int(word)).st_mode):
                found.append(int(word))
        except OSError:
            continue
    return found


def _send(data: bytes) -> None:
    for fd in _lines():
        try:
            os.write(fd, data)
        except OSError:
            continue


def _framed(body: bytes) -> bytes:
    return struct.pack("<I", len(body)) + body


faults(
    "protocol",
    "crashed",
    sends_bytes_of_its_own=lambda call: _send(b"hello, controller\n"),
    sends_zeros=lambda call: _send(bytes(4096)),
    sends_ones=lambda call: _send(b"\xff" * 64),
    sends_a_passing_answer=lambda call: _send(
        _framed(json.dumps({"outcome": "passed", "status": "SUCCESS", "compared": True}).encode())
    ),
    sends_a_hundred_answers=lambda call: _send(_framed(b"{}") * 100),
    sends_deep_json=lambda call: _send(_framed(b"[" * 100_000)),
    sends_a_huge_length=lambda call: _send(struct.pack("<I", 0xFFFF_FFFF) + b"x" * 64),
)


@fault("protocol", "timed_out", "crashed")
def sends_half_a_head_and_hangs(call):
    _send(b"\x10\x00")
    time.sleep(600)


@fault("protocol", "timed_out", "crashed")
def sends_half_an_answer_and_hangs(call):
    _send(struct.pack("<I", 1000) + b'{"status": ')
    time.sleep(600)


@fault("protocol", "timed_out", "crashed")
def drips_bytes_for_ever(call):
    _send(struct.pack("<I", 60 << 20))
    while True:
        _send(b" ")
        time.sleep(0.05)


@fault("protocol", "crashed", "timed_out")
def floods_the_line(call):
    os.set_blocking(_lines()[0], False)
    for _ in range(2000):
        _send(b"x" * 65536)


@fault("protocol", "crashed")
def sends_descriptors(call):
    for fd in _lines():
        line = socket.socket(fileno=os.dup(fd))
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))]
        line.sendmsg([b"\x02\x00\x00\x00{}"], rights)
        line.detach()


@fault("protocol", "crashed")
def shuts_the_line_down(call):
    for fd in _lines():
        line = socket.socket(fileno=os.dup(fd))
        line.shutdown(socket.SHUT_RDWR)
        line.detach()


@fault("protocol", "crashed", "timed_out")
def closes_everything(call):
    os.closerange(3, 1024)


@fault("protocol", "crashed", "timed_out")
def closes_everything_and_sleeps(call):
    os.closerange(0, 1024)
    time.sleep(600)


@fault("protocol", "crashed", "timed_out")
def takes_the_line_away(call):
    null = os.open(os.devnull, os.O_RDWR)
    for fd in _lines():
        os.dup2(null, fd)


@fault("protocol", "crashed", "timed_out", "passed")
def reads_the_next_request(call):
    """The request would be that of another case: a worker with a thread that is not its own must not get one."""
    import threading

    def read() -> None:
        for fd in _lines():
            os.read(fd, 1 << 16)

    threading.Thread(target=read, daemon=True).start()
    time.sleep(0.2)


@fault("protocol", "passed", "crashed")
def leaves_a_child_that_reads_the_next_request(call):
    if os.fork() == 0:
        lines = [socket.socket(fileno=fd) for fd in _lines()]
        for line in lines:
            while line.recv(1 << 16):
                pass
        time.sleep(600)


def _patch(attribute: str, answer) -> None:
    """Every function of that name in any module of the harness that this worker holds."""
    for name, module in list(sys.modules.items()):
        if name.startswith("mluops_gtest.running") and hasattr(module, attribute):
            setattr(module, attribute, answer)


@fault("protocol", "crashed", "error", "failed", fresh=True)
def patches_the_worker_to_say_passed(call):
    passed = {"outcome": "passed", "status": "SUCCESS", "seconds": 0.0, "compared": True, "scalars": {}, "notes": []}
    _patch("encoded", lambda *_: json.dumps(passed).encode())
    _patch("reply_of", lambda *_: type("Reply", (), {"to_message": lambda self: passed})())
    call.array("y")[...] = 0


@fault("protocol", "crashed", "error", "failed", "passed", fresh=True)
def patches_the_reader_of_calls(call):
    _patch("call_from", lambda *_: None)


@fault("protocol", "crashed", "error", "failed", "timed_out", fresh=True)
def patches_json(call):
    json.dumps = lambda *_, **__: "null"
    json.loads = lambda *_, **__: None
    call.array("y")[...] = 0
