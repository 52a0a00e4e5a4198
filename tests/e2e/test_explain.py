"""`mluops-test explain`, and what a run says of its failures by itself."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import backends_in, called
from tests.support.toy_root import GENERATOR, write_toy_root

scaled = backends_in("scaled_backends")
HEADLINE = "scale_by: y[6:] is scaled by 0.5, when N ≥ 7 (10 of 10)"


@pytest.fixture(scope="module")
def failed(ramps, tmp_path_factory):
    """Results of a backend that halves all elements from the seventh on."""
    folder = tmp_path_factory.mktemp("failed") / "results"
    result = called("run", "--root", ramps, "--backend", scaled("tail"), "--no-isolate", "--out", folder)
    result.folder = folder
    return result


def test_a_run_says_where_how_and_when(failed):
    assert failed.code == 1
    assert HEADLINE in failed.lines
    assert "  fails when N ≥ 7 (10 of 10), passes when N ≤ 6 (5)" in failed.lines


def test_explain_says_it_again_from_the_files(failed, cli):
    told = cli("explain", failed.folder).expect_code(0)
    assert told.lines[0] == HEADLINE
    assert "  in scale_by/ramp_9: y[6:] is scaled by 0.5" in told.lines, "one that tells it of itself"
    assert "    y[6] = 7.0, expected 14.0" in told.lines
    assert told.lines[-1] == "10 cases failed, for 1 cause"
    assert cli("explain", failed.folder / "report.json", "--op", "scale_by").lines == told.lines


def test_explain_speaks_chinese(failed, cli):
    told = cli("explain", failed.folder, "--lang", "zh")
    assert told.lines[0].startswith("scale_by：y[6:] 为正确值的 0.5 倍；当 N ≥ 7 时（10/10）")
    assert "    y[6] = 7.0，应为 14.0" in told.lines
    assert told.lines[-1] == "10 个用例失败，1 个原因"
    assert not any(word in told.out for word in ("cases", "expected", "wrong"))


def test_an_operator_that_did_not_run_is_suggested(failed, cli):
    cli("explain", failed.folder, "--op", "scale_bi").expect_error(5, "Did you mean", "scale_by")


def test_results_without_failures_have_nothing_to_explain(run, cli, toy):
    passed = run("--root", toy)
    assert cli("explain", passed.folder).lines == ["Nothing failed in these results."]
    assert not any("explained" in result for result in passed.results.values())
    assert "shapes" not in passed.report


def test_the_history_remembers_causes(failed, cli):
    assert cli("history", "causes").code == 2
    assert cli("history", "add", failed.folder).code == 0
    (head, row) = cli("history", "causes").lines
    assert head.split() == ["cause", "cases", "first", "seen", "last", "seen", "over", "runs"]
    assert row.startswith(HEADLINE)
    assert " 10 " in row


SPOILED = {
    ".dims": lambda one: one.update(dims=[-1]),
    ".wrong": lambda one: one.update(wrong=99),
    ".fitted": lambda one: one.update(fitted=[]),
    ".fitted[0]": lambda one: one["fitted"][0]["where"]["axes"][0].update(stop=99),
    ".hull": lambda one: one.update(hull=[]) or one["hull"].append({"length": 3, "start": 2, "stop": 1}),
    ".lines": lambda one: one.update(lines=["whole", "tail", None]),
    ".samples[0].index": lambda one: one["samples"][0].update(index=[7]),
    ".samples": lambda one: one.update(samples=one["samples"] * 300),
    ".map": lambda one: one["map"].update(cells="?"),
    ".fitted[0].law": lambda one: one["fitted"][0].update(law={"law": "magic"}),
    ".held_to": lambda one: one.update(held_to="luck"),
}


@pytest.mark.parametrize("place", SPOILED)
def test_a_spoiled_explanation_is_refused_with_its_place(failed, cli, tmp_path, place):
    file = Path(shutil.copytree(failed.folder, tmp_path / "spoiled")) / "report.json"
    report = json.loads(file.read_text())
    index = next(i for i, result in enumerate(report["results"]) if "explained" in result)
    SPOILED[place](report["results"][index]["explained"][0])
    file.write_text(json.dumps(report))
    cli("explain", file).expect_error(3, str(file), f"results[{index}].explained[0]{place}")


@pytest.mark.slow
def test_a_run_that_passes_never_loads_what_explains_failures(toy, tmp_path):
    program = (
        "import sys; from mluops_gtest.cli.main import run_main; "
        f"code = run_main(['run', '--root', {str(toy)!r}, '--out', {str(tmp_path / 'out')!r}]); "
        "sys.exit(code or bool({'mluops_gtest.judging.where', 'mluops_gtest.judging.groups'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


EXACTLY = """\
- name: ramp_{n}
  tags: [boundary]
  doc: "§1: a ramp"
  each: {n: {from: 5, to: 8}}
  data: {recipe: ramp, count: "{n}"}
  criteria: {y: {diff3: 0}}
"""


def test_rounding_is_told_as_rounding_beside_a_suspect_that_changes_nothing(cli, tmp_path):
    root = write_toy_root(tmp_path / "toy", EXACTLY)
    generator = root / "generators" / "scale_by.py"
    suspects = "suspects={'nobody is looking': lambda call: reference(call).outputs}"
    generator.write_text(GENERATOR.replace("kernel=kernel,", f"kernel=kernel, {suspects},"))
    assert cli("generate", "--all", "--root", root).code == 0
    options = ("--root", root, "--backend", scaled("rounding"), "--no-isolate", "--out", tmp_path / "results")
    result = cli("run", *options).expect_code(1)
    assert "scale_by: y is within 2 ulp of the baseline everywhere" in result.lines
    told = cli("explain", tmp_path / "results", "--lang", "zh")
    assert told.lines[0] == "scale_by：y 的全部元素与基准相差不超过 2 ulp"
