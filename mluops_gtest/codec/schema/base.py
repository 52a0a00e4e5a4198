"""The case schema as tables: the parts of proto2 package `mluoptest` that belong to no operator of ours."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from mluops_gtest.model.criterion import CriterionKind
from mluops_gtest.model.dtypes import DType, Layout


class SchemaField(NamedTuple):
    """One field of a message, as a line of a .proto file says it."""

    label: str
    type: str
    name: str
    number: int
    default: str | None = None
    packed: bool = False


def rows(text: str) -> tuple[SchemaField, ...]:
    """The fields of `label type name number [default | packed]` lines."""
    found = []
    for line in text.strip().splitlines():
        label, type_, name, number, *rest = line.split()
        packed = rest == ["packed"]
        found.append(SchemaField(label, type_, name, int(number), rest[0] if rest and not packed else None, packed))
    return tuple(found)


NODE: Final = rows("""
    optional string valid 1 True
    optional string pattern 2 random
    optional Device device 3 CPU
    required string op_name 5
    repeated Tensor input 6
    repeated Tensor output 7
    optional TestParam test_param 10
    optional double latency 11
    optional double io_efficiency 12
    optional double efficiency 13
    repeated EvaluationCriterion evaluation_criterion 14
    repeated double evaluation_threshold 15
    optional double theory_io_size 16
    optional double theory_compute_ops 17
    optional double workspace_size 18
    repeated double threshold_rate 21
    repeated MLUPlatform supported_mlu_platform 22
    repeated double evaluation_threshold_imag 4832
    optional HandleParam handle_param 23451
    optional string api_name 1048576
""")
# Only a schema with operators has op_type: proto2 knows no enum without values.
OP_TYPE: Final = SchemaField("optional", "OpType", "op_type", 8)
EXTENSION_RANGE: Final = (3000, 4000)

MESSAGES: Final[Mapping[str, tuple[SchemaField, ...]]] = {
    "Shape": rows("""
        repeated int64 dims 1
        repeated int64 dim_stride 2
    """),
    "Thresholds": rows("""
        repeated double evaluation_threshold 1
        repeated double evaluation_threshold_imag 2
    """),
    "RandomData": rows("""
        optional int32 seed 1
        optional float lower_bound 2 -1
        optional float upper_bound 3 1
        optional RandomDistribution distribution 4 UNIFORM
        optional bool convert_dtype 5
        optional float mu 6 0
        optional float sigma 7 1
        optional double lower_bound_double 8 -1
        optional double upper_bound_double 9 1
        optional double mu_double 10
        optional double sigma_double 11 1
        optional int32 true_number 12
        optional int32 begin_index 13
        optional int32 end_index 14
        optional int32 dim_shape 15 1
        optional float negative_ratio 16
        optional int32 sorted_status 17
    """),
    "Tensor": rows("""
        required string id 1
        required Shape shape 2
        required TensorLayout layout 3 LAYOUT_ARRAY
        required DataType dtype 4 DTYPE_FLOAT
        optional int32 position 5 1000
        optional float scale 6 1000
        repeated float value_f 7 packed
        repeated int32 value_i 8 packed
        repeated string value_h 9
        optional RandomData random_data 10
        optional string path 11
        optional DataType mlu_dtype 12
        optional DataType onchip_dtype 13 DTYPE_UNSET
        optional int32 offset 14 1000
        optional Thresholds thresholds 15
        optional int32 threshold_use 16
        repeated int64 value_l 17 packed
        repeated uint32 value_ui 18 packed
        repeated uint64 value_ul 19 packed
        optional PointerMode pointer_mode 29 POINTER_MODE_DEVICE
        optional bool is_cpu_scalar 30
        optional int32 index 31
    """),
    "TestParam": rows("""
        repeated EvaluationCriterion error_func 1
        repeated double error_threshold 2
        repeated double error_threshold_imag 3
        optional double latency 5
        optional double efficiency 6
        optional Device baseline_device 7
    """),
    "HandleParam": rows("optional QuantizeRoundMode round_mode 1 ROUND_OFF_ZERO"),
}

ENUMS: Final[Mapping[str, Mapping[str, int]]] = {
    "TensorLayout": {layout.schema_name: layout.schema_number for layout in Layout},
    "DataType": dict(
        sorted(
            {"DTYPE_UNSET": 0, "DTYPE_INVALID": 15, **{d.schema_name: d.schema_number for d in DType}}.items(),
            key=lambda item: item[1],
        )
    ),
    "EvaluationCriterion": {kind.name: kind.schema_number for kind in CriterionKind},
    "Device": {"CPU": 1, "GPU": 2, "CMODEL": 3, "GENERATOR_CPU": 4},
    "MLUPlatform": {"MLU200": 1, "MLU370": 2, "MLU590": 4, "MTP613": 6, "MTP617": 7},
    "PointerMode": {"POINTER_MODE_HOST": 0, "POINTER_MODE_DEVICE": 1},
    "RandomDistribution": {
        "UNIFORM": 1,
        "GAUSSIAN": 2,
        "SAMPLE": 3,
        "BINOMIAL": 4,
        "DISCRETE_UNIFORM": 5,
        "CERTAIN": 6,
        "UNIQUE_INDEX": 7,
    },
    "QuantizeRoundMode": {"ROUND_TO_EVEN": 0, "ROUND_HALF_UP": 1, "ROUND_OFF_ZERO": 2},
    "ReduceMode": {"REDUCE_MODE_SUM": 0, "REDUCE_MODE_MEAN": 1, "REDUCE_MODE_MAX": 2},
}

# Our one addition to the format: what a case expects of the caller and of the status.
EXPECT_PACKAGE: Final = "mluops_gtest"
EXPECT_FIELD: Final = "expect"
EXPECT_NUMBER: Final = 3500
# The first line of a text whose Expect would hold nothing but `degenerate`: the released text reader refuses an
# extension that it does not know, and skips a comment.
REMARK: Final = b"# [mluops_gtest.expect] degenerate: "
EXPECT: Final = rows("""
    required int32 status 1
    optional string check 2
    optional int32 arch 3
    optional int64 nram_bytes 4
    repeated string null_descriptor 5
    repeated string null_pointer 6
    optional bool null_handle 7
    optional int64 workspace_size 8
    optional string degenerate 9
""")
