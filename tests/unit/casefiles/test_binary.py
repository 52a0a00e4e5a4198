"""The binary reader and writer, with protobuf itself as the judge; files from one form into the other."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mluops_gtest.base.errors import CaseFileError
from mluops_gtest.casefiles.binary import encode_varint, read_binary, write_binary
from mluops_gtest.casefiles.files import convert
from mluops_gtest.casefiles.reader import read_case
from mluops_gtest.casefiles.text_reader import read_text
from mluops_gtest.casefiles.writer import write_case
from tests.support.examples import examples
from tests.unit.casefiles.test_text import EVERYTHING, whole
from tests.unit.casefiles.toy import KNOWN, PLAIN_TEXT, SCHEMA, TOY, toy_case


def parse(data: bytes):
    return read_binary(memoryview(data), SCHEMA)


def written(document) -> bytes:
    return b"".join(bytes(piece) for piece in write_binary(document))


def field(number: int, kind: int, payload: bytes) -> bytes:
    head = encode_varint(number << 3 | kind)
    return head + (encode_varint(len(payload)) + payload if kind == 2 else payload)


def tensor_file(body: bytes) -> bytes:
    return field(5, 2, b"x") + field(6, 2, body)


def test_protobuf_reads_what_we_write_and_we_what_it_writes():
    document = read_text(EVERYTHING, SCHEMA)
    node = SCHEMA.node()
    node.ParseFromString(written(document))
    again = parse(whole(document).SerializeToString())
    assert str(node) == str(whole(again)) == str(whole(document))
    assert written(again) == written(document)


FLOATS = st.lists(st.integers(0, 2**32 - 1), max_size=60)


@settings(max_examples=examples(100))
@given(st.lists(st.tuples(st.booleans(), FLOATS), max_size=5))
@example([(False, [0x7F800001]), (True, [0x7F800002, 1]), (False, [0xFFBFFFFF])])  # NaNs that no Python float carries
def test_packed_and_single_floats_keep_bits_and_order(runs):
    body = b""
    wanted = []
    for packed, bits in runs:
        raw = np.array(bits, "<u4")
        body += field(7, 2, raw.tobytes()) if packed else b"".join(field(7, 5, value.tobytes()) for value in raw)
        wanted += bits
    values = parse(tensor_file(body)).inputs[0].values.get("value_f", np.empty(0, "<f4"))
    assert values.view("<u4").tolist() == wanted
    assert values.flags.aligned


@settings(max_examples=examples(60))
@given(
    st.sampled_from([(8, "value_i", "<i4"), (17, "value_l", "<i8"), (18, "value_ui", "<u4"), (19, "value_ul", "<u8")]),
    st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=40),
    st.booleans(),
)
def test_packed_and_single_integers(spec, numbers, packed):
    number, name, storage = spec
    varints = [encode_varint(value) for value in numbers]
    body = field(number, 2, b"".join(varints)) if packed else b"".join(field(number, 0, item) for item in varints)
    values = parse(tensor_file(body)).inputs[0].values[name]
    assert values.dtype == np.dtype(storage)
    # As protobuf does: the low bits of the number.
    assert values.tolist() == np.array(numbers, np.uint64).astype(storage).tolist()


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(st.text("09af", min_size=1, max_size=16), st.integers(1, 60)), min_size=1, max_size=5))
def test_strings_in_runs(runs):
    words = [word.encode() for word, times in runs for _ in range(times)]
    document = parse(tensor_file(b"".join(field(9, 2, word) for word in words)))
    assert document.inputs[0].values["value_h"].tolist() == words
    assert parse(written(document)).inputs[0].values["value_h"].tolist() == words


def test_unknown_fields_are_kept_and_told():
    unknown = field(2999, 2, b"abc") + field(2998, 0, b"\x05") + field(8, 0, encode_varint(4711))
    unknown += field(3, 0, encode_varint(2**64 - 1))
    inner = field(1, 2, b"t") + field(77, 5, b"abcd") + field(3, 0, encode_varint(99)) + field(2, 2, field(9, 0, b"\1"))
    document = parse(
        field(5, 2, b"x") + unknown + field(6, 2, inner) + field(300, 3, b"\x08\x01" + encode_varint(300 << 3 | 4))
    )
    assert {str(item) for item in document.unknown} == {
        "field 2999 (Node)",
        "field 2998 (Node)",
        "field 300 (Node)",
        "op_type: 4711 (Node)",
        "device: -1 (Node)",
    }
    assert {str(item) for item in document.inputs[0].unknown} == {
        "field 77 (input 0)",
        "layout: 99 (input 0)",
        "field 9 (input 0, shape)",
    }
    again = parse(written(document))
    assert sorted(map(str, again.all_unknown())) == sorted(map(str, document.all_unknown()))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff" * 11, "byte 0: .*longer than 10 bytes"),
        (b"\x2a\x05ab", "byte 2: a field reaches beyond its message"),
        (b"\x32\xff\xff\xff\xff\x07", "a field reaches beyond its message"),
        (b"\x2f", "7 is not a wire type"),
        (b"\x2c", "4 is not a wire type"),
        (b"\x2b" * 200, "nested deeper than 100"),
        (tensor_file(field(7, 2, b"abc")), "3 bytes is not made of 4-byte floats"),
        (tensor_file(field(9, 2, b"1" + b"0" * 16)), "value_h: 17 digits; the widest element takes 16"),
        (tensor_file(field(9, 2, b"3f8\0")), "value_h has an entry that is not hexadecimal"),
        (tensor_file(field(9, 2, b"0" * 20 + b"\0")), "value_h has an entry that is not hexadecimal"),
        (tensor_file(field(9, 2, b"3f8\0") * 100), "value_h has an entry that is not hexadecimal"),
        (tensor_file(field(8, 2, b"\xff")), "not a binary case"),
        (field(0, 2, b"x"), "not a binary case"),
    ],
)
def test_broken_files_are_told(data, message):
    with pytest.raises(CaseFileError, match=message):
        parse(data)


UNKNOWN_TEXT = PLAIN_TEXT + b"new_field: 1 op_extra { a: 2 }"


def test_text_with_unknown_fields_is_refused(tmp_path):
    src = tmp_path / "a.prototxt"
    src.write_bytes(UNKNOWN_TEXT)
    with pytest.raises(
        CaseFileError, match=r"would lose .*field new_field \(10:1\), field op_extra \(10:14\).*--drop-unknown"
    ):
        convert(src, tmp_path / "b.pb", SCHEMA)
    assert not (tmp_path / "b.pb").exists()
    assert convert(src, tmp_path / "b.pb", SCHEMA, drop_unknown=True) == (
        "field new_field (10:1)",
        "field op_extra (10:14)",
    )
    assert read_case(tmp_path / "b.pb", SCHEMA, KNOWN).params["factor"] == 2


def test_binary_keeps_unknown_fields_only_in_binary(tmp_path):
    src, dst = tmp_path / "a.pb", tmp_path / "b.pb"
    src.write_bytes(b"\x2a\x01x" + encode_varint(2999 << 3) + b"\x05")
    assert convert(src, dst, SCHEMA) == ()
    assert [str(item) for item in read_binary(memoryview(dst.read_bytes()), SCHEMA).unknown] == ["field 2999 (Node)"]
    with pytest.raises(CaseFileError, match=r"field 2999 \(Node\)"):
        convert(src, tmp_path / "b.prototxt", SCHEMA)


def test_references_stay_and_their_files_come_along(tmp_path):
    case = toy_case(count=20000)
    write_case(case, TOY, tmp_path / "old" / "c.prototxt", SCHEMA, blobs=True)
    convert(tmp_path / "old" / "c.prototxt", tmp_path / "old" / "c.pb", SCHEMA)
    convert(tmp_path / "old" / "c.pb", tmp_path / "new" / "d.prototxt", SCHEMA)
    text = (tmp_path / "new" / "d.prototxt").read_bytes()
    assert b'path: "c.values.bin"' in text
    again = read_case(tmp_path / "new" / "d.prototxt", SCHEMA, KNOWN)
    assert np.array_equal(again.inputs[0].data, case.inputs[0].data)
    convert(tmp_path / "old" / "c.pb", tmp_path / "new" / "e.prototxt", SCHEMA)  # the same file is there already
    (tmp_path / "new" / "c.values.bin").write_bytes(b"other")
    with pytest.raises(CaseFileError, match="another file of that name"):
        convert(tmp_path / "old" / "c.pb", tmp_path / "new" / "d.prototxt", SCHEMA)


def test_a_reference_that_leads_out_is_refused(tmp_path):
    (tmp_path / "old").mkdir()
    (tmp_path / "x.bin").write_bytes(b"1234")
    src = tmp_path / "old" / "a.prototxt"
    src.write_bytes(b'op_name: "x" input { id: "a" path: "../x.bin" }')
    convert(src, tmp_path / "old" / "a.pb", SCHEMA)
    with pytest.raises(CaseFileError, match="leads out of the case's folder"):
        convert(src, tmp_path / "new" / "a.pb", SCHEMA)
