import subprocess
import sys
from dataclasses import replace

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from mluops_gtest.base.errors import ContentError
from mluops_gtest.casefiles.schema import Schema, proto_files
from mluops_gtest.core.declaration import EnumSpec, ParamField
from tests.support.protoc import needs_protoc, protoc
from tests.unit.casefiles.toy import SCHEMA, TOY


def test_the_numbers_of_the_format_are_fixed():
    node = Schema.of([TOY]).node()
    numbers = {field.name: field.number for field in node.DESCRIPTOR.fields}
    assert numbers["op_name"] == 5
    assert numbers["handle_param"] == 23451
    assert numbers["api_name"] == 1048576
    assert numbers["toy_scale_param"] == 990001
    tensor = node.DESCRIPTOR.fields_by_name["input"].message_type
    values = {field.name: field.number for field in tensor.fields if field.name.startswith("value_")}
    wanted = {"value_f": 7, "value_i": 8, "value_h": 9, "value_l": 17, "value_ui": 18, "value_ul": 19}
    assert values == wanted
    assert tensor.fields_by_name["dtype"].enum_type.values_by_name["DTYPE_COMPLEX_HALF"].number == 18


def test_defaults_are_those_of_the_format():
    schema = Schema.of([TOY])
    node, tensor = schema.node(), schema.tensor()
    assert (node.valid, node.pattern, node.device) == ("True", "random", 1)
    assert (tensor.layout, tensor.dtype, tensor.position, tensor.scale, tensor.pointer_mode) == (5, 2, 1000, 1000.0, 1)
    assert (tensor.random_data.lower_bound, tensor.random_data.distribution) == (-1.0, 1)
    param = node.toy_scale_param
    assert (param.kernel, param.mode, param.ratio, param.exact) == (3, 0, 0.5, True)


def test_schemas_are_private_and_without_operators_their_messages_are_unknown():
    one, other = Schema.of([TOY]).node(), Schema.of([]).node()
    assert one.DESCRIPTOR is not other.DESCRIPTOR
    assert not {"op_type", "toy_scale_param"} & set(other.DESCRIPTOR.fields_by_name)


MODE = ParamField("m", 1, "enum", enum=EnumSpec("ReduceMode", {"X": 0}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"op_type": ("OTHER", 77)}, "OTHER = 77 contradicts TOY_SCALE = 77"),
        ({"op_type": ("TOY_SCALE", 78)}, "TOY_SCALE = 78 contradicts TOY_SCALE = 77"),
        ({"params": replace(TOY.params, fields=(MODE,))}, "X = 0 contradicts REDUCE_MODE_SUM = 0"),
        ({"params": replace(TOY.params, field="x", number=990002, fields=())}, "ToyScaleParam is declared twice"),
        ({"params": replace(TOY.params, field="x")}, "other and toy_scale both use the field number 990001"),
        ({"params": replace(TOY.params, number=990002)}, "other and toy_scale both use the parameter field toy_scale"),
    ],
)
def test_contradictions_are_told(change, message):
    with pytest.raises(ContentError, match=message):
        Schema.of([TOY, replace(TOY, name="other", **change)])


def test_a_number_taken_twice_is_told():
    clash = replace(TOY, params=replace(TOY.params, number=5))
    with pytest.raises(ContentError, match="valid schema"):
        Schema.of([clash]).node()


@pytest.mark.slow
def test_protobuf_is_imported_at_first_use():
    code = (
        "import sys, mluops_gtest.casefiles.reader, mluops_gtest.casefiles.writer;"
        "from mluops_gtest.casefiles.schema import Schema; s = Schema.of([]);"
        "assert 'google.protobuf' not in sys.modules; s.node(); assert 'google.protobuf' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_files_say_what_the_schema_says():
    files = proto_files(SCHEMA)
    base = files["mluoptest.proto"]
    assert "message Tensor {\n  required string id = 1;\n" in base
    assert "  repeated float value_f = 7 [packed = true];\n" in base
    assert '  optional string valid = 1 [default = "True"];\n' in base
    assert "  optional ToyScaleParam toy_scale_param = 990001;\n" in base
    assert "  extensions 3000 to 4000;\n" in base
    assert "enum ToyMode {\n  TOY_SUM = 0;\n  TOY_MAX = 2;\n}\n" in base
    assert "extend mluoptest.Node {\n  optional Expect expect = 3500;\n}" in files["mluops_gtest_expect.proto"]


@needs_protoc
def test_protoc_compiles_them_to_the_same_descriptors(tmp_path):
    for name, text in proto_files(SCHEMA).items():
        (tmp_path / name).write_text(text)
    protoc(tmp_path, f"--descriptor_set_out={tmp_path / 'set'}", "--include_imports", "mluops_gtest_expect.proto")
    compiled = FileDescriptorSet.FromString((tmp_path / "set").read_bytes())
    for ours, theirs in zip(SCHEMA.files(), compiled.file, strict=True):
        for field in (*theirs.extension, *(field for message in theirs.message_type for field in message.field)):
            field.ClearField("json_name")
        ours.ClearField("syntax")
        theirs.ClearField("syntax")
        assert ours == theirs
