"""A call as a folder: what the files say, and that they never say the answer."""

import json
from dataclasses import replace

import numpy as np
import pytest

from mluops_gtest.casefiles.reader import read_case
from mluops_gtest.casefiles.schema import Schema
from mluops_gtest.casefiles.writer import CallFolderWriter, call_lines, call_to_json
from mluops_gtest.core.buffers import bind, has_buffer
from mluops_gtest.core.call import Handle, OpCall, Status, TensorArg
from mluops_gtest.core.tensor import DType, Layout, TensorDesc


def described(dtype, dims, strides=None, layout=Layout.ARRAY, array=None, null=False):
    return TensorArg(TensorDesc(dtype, layout, dims, strides), array, null)


@pytest.fixture
def call():
    """One of everything."""
    return OpCall(
        "some_op",
        {"kernel": 3, "scale": 0.5, "on": True, "pad": (0, 1), "host": None, "word": "null", "none": ()},
        inputs={
            "plain": described(DType.HALF, (2, 1), array=np.array([[1], [2]], "<f2"), layout=Layout.NC),
            "strided": described(DType.INT32, (2, 2), (3, 1), array=np.array([[1, 2], [3, 4]], "<i4")),
            "missing": None,
            "zero": described(DType.FLOAT, (4,), null=True),
            "huge": described(DType.FLOAT, (2**31, 2**31)),
            "empty": described(DType.FLOAT, (0, 3), array=np.empty((0, 3), "<f4")),
        },
        outputs={
            "memo": described(DType.INT32, (2,), array=np.full(2, -1, "<i4")),
            "lost": None,
            "bare": described(DType.FLOAT, (2**32,)),
            "nothing": described(DType.FLOAT, (0,), array=np.empty(0, "<f4")),
        },
        handle=Handle(270, 1000),
        workspace_size=64,
        device=1,
    )


def test_call_json_carries_all_that_the_call_has(call):
    def desc(dtype, dims, strides=None, layout="ARRAY"):
        return {"dtype": dtype, "layout": layout, "dims": dims, "strides": strides}

    description = json.loads(json.dumps(call_to_json(call)))
    assert description == {
        "format": 1,
        "operator": "some_op",
        "handle": {"arch": 270, "nram_bytes": 1000},
        "device": 1,
        "workspace": {"size": 64, "null": True},
        "params": {
            "kernel": 3, "scale": 0.5, "on": True, "pad": [0, 1], "host": None, "word": "null", "none": [],
        },
        "tensors": [
            {"id": "plain", "role": "input", "descriptor": desc("half", [2, 1], None, "NC"), "data": "plain.in",
             "bytes": 4},
            {"id": "strided", "role": "input", "descriptor": desc("int32", [2, 2], [3, 1]), "data": "strided.in",
             "bytes": 20},
            {"id": "missing", "role": "input", "descriptor": None, "data": "none"},
            {"id": "zero", "role": "input", "descriptor": desc("float", [4]), "data": "null"},
            {"id": "huge", "role": "input", "descriptor": desc("float", [2**31, 2**31]), "data": "none"},
            {"id": "empty", "role": "input", "descriptor": desc("float", [0, 3]), "data": "empty.in", "bytes": 0},
            {"id": "memo", "role": "output", "descriptor": desc("int32", [2]), "data": "memo.out",
             "bytes": 8, "fill": "ffffffff"},
            {"id": "lost", "role": "output", "descriptor": None, "data": "none"},
            {"id": "bare", "role": "output", "descriptor": desc("float", [2**32]), "data": "none"},
            {"id": "nothing", "role": "output", "descriptor": desc("float", [0]), "data": "nothing.out", "bytes": 0},
        ],
        "scalars": {},
    }  # fmt: skip


def test_call_txt_says_the_same_in_lines(call):
    assert list(call_lines(call_to_json(call))) == [
        "format 1",
        "operator some_op",
        "handle 270 1000",
        "device 1",
        "workspace 64 null",
        "param kernel 3",
        "param scale 0.5",
        "param on 1",
        "param pad 0 1",
        "param host null",
        'param word "null"',
        "param none",
        "input plain half NC plain.in 4 2 2 1",
        "input strided int32 ARRAY strided.in 20 2 2 2",
        "strides strided 3 1",
        "input missing absent",
        "input zero float ARRAY null 0 1 4",
        "input huge float ARRAY none 0 2 2147483648 2147483648",
        "input empty float ARRAY empty.in 0 2 0 3",
        "output memo int32 ARRAY memo.out 8 1 2",
        "fill memo ffffffff",
        "output lost absent",
        "output bare float ARRAY none 0 1 4294967296",
        "output nothing float ARRAY nothing.out 0 1 0",
    ]


def test_null_handle_params_and_no_device(call):
    bare = replace(call, handle=None, params=None, device=None, workspace=np.zeros(64, np.uint8), inputs={}, outputs={})
    description = call_to_json(bare)
    assert (description["handle"], description["params"], description["device"]) == (None, None, None)
    assert description["workspace"] == {"size": 64, "null": False}
    lines = ["format 1", "operator some_op", "handle null", "device none", "workspace 64 given", "params null"]
    assert list(call_lines(description)) == lines


def test_an_output_that_is_preset_in_part_is_there_before_the_call(catalogue, load_case, writer, tmp_path):
    case = load_case("ball_query/empty_rows_between_full_ones_float")
    operator = catalogue.operators["ball_query"]
    idx = np.full(case.outputs[0].desc.dims, -1515870811, "<i4")
    idx[0, 1] = 0
    inputs = {tensor.id: tensor.values for tensor in case.inputs}
    call = bind(case, operator, inputs, {"idx": idx}, None)
    assert "fill" not in call_to_json(call)["tensors"][-1]
    assert not [line for line in call_lines(call_to_json(call)) if line.startswith("fill")]
    files = writer.write(call, tmp_path)
    np.testing.assert_array_equal(np.fromfile(files["idx"], "<i4"), idx.reshape(-1))


@pytest.fixture(scope="module")
def some_cases(catalogue, load_case):
    """Of every operator some that compute and many of those with a special caller, spread over the declarations."""
    ids = []
    for operator in catalogue.operators:
        for tag, most in (("random", 3), ("negative", 30)):
            known = [d.id for d in catalogue.drafts.values() if d.operator == operator and tag in d.tags]
            ids += known[:: max(1, len(known) // most)]
    return [load_case(case_id) for case_id in ids]


@pytest.fixture(scope="module")
def writer(catalogue):
    return CallFolderWriter(catalogue.operators)


def buffers_of(case):
    def buffer(tensor):
        return tensor.desc.view(np.full(tensor.desc.extent, 7, tensor.desc.dtype.storage))

    inputs = {t.id: buffer(t) if t.data is None else t.values for t in case.inputs if has_buffer(case, t)}
    outputs = {t.id: buffer(t) for t in case.outputs if has_buffer(case, t)}
    return inputs, outputs, np.zeros(1, np.uint8) if case.expect.workspace_size else None


@pytest.mark.slow
def test_the_case_makes_the_same_call_again(writer, catalogue, some_cases, tmp_path):
    """Nulls, old devices, sizes and strides included; only a tensor without values cannot be read back."""
    schema = Schema.of(catalogue.operators.values())
    seen = set()
    for number, case in enumerate(some_cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        operator = catalogue.operators[case.operator]
        buffers = buffers_of(case)
        call = bind(case, operator, *buffers)
        assert writer.write(call, folder) == {
            name: folder / f"{name}.out"
            for name, arg in call.outputs.items()
            if arg is not None and arg.array is not None
        }
        for name, arg in call.inputs.items():
            if arg is not None and arg.array is not None:
                flat = np.fromfile(folder / f"{name}.in", arg.dtype.storage)
                assert arg.desc.view(flat).tobytes() == arg.array.tobytes()
        args = [arg for arg in (*call.inputs.values(), *call.outputs.values()) if arg is not None]
        if any(arg.array is None and not arg.null for arg in args):
            continue
        again = read_case(folder / "case.pb", schema, catalogue.operators)
        # As text, in which NaN equals NaN.
        assert json.dumps(call_to_json(bind(again, operator, *buffers))) == json.dumps(call_to_json(call)), case.id
        for tensor in again.inputs:
            arg = call.outputs[tensor.becomes] if tensor.becomes else call.inputs[tensor.id]
            if arg is not None and arg.array is not None:
                assert tensor.values.tobytes() == arg.array.tobytes()
        assert not again.baseline_stored
        seen |= {
            name for name in ("null_handle", "null_pointer", "null_descriptor", "arch") if getattr(case.expect, name)
        }
    assert seen == {"null_handle", "null_pointer", "null_descriptor", "arch"}


@pytest.mark.slow
def test_the_folder_does_not_depend_on_the_answer(writer, catalogue, some_cases, tmp_path):
    """Another expected status, another check, other baselines, other scalar results: the same bytes."""
    for number, case in enumerate(some_cases[::3]):
        operator = catalogue.operators[case.operator]
        buffers = buffers_of(case)
        other = replace(
            case,
            expect=replace(case.expect, status=Status.EXECUTION_FAILED, check="made_up", degenerate="no reason"),
            outputs=tuple(replace(t, data=None) for t in case.outputs),
            params={name: value for name, value in case.params.items() if name not in operator.results},
            criteria=(None,) * len(case.outputs),
        )
        found = []
        for which, one in enumerate((case, other)):
            folder = tmp_path / f"{number}-{which}"
            folder.mkdir()
            writer.write(bind(one, operator, *buffers), folder)
            found.append({path.name: path.read_bytes() for path in folder.iterdir()})
        assert found[0] == found[1]
        assert {"call.json", "call.txt", "case.pb"} <= set(found[0])
        # What an output holds before the call is no answer.
        held = {f"{output}.out" for output in operator.initial_contents}
        assert {name for name in found[0] if name.endswith(".out")} <= held


def test_the_file_of_a_strided_input_is_its_whole_buffer(writer, catalogue, load_case, tmp_path):
    case = load_case("masked_im2col_forward/feature_strided_gap")
    desc = case.inputs[0].desc
    inputs, *others = buffers_of(case)
    buffer = np.arange(desc.extent).astype(desc.dtype.storage)
    inputs["feature"] = desc.view(buffer)
    writer.write(bind(case, catalogue.operators[case.operator], inputs, *others), tmp_path)
    written = np.fromfile(tmp_path / "feature.in", desc.dtype.storage)
    assert desc.extent > desc.count
    assert written.tolist() == buffer.tolist()
