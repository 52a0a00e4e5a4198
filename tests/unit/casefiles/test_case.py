import os
from dataclasses import replace

import numpy as np
import pytest

from mluops_gtest.base.errors import CaseFileError, ContentError, UnwritableError
from mluops_gtest.casefiles.reader import read_case, read_operator_name
from mluops_gtest.casefiles.writer import BLOB_BYTES, case_text, write_case
from mluops_gtest.core.call import Status
from mluops_gtest.core.case import Expect
from mluops_gtest.core.declaration import ParamField
from mluops_gtest.core.tensor import Criterion, CriterionKind, DType, Layout, Tensor, TensorDesc, diff1_and_diff2
from tests.unit.casefiles.toy import KNOWN, PLAIN_TEXT, SCHEMA, TOY, ZERO, Known, read_back, tensor, toy_case


def content(case):
    """All that a case holds but its id and path, as comparable values."""
    tensors = [(t.id, t.desc, None if t.data is None else t.data.tobytes()) for t in (*case.inputs, *case.outputs)]
    return replace(case, id="", path=None, inputs=(), outputs=()), tensors


FULL_EXPECT = Expect(
    Status.BAD_PARAM, "rank", 270, 1000, ("index", "count"), ("values", "workspace", "pad"), True, 1024
)
CASES = {
    "plain": toy_case(),
    "shared criteria": toy_case(criteria=(diff1_and_diff2(1e-5), diff1_and_diff2(1e-5))),
    "one not compared": toy_case(criteria=(diff1_and_diff2(1e-5), None)),
    "per output with one not compared": toy_case(criteria=(None, diff1_and_diff2(1e-5))),
    "operator's own criteria": toy_case(criteria=((), ())),
    "no element": toy_case(count=0),
    "long": toy_case(count=5000),
    "every half": toy_case(
        inputs=(tensor("values", np.arange(1 << 16, dtype="<u2").view("<f2")), toy_case().inputs[1])
    ),
    "theory": toy_case(theory={"theory_io_size": 12.0, "latency": 0.1}),
    "recomputed": toy_case(baseline_stored=False),
    "constant by design": toy_case(expect=Expect(degenerate="one element")),
    "expects a status": toy_case(expect=FULL_EXPECT),
    "huge descriptor": toy_case(
        expect=Expect(Status.NOT_SUPPORTED, "large"),
        inputs=(
            Tensor("values", TensorDesc(DType.FLOAT, Layout.NCHW, (2**63 - 1, 2**63 - 1))),
            Tensor("index", TensorDesc(DType.INT32, Layout.ARRAY, (2, 3), (7, 2)), np.arange(12, dtype="<i4")),
        ),
    ),
}


@pytest.mark.parametrize("suffix", [".prototxt", ".pb"])
@pytest.mark.parametrize("blobs", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_a_case_survives(tmp_path, name, suffix, blobs):
    case = CASES[name]
    path = tmp_path / f"case{suffix}"
    write_case(case, TOY, path, SCHEMA, blobs=blobs)
    again = read_case(path, SCHEMA, KNOWN)
    assert content(again) == content(case)
    assert again.notes == ()
    assert again.path == path


def text_of(**changes) -> str:
    return case_text(toy_case(**changes), TOY, SCHEMA).decode()


def test_our_text_is_as_the_format_wants_it():
    text = text_of()
    assert text == text_of()
    assert text.startswith(
        'device: GENERATOR_CPU\nop_name: "toy_scale_released"\ninput {\n  id: "values"\n  shape {\n    dims: 3\n  }\n'
        '  layout: LAYOUT_ARRAY\n  dtype: DTYPE_FLOAT\nvalue_h: "bf800000"\nvalue_h: "00000000"\n'
    )
    assert "value_i: -5" in text
    assert "op_type: TOY_SCALE\nevaluation_criterion: DIFF1\nevaluation_criterion: DIFF2\n" in text
    assert "  thresholds {\n    evaluation_threshold: 0.003\n    evaluation_threshold: 0.003\n  }\n" in text
    assert "\nevaluation_threshold" not in text
    assert "mluops_gtest" not in text


def test_shared_thresholds_are_in_the_node_and_a_status_in_our_extension():
    text = text_of(criteria=(diff1_and_diff2(0.5),) * 2, expect=Expect(Status.BAD_PARAM, "rank"))
    assert "\nevaluation_threshold: 0.5\nevaluation_threshold: 0.5\n" in text
    assert "thresholds {" not in text
    assert '[mluops_gtest.expect] {\n  status: 3\n  check: "rank"\n}\n' in text


def test_an_exact_output_beside_a_tolerant_one_gets_thresholds_of_0(tmp_path):
    exact = (Criterion(CriterionKind.DIFF3, 0.0),)
    for criteria, wanted in [
        ((diff1_and_diff2(0.5), exact), (diff1_and_diff2(0.5), ZERO)),
        ((exact, ZERO), (exact, exact)),
    ]:
        write_case(toy_case(criteria=criteria), TOY, tmp_path / "c.pb", SCHEMA)
        assert read_case(tmp_path / "c.pb", SCHEMA, KNOWN).criteria == wanted


def test_why_a_baseline_is_constant_is_no_part_of_a_committed_file():
    assert text_of(expect=Expect(degenerate='all "zero"')) == text_of()


@pytest.mark.parametrize("reason", ['all "zero"', "零\n# [no comment", "\\"])
def test_in_a_text_it_is_a_comment_which_every_reader_takes(tmp_path, reason):
    path = tmp_path / "case.prototxt"
    write_case(toy_case(expect=Expect(degenerate=reason)), TOY, path, SCHEMA)
    remark, rest = path.read_bytes().split(b"\n", 1)
    assert remark.startswith(b'# [mluops_gtest.expect] degenerate: "')
    assert rest.decode() == text_of()
    assert read_case(path, SCHEMA, KNOWN).expect == Expect(degenerate=reason)


def test_beside_a_status_it_is_a_field_as_in_older_files(tmp_path):
    expect, path = Expect(Status.BAD_PARAM, "rank", degenerate="none"), tmp_path / "case.prototxt"
    write_case(toy_case(expect=expect), TOY, path, SCHEMA)
    assert b"#" not in path.read_bytes()
    assert read_case(path, SCHEMA, KNOWN).expect == expect
    path.write_text(text_of() + '[mluops_gtest.expect] { status: 0 degenerate: "all \\"zero\\"" }\n')
    assert read_case(path, SCHEMA, KNOWN).expect == Expect(degenerate='all "zero"')


@pytest.mark.parametrize("rest", [b"", b"none", b'"no end', b'"\\q"', b'"\\377"', b'""'])
def test_any_other_comment_says_nothing(tmp_path, rest):
    remark = b"# [mluops_gtest.expect] degenerate: " + rest + b"\n"
    assert read_back(tmp_path, remark + text_of().encode()).expect == Expect()


def test_blobs_are_raw_files_beside_the_case(tmp_path):
    case = toy_case(count=BLOB_BYTES // 4 + 1)
    write_case(case, TOY, tmp_path / "c.pb", SCHEMA, blobs=True)
    assert sorted(os.listdir(tmp_path)) == ["c.pb", "c.scaled.bin", "c.values.bin"]
    assert (tmp_path / "c.values.bin").read_bytes() == case.inputs[0].data.tobytes()


def test_a_failing_write_leaves_nothing(tmp_path):
    path = tmp_path / "c.prototxt"
    path.mkdir()
    with pytest.raises(UnwritableError, match="cannot be written"):
        write_case(toy_case(), TOY, path, SCHEMA)
    assert os.listdir(tmp_path) == ["c.prototxt"]


SHORT = Tensor("values", TensorDesc(DType.FLOAT, Layout.ARRAY, (2,)), np.zeros(3, "<f4"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"criteria": (diff1_and_diff2(1), (Criterion(CriterionKind.DIFF3, 1),))}, "one list of criteria"),
        ({"criteria": (diff1_and_diff2(1), ())}, "one list of criteria for all outputs"),
        ({"params": {"facto": 1}}, "no parameter 'facto'"),
        ({"params": {"factor": 1 << 40}}, "factor cannot be"),
        ({"params": {"factor": "x"}}, "factor cannot be 'x'"),
        ({"inputs": (SHORT,)}, r"'values' holds float32 \(3,\); its descriptor wants float32 \(2,\)"),
    ],
)
def test_what_the_format_cannot_say_is_told(change, message):
    with pytest.raises(ContentError, match=message):
        case_text(toy_case(**change), TOY, SCHEMA)


def changed(*old_and_new: bytes) -> bytes:
    """The file of another tool with each old piece replaced by the new one behind it."""
    text = PLAIN_TEXT
    for old, new in zip(old_and_new[::2], old_and_new[1::2], strict=True):
        assert old in text
        text = text.replace(old, new)
    return text


def test_a_file_of_another_tool(tmp_path):
    case = read_back(tmp_path, PLAIN_TEXT)
    assert case.id == "toy_scale/case"
    assert case.operator == "toy_scale"
    assert [t.id for t in (*case.inputs, *case.outputs)] == ["values", "index", "scaled", "count"]
    assert case.inputs[0].data.tolist() == [1.0, 2.5, -3.0, np.float32(0.04)]
    assert case.inputs[1].data.tolist() == [7, -16]
    defaults = {"kernel": 3, "mode": 0, "ratio": 0.5, "label": "", "exact": True}
    assert case.params == {"factor": 2, "pad": (1,), **defaults}
    assert case.criteria == (diff1_and_diff2(0.003), diff1_and_diff2(0.003))
    assert not case.baseline_stored
    assert case.outputs[0].data is None
    assert case.notes == ()
    assert read_operator_name(tmp_path / "case.prototxt") == "toy_scale_released"
    assert read_back(tmp_path, changed(b"toy_scale_released", b"toy_scale")).operator == "toy_scale"


DEVICE = b"baseline_device: CPU"


@pytest.mark.parametrize(
    ("head", "in_test_param", "stored"),
    [
        (b"", b"", False),
        (b"device: CPU", b"baseline_device: GPU", False),
        (b"device: GPU", b"baseline_device: CPU", True),
        (b"", b"baseline_device: CMODEL", True),
        (b"device: GENERATOR_CPU", b"", True),
    ],
)
def test_the_device_says_where_the_baseline_is(tmp_path, head, in_test_param, stored):
    text = head + changed(
        DEVICE, in_test_param, b"dims: 4", b"dims: 0", b'2" shape { dims: 2 }', b'2" shape { dims: 0 }'
    )
    assert read_back(tmp_path, text).baseline_stored is stored


def test_a_stored_baseline_must_be_there(tmp_path):
    text = changed(DEVICE, b"baseline_device: GPU")
    with pytest.raises(CaseFileError, match=r"case.prototxt: no values for the output \(the baseline\) scaled, count"):
        read_back(tmp_path, text)
    assert read_back(tmp_path, text + EXPECT % b"status: 3").expect.status is Status.BAD_PARAM
    assert read_back(tmp_path, text + EXPECT % b'status: 0 check: "empty"').expect.check == "empty"
    with pytest.raises(CaseFileError, match="no values for the output"):
        read_back(tmp_path, text + EXPECT % b"status: 0 arch: 370")


CRITERIA = PLAIN_TEXT.splitlines()[-1]
BOTH = (Criterion(CriterionKind.DIFF1, 1.0), Criterion(CriterionKind.DIFF3, 2.0))
NOTHING = (Criterion(CriterionKind.DIFF1, 0.0), Criterion(CriterionKind.DIFF3, 0.0))


def with_criteria(node: bytes, first: bytes = b"", second: bytes = b"") -> bytes:
    one, two = b'output { id: "output1" ', b'output { id: "output2" '
    return changed(CRITERIA, node, one, one + first + b" ", two, two + second + b" ")


NAMED = b"evaluation_criterion: DIFF1 evaluation_criterion: DIFF3 "
TWO = b"thresholds { evaluation_threshold: 1 evaluation_threshold: 2 } "
OLDER = b"test_param { error_func: [DIFF1, DIFF3] error_threshold: [1, 2] }"


@pytest.mark.parametrize(
    ("text", "criteria"),
    [
        (with_criteria(b""), ((), ())),
        (with_criteria(b"", second=b"threshold_use: 0"), ((), None)),
        (with_criteria(NAMED + b"evaluation_threshold: [1, 2]"), (BOTH, BOTH)),
        (with_criteria(NAMED + b"evaluation_threshold: [1, 2]", TWO.replace(b"1", b"9")), (BOTH, BOTH)),
        (with_criteria(NAMED + b"evaluation_threshold: [1, 2]", b"threshold_use: 0"), (None, BOTH)),
        (with_criteria(NAMED + b"evaluation_threshold: [1, 2]", b"threshold_use: 1"), (BOTH, BOTH)),
        (with_criteria(NAMED, TWO, TWO.replace(b"1", b"0").replace(b"2", b"0")), (BOTH, NOTHING)),
        (with_criteria(NAMED, TWO, b"threshold_use: 0"), (BOTH, None)),
        (with_criteria(NAMED + b"evaluation_threshold: [8, 9] " + OLDER), (BOTH, BOTH)),
        (with_criteria(NAMED + b"evaluation_threshold: [1, 2] test_param { latency: 1 }"), (BOTH, BOTH)),
    ],
)
def test_which_criteria_count(tmp_path, text, criteria):
    assert read_back(tmp_path, text).criteria == criteria


FLOAT, DIMS, VALUES = b"dtype: DTYPE_FLOAT", b"dims: [2]", b"value_i: 7 value_i: -0x10"
PARAMETERS = b"toy_scale_param { factor: 2 pad: 1 }"
EXPECT = b"[mluops_gtest.expect] { %b }"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (with_criteria(NAMED + b"evaluation_threshold: 1"), "names 2 criteria, but there are 1 threshold"),
        (with_criteria(NAMED), "output 0: evaluation_criterion names 2 criteria, but there are 0"),
        (with_criteria(NAMED, TWO), "output 1: evaluation_criterion names 2 criteria, but there are 0"),
        (with_criteria(b"evaluation_threshold: 1"), "evaluation_criterion names 0 criteria, but there are 1"),
        (with_criteria(b"", TWO), "output 0: evaluation_criterion names 0 criteria, but there are 2"),
        (
            with_criteria(b"test_param { error_func: DIFF1 }"),
            "test_param: error_func names 1 criteria, but there are 0",
        ),
        (with_criteria(b"evaluation_criterion: DIFF9"), "unknown enumerator evaluation_criterion: DIFF9"),
        (b"device: TPU " + PLAIN_TEXT, r"unknown enumerator device: TPU \(1:9\)"),
        (changed(b"factor: 2", b"factor: 2 mode: TOY_MIN"), "toy_scale_param: unknown mode: TOY_MIN"),
        (changed(b"factor: 2", b""), "toy_scale_param: factor is missing"),
        (changed(PARAMETERS, b""), "toy_scale_param is missing"),
        (changed(b'op_name: "toy_scale_released"', b""), "op_name is missing"),
        (changed(FLOAT, b"dtype: DTYPE_FP4"), r"input 0 \('values'\): unknown dtype DTYPE_FP4"),
        (changed(FLOAT, b"dtype: 99"), "unknown dtype 99"),
        (changed(FLOAT, b"dtype: DTYPE_UNSET"), "cannot have the dtype DTYPE_UNSET"),
        (changed(b"LAYOUT_ARRAY", b"LAYOUT_X"), "unknown layout LAYOUT_X"),
        (changed(b"shape { dims: [2] }", b""), r"input 1 \('index'\): the shape is missing"),
        (changed(DIMS, b"dims: -2"), r"the shape \[-2\] has a negative length"),
        (changed(DIMS, b"dims: 2 dim_stride: [1, 1]"), "must have one number ≥ 0 per axis"),
        (changed(DIMS, b"dims: 2 dim_stride: -1"), "must have one number ≥ 0 per axis"),
        (changed(DIMS, b"dims: [2" + b",1" * 64 + b"]"), "65 axes; at most 64"),
        (changed(VALUES, b""), "no values for the input index"),
        (
            PLAIN_TEXT + b'input { id: "more" shape {} }',
            "the file has 3 input tensors; toy_scale takes 2: values, index",
        ),
        (PLAIN_TEXT + EXPECT % b"status: 99", "status 99 is missing or unknown; known: 0 SUCCESS"),
        (PLAIN_TEXT + EXPECT % b"", "status 0 is missing or unknown"),
        (PLAIN_TEXT + EXPECT % b"status: 0 workspace_size: -1", "workspace_size is -1"),
        (PLAIN_TEXT + EXPECT % b'status: 3 null_pointer: "indx"', "null_pointer names 'indx'. Did you mean 'index'"),
        (PLAIN_TEXT + EXPECT % b'status: 3 null_descriptor: "pad"', "null_descriptor names 'pad'"),
        (changed(b"error_func: DIFF2", b"error_func: SMAPE"), "the criterion SMAPE has no formula; name one"),
        (changed(b"0.003", b"inf"), "the threshold inf of DIFF[12] must be finite"),
        (changed(b"0.003", b"nan"), "the threshold nan of DIFF[12] must be finite"),
        (changed(b"0.003", b"-1e-9"), "the threshold -1e-09 of DIFF[12] must be finite and ≥ 0"),
        (
            changed(DIMS, b"dims: [0, 4611686018427387904, 4]", VALUES, b""),
            "has no elements, but its other lengths are beyond all memory",
        ),
        (
            changed(DIMS, b"dims: 1099511627776 dim_stride: 0", VALUES, b"value_i: 7"),
            "4398046511104 bytes of values to be repeated by strides",
        ),
        (changed(VALUES, b"random_data { distribution: CERTAIN }"), "CERTAIN is not reproduced"),
    ],
)
def test_broken_cases_are_told(tmp_path, text, message):
    with pytest.raises(CaseFileError, match=message) as caught:
        read_back(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path / "case.prototxt") + ":")


def test_missing_enums_are_noted_and_strictly_refused(tmp_path):
    text = changed(b"layout: LAYOUT_ARRAY dtype: DTYPE_FLOAT", b"")
    case = read_back(tmp_path, text)
    assert case.inputs[0].desc.dtype is DType.FLOAT
    assert case.notes[0] == "input 0 ('values'): no dtype, taken as DTYPE_FLOAT"
    assert case.notes[1] == "input 0 ('values'): no layout, taken as LAYOUT_ARRAY"
    with pytest.raises(CaseFileError, match="the dtype is missing"):
        read_back(tmp_path, text, strict=True)


def test_what_is_not_used_is_noted(tmp_path):
    text = PLAIN_TEXT + b"threshold_rate: 3 new_field: 1"
    notes = read_back(tmp_path, text).notes
    assert notes[0].startswith("not in the schema, skipped: field new_field (")
    assert notes[1] == "not used in judging: threshold_rate"


FOREIGN = b"""
op_name: "dcn_forward" op_type: DCN_FORWARD dcn_forward_param { groups: 1 }
input { id: "x" shape { dims: 2 } layout: LAYOUT_ARRAY dtype: DTYPE_FLOAT value_f: 1 }
input { id: "x" shape { dims: 2 } layout: LAYOUT_ARRAY dtype: DTYPE_INT8 random_data { seed: 1 } }
input { shape { dims: 2 } layout: LAYOUT_ARRAY dtype: DTYPE_FLOAT }
evaluation_criterion: DIFF9
device: GPU
"""


def test_a_case_of_an_operator_that_nobody_knows(tmp_path):
    case = read_back(tmp_path, FOREIGN)
    assert case.operator == "dcn_forward"
    assert [t.id for t in case.inputs] == ["x", "x_1", "input2"]
    assert case.inputs[0].data.tolist() == [1, 0]
    assert case.inputs[1].data is None
    assert any("int8 is drawn only with convert_dtype" in note for note in case.notes)
    assert case.params == {}


def test_of_an_operator_that_nobody_knows_no_criteria_are_judged_and_known_parameters_are_shown(tmp_path):
    text = b'op_name: "x" evaluation_criterion: SMAPE evaluation_threshold: inf output { id: "o" shape {} dtype: 2 }'
    case = read_back(tmp_path, text + PARAMETERS)
    ((criterion,),) = case.criteria
    assert criterion.kind is CriterionKind.SMAPE
    assert case.params == {"factor": 2, "pad": (1,)}


def test_all_optional_parameters_may_be_absent(tmp_path):
    optional = replace(TOY, params=replace(TOY.params, fields=(ParamField("kernel", 3, default=3),)))
    path = tmp_path / "c.prototxt"
    path.write_bytes(changed(PARAMETERS, b""))
    assert read_case(path, SCHEMA, Known([optional])).params == {"kernel": 3}


def test_a_name_that_is_no_case_file(tmp_path):
    with pytest.raises(CaseFileError, match=r"ends in .prototxt \(text\) or .pb \(binary\)"):
        read_back(tmp_path, PLAIN_TEXT, name="case.txt")
    with pytest.raises(CaseFileError, match="cannot be read: No such file"):
        read_case(tmp_path / "missing.pb", SCHEMA, KNOWN)
    (tmp_path / "folder.pb").mkdir()
    with pytest.raises(CaseFileError, match="not a regular file"):
        read_case(tmp_path / "folder.pb", SCHEMA, KNOWN)
