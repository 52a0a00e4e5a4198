"""`mluops-test compare`: two sets of results as a person sees them, and the exit code when told to gate."""

import json

import pytest

from mluops_gtest.core.result import Perf
from tests.e2e.conftest import wrong
from tests.support.reports import report, result, written

SELECT = ("--op", "voxel_pooling_forward", "--tag", "smoke")
CASE = "voxel_pooling_forward/order_of_axes"


@pytest.fixture(scope="module")
def exact(run_once):
    return run_once(*SELECT, "--backend", wrong("Exact"), "--no-isolate")


@pytest.fixture(scope="module")
def zero(run_once):
    return run_once(*SELECT, "--backend", wrong("AllZero"), "--no-isolate", code=1)


def test_differences_are_shown_and_do_not_fail(cli, exact, zero):
    result = cli("compare", exact, zero).expect_code(0)
    assert result.lines[0].startswith("A  Exact, ")
    assert result.lines[1].startswith("B  AllZero, ")
    (line,) = [line for line in result.lines if line.startswith(CASE)]
    assert "passed" in line
    assert "failed" in line
    assert "output_features diff1 0 → " in line


@pytest.mark.parametrize(
    ("before", "after", "code"), [("exact", "zero", 1), ("zero", "exact", 0), ("exact", "exact", 0)]
)
def test_told_to_gate_worse_fails(cli, request, before, after, code):
    cli("compare", request.getfixturevalue(before), request.getfixturevalue(after), "--gate").expect_code(code)


def test_told_to_gate_a_missing_case_fails(cli, exact, run):
    one = run(CASE, "--backend", wrong("Exact"), "--no-isolate").folder
    assert cli("compare", exact, one, "--gate").code == 1
    assert cli("compare", one, exact, "--gate").code == 0


def test_the_same_twice_names_no_case_unless_all_are_asked_for(cli, exact):
    assert CASE not in cli("compare", exact, exact).out
    result = cli("compare", exact, exact, "--all")
    (line,) = [line for line in result.lines if line.startswith(CASE)]
    assert line.split()[1:3] == ["passed", "passed"]
    assert "0 differ in outcome or readings, 0 are worse in B" in result.lines[-1]


def test_nothing_to_compare(cli, tmp_path, exact):
    record = json.loads((exact / "report.json").read_text())
    (tmp_path / "empty.json").write_text(json.dumps({**record, "results": [], "summary": {}}))
    assert cli("compare", tmp_path / "empty.json", tmp_path / "empty.json", "--gate").code == 5


def test_json(cli, exact, zero):
    document = json.loads(cli("compare", exact, zero, "--format", "json").out)
    assert CASE in document["worse"]
    assert (document["before"]["backend"]["name"], document["after"]["backend"]["name"]) == ("Exact", "AllZero")


@pytest.mark.parametrize(
    ("before", "after", "ratio"),
    [
        ({"seconds": 0.0004}, {"seconds": 0.0008}, "too short"),
        ({"seconds": 0.5}, {"seconds": 1.0}, "2.00"),
        ({"perf": Perf((10_000,) * 5)}, {"perf": Perf((20_000,) * 5)}, "2.00"),
        ({"perf": Perf((10_000,) * 5, overhead_ns=1_500)}, {"perf": Perf((20_000,) * 5)}, "2.00"),
        ({"perf": Perf((10_000,) * 5, overhead_ns=2_500)}, {"perf": Perf((20_000,) * 5)}, "too short"),
    ],
)
def test_a_ratio_of_short_calls_is_not_told(cli, tmp_path, before, after, ratio):
    folders = [
        written(tmp_path / name, report(result("a", **one))) for name, one in (("before", before), ("after", after))
    ]
    shown = cli("compare", *folders, "--all")
    rows = [line for line in shown.lines if line.startswith(("op ", "op/a"))]
    assert [ratio in row for row in rows] == [True, True]
    document = json.loads(cli("compare", *folders, "--format", "json").out)
    assert document["cases"][0]["too_short"] is (ratio == "too short")


def test_an_operator_is_compared_by_its_longer_cases(cli, tmp_path):
    folders = [
        written(tmp_path / f"run-{n}", report(result("a", seconds=0.0003 * n), result("b", seconds=0.5)))
        for n in (1, 2)
    ]
    (row,) = (line for line in cli("compare", *folders).lines if line.startswith("op "))
    assert row.split()[-3:] == ["0.500", "0.500", "1.00"]
