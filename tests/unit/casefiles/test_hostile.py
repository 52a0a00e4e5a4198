"""Broken and malicious files: a clear CaseFileError, quickly, and nothing else."""

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
