"""Broken, malicious and long files: a clear CaseFileError, quickly and in little memory, and nothing else."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mluops_gtest.base.errors import CaseFileError
from mluops_gtest.casefiles.binary import write_binary
from mluops_gtest.casefiles.reader import read_case
from mluops_gtest.casefiles.text_reader import read_text
from mluops_gtest.casefiles.writer import case_text
from tests.support.examples import examples
from tests.support.mutations import flipped
from tests.unit.casefiles.test_text import EVERYTHING
from tests.unit.casefiles.toy import KNOWN, PLAIN_TEXT, SCHEMA, TOY, read_back, toy_case

TEXTS = [PLAIN_TEXT, EVERYTHING, case_text(toy_case(count=200), TOY, SCHEMA)]
BINARIES = [b"".join(bytes(piece) for piece in write_binary(read_text(text, SCHEMA))) for text in TEXTS]
PIECES = [*b'{ } [ ] " - # nan < \x00 \xff\xff\xff\xff\x7f'.split(), b"9" * 25, b"value_f: ", b"dims: "]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile")


def attempt(folder, content: bytes, name: str) -> None:
    path = folder / name
    path.write_bytes(content)
    message = str(path)
    try:
        read_case(path, SCHEMA, KNOWN)
    except CaseFileError as error:
        message = str(error)
    assert message.startswith(str(path))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "contents"), [("case.prototxt", TEXTS), ("case.pb", BINARIES)])
def test_mutated_files_and_random_bytes(folder, name, contents):
    mutated = st.sampled_from(contents).flatmap(lambda content: flipped(content, PIECES))

    @settings(max_examples=examples(375))
    @given(st.one_of(mutated, mutated, st.binary(max_size=300)))
    def is_read_or_refused(content):
        attempt(folder, content, name)

    is_read_or_refused()


@pytest.mark.slow
def test_every_truncation(folder):
    for end in range(len(BINARIES[0])):
        attempt(folder, BINARIES[0][:end], "case.pb")
    for end in range(len(PLAIN_TEXT)):
        attempt(folder, PLAIN_TEXT[:end], "case.prototxt")


def sized(dims: str, values: str) -> bytes:
    return PLAIN_TEXT.replace(b"dims: [2]", f"dims: [{dims}]".encode()).replace(
        b"value_i: 7 value_i: -0x10", values.encode()
    )


@pytest.mark.parametrize(
    ("dims", "values", "message"),
    [
        ("1099511627776", "value_i: 1", "at most 2147483648 are"),
        ("1099511627776", "random_data {}", "at most 2147483648 are"),
        ("1099511627776", "", "no values for the input"),
        ("9223372036854775807, 9223372036854775807, 4", "value_i: 1", "at most"),
        ("9223372036854775808", "", "out of range"),
        ("2147483648, 0", "value_i: 1", "the shape 0"),
        ("9223372036854775807, 0", "", "beyond all memory"),
        ("1099511627776", 'path: "case.prototxt"', "the tensor's shape and type 4398046511104"),
    ],
)
def test_shapes_beyond_all_memory(tmp_path, dims, values, message):
    with pytest.raises(CaseFileError, match=message):
        read_back(tmp_path, sized(dims, values))


@pytest.mark.parametrize(
    "text",
    [
        'op_name: "toy_scale" ' + "x" * 5000 + ": 1",
        'op_name: "toy_scale" device: ' + "D" * 5000,
        'op_name: "toy_scale" input { id: "x" dtype: DTYPE_' + "9" * 5000 + " }",
        'op_name: "' + "y" * 5000 + '" input { }',
    ],
)
def test_a_word_of_any_length_is_told_in_short(folder, text):
    path = folder / "long.prototxt"
    path.write_text(text)
    try:
        told = str(read_case(path, SCHEMA, KNOWN).notes)
    except CaseFileError as error:
        told = str(error)
    assert len(told) < 1000 + len(str(path))


ROOT = Path(__file__).parents[3]
SIZE = 1 << 19
# A quadratic pattern would take hours of processor time on this size; a linear one takes about a second.
MAX_CPU_SECONDS = 30
# A matcher that remembers every repetition of a group needs some 100 bytes for each: far more than this.
MAX_MEMORY = 48 << 20

TENSOR = 'op_name: "x" input { id: "a" '
HOSTILE = {
    "blanks_between_values": (TENSOR + "value_f: 1", " ", "value_f: 2 }"),
    "blanks_after_a_sign": (TENSOR + "value_i: -", " ", "x }"),
    "blanks_before_nothing": (TENSOR + "value_f: 1", " ", "@"),
    "commas": (TENSOR + "value_f: [1", " ,", "] }"),
    "comments": (TENSOR + "value_f: 1", "#\n", "value_f: 2 }"),
    "comments_of_blanks": (TENSOR + "value_f: 1", "# # \n", "@"),
    "one_comment": ("", "#", ""),
    "an_open_comment_in_each_string": ("", 'x: "#" ', "#"),
    "digits": (TENSOR + "value_f: ", "1", "x }"),
    "digits_and_dots": (TENSOR + "value_f: ", "1.", "x }"),
    "exponents": (TENSOR + "value_f: ", "1e", " }"),
    "integer": (TENSOR + "value_i: ", "0", "9 }"),
    "hexadecimal": (TENSOR + "value_i: 0x", "f", "g }"),
    "adjacent_strings": (TENSOR + "value_h: ", '"0" ', " }"),
    "empty_strings": (TENSOR, 'value_h: "" ', " }"),
    "pairs_of_strings": (TENSOR, "value_h: '0' '1'\n", " }"),
    "quotes": (TENSOR + "value_h: ", "'", " }"),
    "hex_string": (TENSOR + 'value_h: "', "0", '" }'),
    "escapes": ('op_name: "', "\\a", '"'),
    "escapes_without_end": ('op_name: "', "\\a", ""),
    "escapes_in_an_unknown_field": ('mystery: "', "\\a", '"'),
    "backslashes": ('op_name: "', "\\", ""),
    "strings_that_join": ("op_name: ", "'a' ", ""),
    "a_name": ("", "a", ""),
    "extension_name": ("[", "a.", ": 1"),
    "names": ("", "a ", ""),
    "colons": ("a", ":", ""),
    "unknown_fields_on_one_line": ("", "a:1 ", ""),
    "unknown_messages": ("", "a{}", ""),
    "brackets": ("", "a{", ""),
    "signs": (TENSOR + "value_f: ", "-", "1 }"),
    "alternating_fields": (TENSOR, "value_f:1 value_i:1 ", "}"),
    "tensors": ("", "input { value_f: 1 value_i: 2 value_f: 3 }\n", ""),
    "infinities": (TENSOR + "value_f: ", "inf", " }"),
}

# Reads each text in a process of its own, forked from one that has imported everything; tells its exit code and words.
READER = """
import json, os, resource, sys
from mluops_gtest.casefiles.schema import Schema
from mluops_gtest.casefiles.text_reader import read_text
from mluops_gtest.base.errors import CaseFileError

schema = Schema.of(())


def read(head, piece, tail, size, seconds, memory):
    text = (head + piece * (size // len(piece)) + tail).encode()
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
    try:
        read_text(text, schema)
    except CaseFileError as error:
        assert len(str(error)) < 300, len(str(error))
        return "refused"
    return "read"


for line in sys.stdin:
    pid = os.fork()
    if not pid:
        print(read(*json.loads(line)), flush=True)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def reader():
    with subprocess.Popen(
        [sys.executable, "-c", READER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=dict(os.environ, OPENBLAS_NUM_THREADS="1"),
    ) as process:
        yield process
        process.stdin.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_time_and_memory_grow_with_the_text_alone(reader, name):
    print(json.dumps((*HOSTILE[name], SIZE, MAX_CPU_SECONDS, MAX_MEMORY)), file=reader.stdin, flush=True)
    assert reader.stdout.readline().strip() in ("read", "refused")
    assert reader.stdout.readline().strip() == "0"
