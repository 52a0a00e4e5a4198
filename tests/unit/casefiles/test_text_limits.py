"""Long hostile texts cost time and memory in proportion to their length, on every Python."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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
