"""`run --arbitrate`: disputed elements recomputed exactly, and who is right."""

import json
from copy import deepcopy
from dataclasses import replace

import pytest

from mluops_gtest.casefiles.schema import Schema
from mluops_gtest.casefiles.writer import write_case
from mluops_gtest.catalog.selection import Session
from mluops_gtest.core.tensor import exact
from mluops_gtest.judging import arbitration
from tests.e2e.conftest import called, only, wrong
from tests.support.toy_root import GENERATOR

CASE = "voxel_pooling_forward/order_of_axes"
POOLED = "output_features"
EXACT = """
from fractions import Fraction

from mluops_gtest.authoring.exact_numbers import fraction


def elements(call):
    return {"y": lambda place: fraction(call.array("x")[place]) * call.param("factor")}
"""
WRONG_KERNEL = GENERATOR.replace('* np.float32(call.param("factor"))', '* np.float32(call.param("factor")) + 1')
WRONG_REFERENCE = GENERATOR.replace('* call.param("factor")).astype', '* call.param("factor") + 1).astype')


@pytest.fixture(scope="module")
def case():
    session = Session()
    return session.source((session.select_one(CASE),)).load(CASE)


@pytest.fixture
def file_with(case, tmp_path):
    """A file of the user's with other baselines, changed in place by `change(output)`."""

    def make(change, output=POOLED):
        operators = Session().catalogue.operators
        outputs = []
        for tensor in case.outputs:
            data = tensor.data.copy()
            if tensor.id == output:
                change(data)
            outputs.append(replace(tensor, data=data))
        path = tmp_path / "theirs.prototxt"
        operator = operators[case.operator]
        write_case(replace(case, outputs=tuple(outputs)), operator, path, Schema.of([operator]))
        return path

    return make


@pytest.fixture(scope="module")
def disputed(tmp_path_factory):
    """A run with one wrong element."""
    folder = tmp_path_factory.mktemp("disputed") / "results"
    options = ("--backend", wrong("OneElementWrong"), "--arbitrate", "--no-isolate", "--out", folder)
    result = called("run", CASE, *options).expect_code(1)
    result.report = json.loads((folder / "report.json").read_text())
    result.folder = folder
    return result


def test_a_wrong_backend_is_named_with_the_exact_value(disputed):
    (case,) = disputed.report["results"]
    assert case["outcome"] == "failed"
    (found,) = case["arbitrated"]
    assert (found["output"], found["disputed"], found["baseline"], found["backend"]) == (POOLED, 1, 1, 0)
    assert found["backend_error"] == 1
    assert found["baseline_ulp"] <= 0.5
    (example,) = found["examples"]
    assert example["right"] == "baseline"
    assert float(example["exact"]) == pytest.approx(float(example["baseline"]))
    assert (
        f"exact:  {POOLED}, 1 disputed element: the baseline is right at it; the backend is off by up to 1 ("
        in disputed.out
    )
    assert "arbitrated 1 disputed element of 1 output recomputed exactly: the baseline is right at it" in disputed.out
    assert "--arbitrate" in case["repro"]


def test_every_report_tells_it(disputed, cli):
    for form in ("text", "markdown", "html"):
        assert "the baseline is right at it" in cli("report", disputed.folder, "--format", form).out, form
    assert "基准值正确的有 1 个" in cli("report", disputed.folder, "--format", "markdown", "--lang", "zh").out


def test_a_wrong_baseline_in_a_file_is_an_error_of_the_file(run, file_with):
    path = file_with(lambda data: data.__setitem__(3, 7.5))
    case = only(run(path, "--arbitrate").expect_code(3))
    assert (case["outcome"], case["content_error"], case["bug"]) == ("error", True, False)
    assert [cause["kind"] for cause in case["causes"]] == ["baseline_wrong", "exceeded"]
    assert case["reason"].startswith(f"the baseline in the file is wrong: {POOLED}[0, 0, ")
    assert case["arbitrated"][0]["backend"] == 1


def test_without_the_option_such_a_file_is_taken_at_its_word(run, file_with):
    case = only(run(file_with(lambda data: data.__setitem__(3, 7.5))).expect_code(1))
    assert "arbitrated" not in case


def test_an_integer_is_settled_too(run, file_with):
    case = only(run(file_with(lambda data: data.__setitem__(1, 9), "pos_memo"), "--arbitrate").expect_code(3))
    (found,) = case["arbitrated"]
    assert (found["output"], found["backend"], found["has_ulp"]) == ("pos_memo", 1, False)


def test_neither_may_be_right(run, case, file_with):
    middle = case.outputs[0].data.size // 2
    path = file_with(lambda data: data.__setitem__(middle, data[middle] + 5))
    result = run(path, "--arbitrate", "--backend", wrong("OneElementWrong"), "--no-isolate")
    (found,) = next(iter(result.results.values()))["arbitrated"]
    assert (found["neither"], found["backend_error"], found["baseline_error"]) == (1, 1, 5)
    result.expect_output(3, "neither is right at it")


def test_not_finite_elements_follow_their_rule(run, file_with):
    result = run(file_with(lambda data: data.__setitem__(0, float("nan"))), "--arbitrate")
    (case,) = result.results.values()
    (found,) = case["arbitrated"]
    assert (found["backend"], found["baseline_error"], result.code) == (1, "inf", 3)
    assert "the baseline by ∞" in result.out


def test_a_baseline_that_another_kernel_rounded_is_right(run, file_with):
    """A file may hold what any right kernel computed."""

    def rounded(data):
        data[:] *= 1 + 2**-24

    assert run(file_with(rounded), "--arbitrate").code == 0


def test_a_result_that_is_no_tensor_is_settled_too(run):
    case = "get_indice_pairs/all_slots_valid_kernel_1"
    result = run(case, "--backend", wrong("WrongScalars"), "--arbitrate", "--no-isolate").expect_code(1)
    found = {one["output"]: one for one in result.results[case]["arbitrated"]}
    assert found["num_act_out"]["baseline"] == 1
    assert found["num_act_out"]["backend_error"] == 1
    assert found["num_act_out"]["examples"][0]["index"] == []


def test_both_may_be_right_where_criteria_are_sharper_than_arithmetic(run, tmp_path):
    """Full mantissas, summed in another order than the baseline, and a file that asks for equal bits."""
    session = Session()
    name = "voxel_pooling_forward/precision_full"
    case, operator = (
        session.source((session.select_one(name),)).load(name),
        session.catalogue.operators["voxel_pooling_forward"],
    )
    path = tmp_path / "sharp.prototxt"
    write_case(replace(case, criteria=(exact(), exact())), operator, path, Schema.of([operator]))
    result = run(path, "--arbitrate").expect_code(1)
    (result_of,) = result.results.values()
    (found,) = result_of["arbitrated"]
    assert found["both"] == found["disputed"] > 1
    assert f"both are within what arithmetic allows at all {found['both']}" in result.out
    assert found["baseline_ulp"] <= 0.5 < found["backend_ulp"]


def test_a_call_that_computes_nothing_has_nothing_to_arbitrate(run):
    case = "voxel_pooling_forward/handle_null"
    result = run(case, "--arbitrate", "--backend", wrong("WritesOnFailure"), "--no-isolate").expect_code(1)
    assert "arbitrated" not in result.results[case]


def test_a_passing_run_asks_nobody(run, monkeypatch):
    monkeypatch.setattr(arbitration, "Arbiter", None)
    result = run(CASE, "--backend", wrong("OneUlpOff"), "--arbitrate", "--no-isolate", "--no-elementwise").expect_code(
        0
    )
    assert "arbitrated" not in result.out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"baseline": 0}, "0 of 1 elements cannot be examined"),
        ({"neither": 1}, "2 of 1 elements cannot be examined"),
        ({"disputed": -1}, "disputed: expected an integer >= 0, got -1"),
        ({"examples": []}, "0 examples of 1"),
        ({"backend_error": "nan"}, "errors must be ≥ 0"),
    ],
)
def test_a_record_that_cannot_be_is_refused(disputed, cli, tmp_path, change, message):
    report = deepcopy(disputed.report)
    report["results"][0]["arbitrated"][0] |= change
    (tmp_path / "report.json").write_text(json.dumps(report))
    cli("report", tmp_path / "report.json", "--format", "text").expect_error(3, message)


class TestAnotherRoot:
    def test_a_wrong_reference_of_a_declared_case_is_a_bug(self, cli, run, toy_with):
        root = toy_with(exact=EXACT, __init__=WRONG_REFERENCE)
        result = run("scale_by/ramp_3", "--root", root, "--arbitrate").expect_code(70)
        case = result.results["scale_by/ramp_3"]
        assert (case["outcome"], case["bug"]) == ("error", True)
        assert case["causes"][0] | {"baseline": ""} == {
            "kind": "baseline_wrong",
            "output": "y",
            "elements": 3,
            "examined": 3,
            "index": [0],
            "exact": "2.0",
            "baseline": "",
            "ours": True,
        }
        assert (
            "the reference is wrong: y[0] is exactly 2.0, and the baseline says 3.0 (3 of 3 disputed elements)"
            in result.out
        )
        assert json.loads((result.folder / "results.jsonl").read_text().splitlines()[0])["arbitrated"]

    def test_an_operator_that_does_not_say_what_its_elements_are(self, run, toy_with):
        case = only(run("scale_by/ramp_3", "--root", toy_with(__init__=WRONG_KERNEL), "--arbitrate").expect_code(1))
        assert case["notes"] == ["not arbitrated: the operator has no `exact`, which says what one element is"]

    def test_a_definition_that_fails_costs_the_arbitration_alone(self, run, toy_with):
        broken = EXACT.replace("fraction(call", "fraction(1 / 0 + call")
        case = only(
            run("scale_by/ramp_3", "--root", toy_with(__init__=WRONG_KERNEL, exact=broken), "--arbitrate").expect_code(
                1
            )
        )
        assert "not arbitrated: " in case["notes"][0]
        assert "ZeroDivisionError" in case["notes"][0]
