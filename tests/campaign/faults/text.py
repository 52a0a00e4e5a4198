"""What a backend says: floods, escape sequences, halves of characters, names that look like markup."""

import ctypes
import os
import sys

from mluops_gtest import Declined
from tests.campaign.faults import fault, faults

HOSTILE = (
    "\x1b]0;owned\x07\x1b[2J\x1b[31m red \u202e olleh \u2066 \x00 \x07 \r gone "
    "<script>alert(1)</script> ::error::no |`*_[x](y)"
)
SURROGATES = "half \ud800 and \udfff halves"


@fault("text", "passed")
def prints_a_little(call):
    print("from Python")
    ctypes.CDLL(None).puts(b"from C")
    print("to stderr", file=sys.stderr)


@fault("text", "passed")
def prints_50_megabytes(call):
    line = b"x" * 1023 + b"\n"
    for _ in range(50 * 1024):
        os.write(1, line)


@fault("text", "timed_out")
def prints_for_ever(call):
    while True:
        os.write(2, b"y" * 65536)


@fault("text", "crashed")
def prints_and_crashes(call):
    os.write(1, b"z" * (4 << 20) + b"the last words\n")
    ctypes.string_at(0)


def _raise(error: BaseException | type[BaseException]) -> None:
    raise error


faults(
    "text",
    "passed",
    prints_bytes_that_are_no_text=lambda call: os.write(1, bytes(range(256)) * 16),
    prints_escape_sequences=lambda call: print(HOSTILE),
)


@fault("text", "passed", "error", "crashed")
def prints_halves_of_characters(call):
    print(SURROGATES)


faults(
    "text",
    "passed",
    "crashed",
    "error",
    notes_a_lot=lambda call: call.notes.extend("n" * 1000 for _ in range(20_000)),
    notes_one_long_word=lambda call: call.notes.append("w" * (64 << 20)),
)


@fault("text", "passed", "crashed", "error")
def notes_escape_sequences(call):
    call.notes.append(HOSTILE)
    call.notes.append(SURROGATES)


@fault("text", "error", "crashed", "passed")
def notes_what_is_no_text(call):
    call.notes.append(object())
    call.notes.append(b"\xff")


faults(
    "text",
    "error",
    raises=lambda call: _raise(RuntimeError("no")),
    raises_escape_sequences=lambda call: _raise(RuntimeError(HOSTILE)),
)


faults(
    "text",
    "error",
    "crashed",
    raises_halves_of_characters=lambda call: _raise(RuntimeError(SURROGATES)),
    raises_a_long_message=lambda call: _raise(RuntimeError("m" * (64 << 20))),
    raises_a_class_with_a_hostile_name=lambda call: _raise(type(HOSTILE.replace("\x00", ""), (Exception,), {})("x")),
    raises_the_base_of_all=lambda call: _raise(BaseException("not an Exception")),
    raises_an_interrupt=lambda call: _raise(KeyboardInterrupt),
    raises_the_end_of_a_generator=lambda call: _raise(GeneratorExit),
)


@fault("text", "error", "crashed")
def raises_what_cannot_be_printed(call):
    class UntoldError(Exception):
        def __str__(self):
            raise ValueError("not even this")

    raise UntoldError


@fault("text", "error", "crashed")
def raises_with_a_long_chain(call):
    error = None
    for i in range(2000):
        new = RuntimeError(str(i))
        new.__cause__ = error
        error = new
    raise error


@fault("text", "error", "crashed")
def recurses_for_ever(call):
    return recurses_for_ever(call)


@fault("text", "skipped")
def declines(call):
    raise Declined("not today")


@fault("text", "skipped", "crashed")
def declines_with_escape_sequences(call):
    raise Declined(HOSTILE + SURROGATES)
