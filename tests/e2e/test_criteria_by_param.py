"""Criteria that follow a parameter: a toy operator whose factor 2 is held to 1 %, factor 3 to four units of a float."""

import json

import pytest

from tests.e2e.conftest import replace_in
from tests.support.toy_root import write_toy_root

CASES = """\
- {name: wide, tags: [boundary], doc: "§1", data: {recipe: noise, count: 9}}
- {name: sharp, tags: [boundary], doc: "§1", params: {factor: 3}, data: {recipe: noise, count: 9}}
- name: changed
  tags: [boundary]
  doc: "§1: sharp by its change alone"
  data: {recipe: noise, count: 9}
  change: {params: {factor: 3}}
- name: own
  tags: [boundary]
  doc: "§1: what a case names comes first"
  params: {factor: 3}
  criteria: {y: {diff1: 1.0e-2}}
  data: {recipe: noise, count: 9}
- {standard: sizes, base: sharp, around: [3]}
"""
OFF = """
from mluops_gtest import Status


class Backend:
    name = "off"

    def run(self, call):
        call.array("y")[...] = call.array("x") * (call.param("factor") * 1.0001)
        return Status.SUCCESS


backend = Backend()
"""
BY_PARAM = """CriteriaByParam("factor", {
        2: diff1_and_diff2(1e-2), 3: (Criterion(CriterionKind.DIFF3, 5e-7),),
    })"""
KERNEL = """    if {tensor.desc.dtype for tensor in (call.inputs["x"], call.outputs["y"])} != {DType.FLOAT}:
        return Status.BAD_PARAM
    if call.inputs["x"].null or call.outputs["y"].null:
        return Status.BAD_PARAM
"""
SHARP = {"sharp", "changed", "count_2", "count_3", "count_4"}


@pytest.fixture
def root(cli, tmp_path):
    folder = write_toy_root(tmp_path / "root", CASES)
    page = folder / "generators" / "scale_by.py"
    replace_in(page, "diff1_and_diff2(1e-6)", BY_PARAM)
    replace_in(page, "diff1_and_diff2, exact,", "diff1_and_diff2, Criterion, CriteriaByParam, CriterionKind, axis,")
    replace_in(page, "reference=reference", 'axes={"count": axis("N", of="x")}, reference=reference')
    replace_in(page, '    call.array("y")', KERNEL + '    call.array("y")')
    replace_in(page, "        *checks.pointers", '        checks.dtypes(doc="§1"),\n        *checks.pointers')
    (folder / "off.py").write_text(OFF)
    cli("generate", "--all", "--root", folder).expect_code(0)
    return folder


def outcomes(result):
    return {case.partition("/")[2].removesuffix(".prototxt"): one["outcome"] for case, one in result.results.items()}


@pytest.mark.parametrize("options", [[], ["--reseed", "3"]], ids=["stored", "reseeded"])
def test_cases_of_one_value_are_held_to_its_criteria(cli, run, root, options):
    assert run("--root", root, "--backend", "numpy", *options).code == 0
    found = outcomes(run("--root", root, "--backend", root / "off.py", *options))
    assert {case for case, outcome in found.items() if outcome == "failed"} == SHARP
    assert {case for case, outcome in found.items() if outcome == "passed"} == {"wide", "own"}
    assert cli("generate", "--all", "--check", "--root", root).code == 0
    assert cli("verify", "--all", "--root", root).code == 0


def test_a_file_without_criteria_gets_those_of_its_parameter(run, root, tmp_path):
    for name in ("wide", "sharp"):
        text = (root / "prototxt" / "scale_by" / f"{name}.prototxt").read_text()
        kept = [line for line in text.splitlines() if not line.startswith("evaluation_")]
        assert len(kept) < len(text.splitlines())
        (tmp_path / "team" / f"{name}.prototxt").parent.mkdir(exist_ok=True)
        (tmp_path / "team" / f"{name}.prototxt").write_text("\n".join(kept))
    result = run(tmp_path / "team", "--root", root, "--backend", root / "off.py")
    assert sorted(outcomes(result).values()) == ["failed", "passed"]


def test_pages_and_lists_say_them(cli, root):
    words = "float: diff1 ≤ 0.01, diff2 ≤ 0.01 with factor 2, diff3 ≤ 5e-07 with factor 3"
    assert words in cli("ops", "scale_by", "--page", "--root", root).expect_code(0).out
    assert "diff3 ≤ 5e-07" in cli("show", "scale_by/changed", "--root", root).expect_code(0).out
    listed = json.loads(cli("list", "--format", "json", "--root", root).expect_code(0).out)
    kinds = {one["id"].partition("/")[2]: {each["criterion"] for each in one["criteria"]} for one in listed}
    assert kinds == {**{key: {"diff3"} for key in SHARP}, "wide": {"diff1", "diff2"}, "own": {"diff1"}}


def test_a_smaller_case_has_the_criteria_of_its_own_parameters(cli, run, root, tmp_path):
    replace_in(root / "off.py", "1.0001", "1.5")
    small = tmp_path / "small.prototxt"
    cli("minimise", "scale_by/sharp", "-b", root / "off.py", "--root", root, "--out", small).expect_code(0)
    # A plainer factor does as well; it has no criteria of its own, so the first ones hold.
    assert "factor: 1" in small.read_text()
    assert "evaluation_criterion: DIFF1" in small.read_text()
    assert set(outcomes(run(small, "--root", root, "--backend", "numpy")).values()) == {"passed"}


def test_drawn_calls_are_held_to_them(cli, root):
    options = ("--root", root, "--cases", "150", "--no-isolate")
    cli("fuzz", "--op", "scale_by", "--backend", "numpy", *options).expect_code(0)
    found = cli("fuzz", "--op", "scale_by", "--backend", root / "off.py", *options)
    assert found.code != 0
    assert "diff3" in found.out
    assert "diff1" not in found.out


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('CriteriaByParam("factor"', 'CriteriaByParam("facto"', "by the unknown parameter 'facto'. Did you mean"),
        ("2: diff1_and_diff2(1e-2)", "2: ()", "has no criteria for float."),
    ],
)
def test_slips_of_authors(cli, root, old, new, message):
    replace_in(root / "generators" / "scale_by.py", old, new)
    cli("list", "--root", root).expect_error(3, "scale_by.py:", message)
