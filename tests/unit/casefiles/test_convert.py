import numpy as np
import pytest

from mluops_gtest.base.errors import CaseFileError
from mluops_gtest.casefiles.binary import encode_varint, read_binary
from mluops_gtest.casefiles.files import convert
from mluops_gtest.casefiles.reader import read_case
from mluops_gtest.casefiles.writer import write_case
from tests.unit.casefiles.test_text import EVERYTHING
from tests.unit.casefiles.toy import KNOWN, PLAIN_TEXT, SCHEMA, TOY, toy_case


@pytest.mark.parametrize("text", [EVERYTHING, PLAIN_TEXT])
def test_there_and_back_loses_nothing(tmp_path, text):
    a, b, c, d = (tmp_path / name for name in ("a.prototxt", "b.pb", "c.prototxt", "d.pb"))
    a.write_bytes(text)
    assert convert(a, b, SCHEMA) == convert(b, c, SCHEMA) == convert(c, d, SCHEMA) == ()
    assert b.read_bytes() == d.read_bytes()


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
