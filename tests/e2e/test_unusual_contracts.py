"""Contracts that few operators have: a toy operator with all of them, and backends that break one each."""

import json
import re
import shlex
import sys

import pytest

from tests.e2e.conftest import replace_in
from tests.support.positive_rows import write_positive_rows

CASES = ("mixed", "nothing", "rank", "sharp")
# The operator as a program: what a file held before the call, or what fills it, stays where nothing is written.
PROGRAM = """
import json, sys
from pathlib import Path
import numpy as np
folder = Path(sys.argv[1])
tensors = {tensor["id"]: tensor for tensor in json.loads((folder / "call.json").read_text())["tensors"]}
if len(tensors["x"]["descriptor"]["dims"]) == 1:
    x = np.fromfile(folder / "x.in", "<f4")
    found = np.flatnonzero(x > 0)
    answer = {"packed": x[found] / np.float32(3), "place": np.arange(len(found)), "count": [len(found)]}
    for name, values in answer.items():
        tensor = tensors[name]
        file, kind = folder / tensor["data"], "<f4" if name == "packed" else "<i4"
        filling = bytes.fromhex(tensor.get("fill", "")) * (tensor["bytes"] // 4)
        array = np.frombuffer(filling or (file.read_bytes() if tensor["bytes"] else b""), kind).copy()
        array[found if name == "place" else slice(len(values))] = values
        array.tofile(file)
status = 0 if len(tensors["x"]["descriptor"]["dims"]) == 1 else 3
(folder / "result.json").write_text(json.dumps({"status": status}))
"""


@pytest.fixture
def root(cli, tmp_path):
    folder = write_positive_rows(tmp_path / "root")
    for selection in (["--all"], ["--tag", "heavy"]):
        cli("generate", *selection, "--root", folder).expect_code(0)
    return folder


@pytest.fixture
def outcomes(run, root):
    def call(name, *options):
        result = run("--root", root, "--backend", f"{root / 'backends.py'}:{name}", *options)
        found = {case.partition("/")[2]: one for case, one in result.results.items()}
        return {case: (one["outcome"], one["reason"], one["notes"]) for case, one in found.items()}

    return call


@pytest.mark.parametrize("backend", ["numpy", "reference"])
def test_it_runs_and_is_verified(cli, run, root, backend):
    assert run("--root", root, "--backend", backend).code == 0
    assert cli("verify", "--all", "--root", root).code == 0
    assert cli("generate", "--all", "--check", "--root", root).code == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Backend", "LiftsNegatives", "WritesBehindTheCount"])
@pytest.mark.parametrize("options", [[], ["--repeat", "2"], ["--guard-pages"]], ids=["once", "twice", "guard-pages"])
def test_what_the_operator_allows_passes(outcomes, name, options):
    assert {case: one[0] for case, one in outcomes(name, *options).items()} == dict.fromkeys(CASES, "passed")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "element"), [("LiftsSomeNegatives", {"sharp": 0}), ("ChangesAPositive", {"mixed": 1, "sharp": 1})]
)
def test_any_other_change_of_an_input_that_may_change_is_a_fault(outcomes, name, element):
    found = outcomes(name)
    for case, index in element.items():
        assert found[case][:2] == ("memory", f"changed the input x (element {index})")


def test_where_the_count_is_wrong_no_rows_are_compared_by_it(outcomes):
    outcome, reason, notes = outcomes("MiscountsByOne")["mixed"]
    assert outcome == "failed"
    assert reason.startswith("count: diff3 = ")
    assert "packed" not in reason
    assert "packed is not compared, because count is wrong" in notes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "case", "reason"),
    [
        ("LeavesTheCount", "nothing", "(?=.*count)(?=.*written)"),
        ("WritesPreservedRows", "mixed", "place: diff3 = "),
        ("LeavesPlaces", "mixed", "place: 1 of 5 elements"),
        ("WritesWhenRefusing", "rank", ".*place"),
        ("IsALittleOff", "sharp", ".*diff3"),
    ],
    ids=[
        "an early success owes its outputs",
        "preserved rows stay as the caller preset them",
        "all other rows are written",
        "a call that is refused writes nothing, not even the preset",
        "criteria of a case decide that case alone",
    ],
)
def test_a_broken_contract_fails_its_case(outcomes, name, case, reason):
    found = outcomes(name)
    assert found[case][0] == "failed"
    assert re.match(reason, found[case][1])
    assert case == "mixed" or found["mixed"][0] == "passed"


def test_the_released_runner_gets_an_early_success_that_writes_as_a_case_that_computes(cli, root, tmp_path):
    assert cli("export", "--root", root, "--out", tmp_path / "released").code == 0
    index = json.loads((tmp_path / "released" / "index.json").read_text())
    assert "positive_rows/nothing" in [entry["id"] for entry in index["cases"]]
    left_out = {entry["id"].partition("/")[2]: entry["reason"] for entry in index["left_out"]}
    assert list(left_out) == ["mixed", "sharp", "rank"]
    for case in ("mixed", "sharp"):
        assert "all rows of packed, also those behind count" in left_out[case]
    assert cli("run", tmp_path / "released", "--root", root).code == 0


@pytest.mark.slow
@pytest.mark.parametrize("change", ["", "place left out"])
def test_a_program_finds_preserved_rows_in_the_file_of_the_output(run, root, change):
    program = root / "program.py"
    program.write_text(PROGRAM.replace('"place": np.arange(len(found)), ', "") if change else PROGRAM)
    result = run("--root", root, "--backend", f"exec:{shlex.quote(sys.executable)} {program}")
    found = {case.partition("/")[2]: one["outcome"] for case, one in result.results.items()}
    assert found == dict.fromkeys(CASES, "passed") | (dict.fromkeys(("mixed", "sharp"), "failed") if change else {})


class TestCriteriaOfACase:
    @pytest.mark.parametrize(
        ("criteria", "message"),
        [
            ("{pack: {diff3: 0}}", "unknown key 'pack'. Did you mean 'packed'?"),
            ("{count: {diff3: 0}}", "unknown key 'count'"),
            ("{packed: {diff8: 0}}", "unknown key 'diff8'"),
            ("{packed: {nrmse: 0}}", "unknown key 'nrmse'"),
            ("{packed: {diff1: -1}}", "diff1 of packed must be a number ≥ 0, not -1"),
            ("{packed: {diff1: .nan}}", "diff1 of packed must be a number ≥ 0"),
            ("{packed: {}}", "packed needs at least one criterion"),
            ("[packed]", "criteria must be a mapping"),
        ],
    )
    def test_mistakes(self, cli, root, criteria, message):
        replace_in(root / "cases" / "positive_rows.yaml", "{packed: {diff3: 1.0e-6}}", criteria)
        cli("list", "--root", root).expect_error(3, "positive_rows.yaml:8: case 'sharp': ", message)

    @pytest.mark.slow
    def test_other_criteria_need_no_new_cache(self, cli, run, root):
        """What a case is held to comes from its declaration, whatever a file that was made earlier says."""
        replace_in(root / "cases" / "positive_rows.yaml", "diff3: 1.0e-6", "diff3: 1.0e-3")
        stale = run("positive_rows/sharp", "--root", root).expect_code(3)
        assert "has changed since it was generated" in stale.results["positive_rows/sharp"]["reason"]
        assert cli("generate", "--all", "--root", root).code == 0
        backend = f"{root / 'backends.py'}:IsALittleOff"
        assert run("positive_rows/sharp", "--root", root, "--backend", backend).code == 0


class TestHeavy:
    def test_only_its_tag_or_its_id_selects_it(self, cli, root):
        def listed(*selection):
            result = cli("list", "--root", root, "--format", "ids", *selection)
            return result.lines if result.code == 0 else []

        assert "positive_rows/large" not in listed() + listed("--all") + listed("--tag", "boundary", "--tag", "smoke")
        assert "positive_rows/large" not in listed("positive_rows") + listed("positive_rows/*")
        assert listed("--tag", "heavy") == listed("positive_rows/large") == ["positive_rows/large"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('rows_owned="count"', 'rows_owned="cont"', "neither a result nor another output. Did you mean 'count'?"),
        ("preset=-1, kept", "kept", "keeps what nobody presets"),
        ('not_empty("x", "§1", writes', 'not_empty("x", "§1", Status.BAD_PARAM, writes', "A call that is refused"),
    ],
)
def test_slips_of_authors(cli, root, old, new, message):
    replace_in(root / "generators" / "positive_rows.py", old, new)
    cli("list", "--root", root).expect_error(3, "positive_rows.py:", message)
