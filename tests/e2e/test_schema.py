"""`mluops-test schema`: any protobuf tool reads our files with what it prints."""

import re

import numpy as np
import pytest

from mluops_gtest.casefiles.binary import read_binary, skip, varint
from mluops_gtest.casefiles.schema import Schema
from mluops_gtest.casefiles.text_reader import read_text
from tests.conftest import ROOT
from tests.support.protoc import needs_protoc, protoc
from tests.support.released_functions import RELEASED_MESSAGES, released_fields

FILES = ["mluoptest.proto", "mluops_gtest_expect.proto"]
# One message of all cases, so that one call of protoc reads them all.
ALL = """\
syntax = "proto2";
import "mluoptest.proto";
import "mluops_gtest_expect.proto";
message All { repeated mluoptest.Node node = 1; }
"""


def test_it_prints_what_it_writes(cli, tmp_path):
    out = tmp_path / "deep" / "proto"
    assert cli("schema", "--out", out).lines == [str(out / name) for name in FILES]
    assert cli("schema").out == (out / FILES[0]).read_text()
    assert sorted(path.name for path in out.iterdir()) == sorted(FILES)
    for name in FILES:
        assert cli("schema", name).out == (out / name).read_text()
    assert cli("schema", "other.proto").code == 2


def test_it_knows_the_operators_of_the_root(cli, toy):
    assert "optional GetIndicePairsParam get_indice_pairs_param = 202302031;" in cli("schema").out
    own = cli("schema", "--root", toy).out
    assert "message ScaleParam {\n  optional int32 factor = 1 [default = 2];\n}\n" in own
    assert "get_indice_pairs_param" not in own


def test_messages_are_the_released_ones(operators):
    messages = {one.params.message: one.params for one in operators.values() if one.params is not None}
    for name, (node, _) in RELEASED_MESSAGES.items():
        declared = messages[name]
        assert f"{declared.field} {declared.number}" == node
        ours = {one.number: (one.name, one.enum.name if one.enum else one.type, one.label) for one in declared.fields}
        assert ours == {number: words[:3] for number, words in released_fields(name).items()}


def test_defaults_are_the_released_ones(cli):
    text = cli("schema").out
    for name in RELEASED_MESSAGES:
        fields = text.partition(f"message {name} {{\n")[2].partition("}")[0]
        for number, (field, kind, label, default) in released_fields(name).items():
            found = re.search(rf"^  {label} {kind} {field} = {number}(?: \[default = (.*)\])?;$", fields, re.M)
            assert found, (name, field)
            # 0 is what a reader takes where no default stands; floats are written with their point.
            assert (found[1] or "0").removesuffix(".0") == (default or "0"), (name, field)


@pytest.mark.slow
@needs_protoc
def test_protoc_reads_every_committed_file_with_it_and_sees_what_we_see(cli, tmp_path, catalogue):
    assert cli("schema", "--out", tmp_path).code == 0
    (tmp_path / "all.proto").write_text(ALL)
    texts = [path.read_bytes() for path in sorted((ROOT / "prototxt").rglob("*.prototxt"))]
    assert len(texts) > 1000
    schema = Schema.of(catalogue.operators.values())
    for text, data in zip(texts, encoded(tmp_path, texts), strict=True):
        ours, theirs = read_text(text, schema), read_binary(data, schema)
        assert not theirs.all_unknown()
        assert ours.node == theirs.node
        for one, other in zip(ours.tensors, theirs.tensors, strict=True):
            assert one.message == other.message
            assert one.values.keys() == other.values.keys()
            assert all(np.array_equal(one.values[name], other.values[name]) for name in one.values)


@needs_protoc
def test_protoc_refuses_what_the_schema_does_not_have(cli, tmp_path):
    assert cli("schema", "--out", tmp_path).code == 0
    (tmp_path / "all.proto").write_text(ALL)
    with pytest.raises(AssertionError, match="no_such_field"):
        encoded(tmp_path, [b'op_name: "x" no_such_field: 1'])


def encoded(folder, texts):
    """Each text as the bytes of its Node, by protoc."""
    stdin = b"".join(b"node {\n" + text + b"}\n" for text in texts)
    data = memoryview(protoc(folder, "--encode=All", "all.proto", stdin=stdin))
    nodes, pos = [], 0
    while pos < len(data):
        tag, pos = varint(data, pos, len(data))
        start, pos = skip(data, tag, pos, len(data))
        nodes.append(data[start:pos])
    return nodes
