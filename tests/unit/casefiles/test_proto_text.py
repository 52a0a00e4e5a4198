from google.protobuf.descriptor_pb2 import FileDescriptorSet

from mluops_gtest.casefiles.schema import proto_files
from tests.support.protoc import needs_protoc, protoc
from tests.unit.casefiles.toy import SCHEMA


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
        for field in (f for message in theirs.message_type for f in message.field):
            field.ClearField("json_name")
        for field in theirs.extension:
            field.ClearField("json_name")
        ours.ClearField("syntax")
        theirs.ClearField("syntax")
        assert ours == theirs
