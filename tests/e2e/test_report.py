"""`mluops-test report`: every format of a real run, into a file or to standard output."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mluops_gtest.base.errors import ExitCode
from tests.e2e.conftest import backends_in, wrong
from tests.support.reports import GOLDEN

ROOT = Path(__file__).parents[2]
FORMATS = {"html": "<!DOCTYPE html>", "markdown": "# Operator test report", "junit": "<?xml", "ctrf": "{", "json": "{"}
SELECT = ("--op", "voxel_pooling_forward", "--tag", "smoke")


@pytest.fixture(scope="module")
def failing(run_once):
    """Results with failures."""
    return run_once(*SELECT, "--backend", wrong("AllZero"), "--no-isolate", code=1)


@pytest.fixture(scope="module")
def passing(run_once):
    return run_once(*SELECT, "--backend", wrong("Exact"), "--no-isolate")


@pytest.mark.parametrize("form", FORMATS)
def test_written_is_success_whatever_the_outcomes(cli, failing, tmp_path, form):
    file = tmp_path / "new" / f"report.{form}"
    result = cli("report", failing, "--format", form, "-o", file)
    assert (result.code, result.out, result.err) == (0, "", "")
    assert file.read_text(encoding="utf-8").startswith(FORMATS[form])
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert cli("report", failing, "--format", form).out == file.read_text(encoding="utf-8")


def test_results_with_failures_are_read_without_numpy(failing, tmp_path):
    """Loading it takes as long as reading some thousand results."""
    program = f"""
        import sys

        class Blocked:
            def find_spec(self, name, path=None, target=None):
                if name == "numpy":
                    raise ImportError(name)

        sys.meta_path.insert(0, Blocked())
        from mluops_gtest.cli.main import run_main

        results, out = {str(failing)!r}, {str(tmp_path / "merged")!r}
        for form in {list(FORMATS)!r}:
            assert run_main(["report", results, "--format", form]) == 0
        assert run_main(["compare", results, results]) == run_main(["explain", results]) == 0
        assert run_main(["merge", results, "--out", out]) == 1
        assert run_main(["history", "add", results, "--db", out + ".sqlite"]) == 0
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


class TestInOneStep:
    """`run --junit FILE --html FILE …`."""

    FILES = ("--html", "r.html", "--markdown", "r.md", "--junit", "r.xml", "--ctrf", "r.json")

    def test_a_run_writes_what_report_writes_and_exits_as_ever(self, cli):
        done = cli("run", *SELECT, "--backend", wrong("AllZero"), "--no-isolate", "--out", "results", *self.FILES)
        assert (done.code, done.err) == (1, "")
        for form, file in zip(("html", "markdown", "junit", "ctrf"), self.FILES[1::2], strict=True):
            assert Path(file).read_text(encoding="utf-8") == cli("report", "results", "--format", form).out

    def test_beside_the_results_of_a_new_folder(self, cli):
        assert cli("run", *SELECT, "--out", "results", "--junit", "results/junit.xml").code == 0
        assert ElementTree.parse("results/junit.xml").getroot().get("tests") == "2"

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--junit", "absent/junit.xml"], "--junit absent/junit.xml: there is no folder absent; make it"),
            (["--html", "r", "--ctrf", "./r"], "--ctrf ./r is the file of --html"),
            (["--ctrf", "results/report.json"], "--ctrf results/report.json is the run's own report.json"),
            (["--html", "."], "is a directory"),
        ],
    )
    def test_what_cannot_be_written_is_told_before_anything_runs(self, cli, words, message):
        told = cli("run", *SELECT, "--out", "results", *words)
        assert (told.code, message in told.err, Path("results").exists()) == (2, True, False)

    def test_one_that_cannot_be_written_at_the_end_costs_neither_results_nor_the_others(self, cli, monkeypatch):
        from mluops_gtest.base.errors import UnwritableError
        from mluops_gtest.results.reports import files as report_files

        true_write = report_files.write

        def full(text, file):
            if file.name == "r.html":
                raise UnwritableError.of(file, OSError(28, "No space left on device"))
            true_write(text, file)

        monkeypatch.setattr(report_files, "write", full)
        done = cli("run", *SELECT, "--out", "results", *self.FILES).expect_code(74)
        assert done.err == "error: r.html: cannot be written: No space left on device.\n"
        assert Path("r.xml").exists()
        assert Path("results/report.json").exists()

    def test_a_resumed_run_writes_them_too(self, cli):
        assert cli("run", *SELECT, "--out", "results", "--junit", "r.xml").code == 0
        Path("results/results.jsonl").write_text("")
        Path("results/report.json").unlink()
        Path("r.xml").unlink()
        assert cli("run", "--resume", "results").code == 0
        assert ElementTree.parse("r.xml").getroot().get("tests") == "2"
        assert "leave out --junit" in cli("run", "--resume", "results", "--junit", "r.xml").err

    @pytest.mark.parametrize(
        ("reports", "words"),
        [
            ({"pdf": "x"}, "pdf"),
            ({"html": 7}, "expected a text"),
            ({"html": "a\0b"}, "$.reports.html: 'a\\x00b' is not a valid name"),
        ],
    )
    def test_a_spoiled_run_json_is_refused(self, cli, reports, words):
        assert cli("run", *SELECT, "--out", "results").code == 0
        Path("results/report.json").unlink()
        record = json.loads(Path("results/run.json").read_text())
        Path("results/run.json").write_text(json.dumps({**record, "reports": reports}))
        cli("run", "--resume", "results").expect_error(3, words)


def test_utf8_whatever_the_terminal_speaks(tmp_path):
    """A console of another encoding, or none at all, does not spoil the document."""
    command = [sys.executable, str(ROOT / "cli.py"), "report", str(GOLDEN / "report.json"), "--format", "markdown"]
    done = subprocess.run(
        [*command, "--lang", "zh"], capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=False
    )
    assert (done.returncode, done.stdout) == (0, (GOLDEN / "report.zh.md").read_bytes())


def test_against_a_baseline_every_case_says_what_became_of_it(cli, passing, failing):
    def report(form):
        return cli("report", failing, "--against", passing, "--format", form).out

    document = json.loads(report("json"))
    words = set(document["transitions"].values())
    assert document["transitions"].keys() == {result["case"] for result in document["results"]}
    assert "regressed" in words
    assert words <= {"regressed", "still passing"}
    assert "### Against the baseline" in report("markdown")
    found = {
        p.get("value") for p in ElementTree.fromstring(report("junit")).iterfind(".//property[@name='transition']")
    }
    assert found == words
    assert {test["extra"]["transition"] for test in json.loads(report("ctrf"))["results"]["tests"]} == words
    assert "regressed" in report("html")


def test_a_case_that_is_gone_is_missing(cli, run, passing):
    fewer = run("voxel_pooling_forward/order_of_axes", "--backend", wrong("Exact"), "--no-isolate").folder
    document = json.loads(cli("report", fewer, "--against", passing, "--format", "json").out)
    assert document["transitions"]["voxel_pooling_forward/bevdepth_twin"] == "missing"
    assert document["transitions"]["voxel_pooling_forward/order_of_axes"] == "still passing"


def test_history_adds_how_the_cases_went_on_this_backend(cli, passing, run):
    again = run(*SELECT, "--backend", wrong("Exact"), "--no-isolate").folder
    other = run(*SELECT, "--backend", wrong("AllZero"), "--no-isolate").folder
    assert cli("history", "add", passing, again, other, "--db", "h.sqlite").code == 0
    document = json.loads(cli("report", again, "--history", "h.sqlite", "--format", "json").out)
    (case, *_) = document["history"]
    assert [point["outcome"] for point in document["history"][case]["runs"]] == ["passed", "passed"]
    assert "### History" in cli("report", again, "--history", "h.sqlite", "--format", "markdown").out
    assert cli("report", again, "--history", "h.sqlite").out.startswith(FORMATS["html"])


def test_the_page_finds_the_default_history_where_it_has_the_run(cli, passing, run):
    again, unknown = (run(*SELECT, "--backend", wrong("Exact"), "--no-isolate").folder for _ in range(2))
    assert '"runs":[]' in cli("report", again).out
    older = json.loads((passing / "report.json").read_text()) | {"started": "2026-01-01T00:00:00+00:00"}
    Path("older.json").write_text(json.dumps(older))
    history(cli, ".mluops-test/history.sqlite", "older.json", again)
    page = cli("report", again)
    assert '"runs":["2026-01-01T00:00:00+00:00","' in page.out
    assert page.err == ""
    assert '"runs":[]' in cli("report", unknown).out
    assert "### History" not in cli("report", again, "--format", "markdown").out


def history(cli, file, *runs):
    """A history of these runs."""
    assert cli("history", "add", *runs, "--db", file).code == 0


def test_a_damaged_default_history_costs_no_page(cli, passing):
    Path(".mluops-test").mkdir()
    Path(".mluops-test/history.sqlite").write_bytes(b"no database at all" * 100)
    page = cli("report", passing)
    assert page.code == 0
    assert page.out.startswith(FORMATS["html"])
    assert page.err.startswith("warning: the page has no trends: .mluops-test/history.sqlite: ")


TIMED = "masked_im2col_forward/retinanet_3x3_twin_float"


@pytest.fixture(scope="module")
def timed(run_once):
    """One case that takes 100 µs on its device, and one that is never timed."""
    clocked = backends_in("clocked_backends")("Clocked")
    cases = (TIMED, "masked_im2col_forward/feature_desc_null")
    return run_once(*cases, "--backend", clocked, "--perf", "--no-isolate")


def report_beside(cli, results, times, *more):
    """The test report beside a competitor's times."""
    Path("times.yaml").write_text(times)
    return cli("report", results, "--format", "markdown", "--reference-times", "times.yaml", *more)


@pytest.mark.parametrize(
    ("times", "cells"),
    [
        (f"{TIMED}: 10\n", "| 10.0 | 10 % | yes (≥ 10 %) |"),
        (f"{TIMED}: 9.99\n", "| 10.0 | 9.99 % | no (≥ 10 %) |"),
        (f"{TIMED}: {{us: 250}}\n", "| 250.0 | 250 % | yes (≥ 10 %) |"),
        (f"{TIMED}: {{us: 99, share: 1}}\n", "| 99.0 | 99 % | no (≥ 100 %) |"),
    ],
)
def test_times_stand_beside_those_of_a_competitor(cli, timed, times, cells):
    document = report_beside(cli, timed, times).out
    assert cells in document
    met = "yes (" in cells
    behind = 0 if met else 1
    assert f"the competitor's times: 1; below the required share of its performance: {behind};" in document
    assert ("of the competitor's performance, " in document) is not met
    assert "竞品时间" in report_beside(cli, timed, times, "--lang", "zh").out


def test_a_case_that_was_not_timed_is_counted(cli, timed):
    document = report_beside(cli, timed, "masked_im2col_forward/feature_desc_null: 3\n").out
    assert "not timed here: 1." in document


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (f"{TIMED}x: 1\n", f"times.yaml:1: the results have no case '{TIMED}x'; did you mean {TIMED}?"),
        (f"\n{TIMED}: 12 ms\n", "times.yaml:2: " + TIMED + " is '12 ms'; it must be a number above 0 without a unit"),
        (f"{TIMED}: {{us: 3, ms: 1}}\n", "times.yaml:1: " + TIMED + " has {'us': 3, 'ms': 1}; write e.g. "),
        (f"{TIMED}: {{us: 3, share: 0}}\n", "times.yaml:1: share is 0; it must be a number above 0"),
        ("[1, 2]\n", "times.yaml:1: write a line per case with its time in µs"),
        (f"{TIMED}: [\n", "times.yaml:2:1: not valid YAML"),
    ],
)
def test_times_that_say_nothing_are_refused(cli, timed, times, message):
    report_beside(cli, timed, times).expect_error(ExitCode.USAGE, message)


def test_times_are_for_one_test_report(cli, timed, passing):
    Path("times.yaml").write_text(f"{TIMED}: 10\n")
    options = ("--reference-times", "times.yaml")
    cli("report", timed, *options).expect_error(
        ExitCode.USAGE, "--reference-times is for --format markdown, not for html"
    )
    cli("report", timed, passing, *options, "--format", "markdown").expect_error(ExitCode.USAGE, "is for one run")
    missing = cli("report", timed, "--format", "markdown", "--reference-times", "nowhere.yaml")
    assert (missing.code, "does not exist" in missing.err) == (2, True)


@pytest.mark.slow
def test_the_test_report_claims_what_the_cases_show(cli, tmp_path):
    """Of an operator that refuses one empty tensor and takes another, and whose cases on a lattice ask for equality."""
    chosen = "unknown_empty_all or no_known or large or lattice or values_full"
    selected = ("three_nn_forward", "-k", chosen)
    assert cli("run", *selected, "--out", tmp_path / "r", "--markdown", tmp_path / "r.md").code == 0
    document = (tmp_path / "r.md").read_text()
    assert "supported, except for what is refused as the document asks (`unknown_empty`)" in document
    # `_limit` is refused for a pointer.
    refused = sum(line.endswith("_large)") for line in cli("list", *selected).lines)
    assert refused > 6
    assert f"larger tensors than allowed are refused ({refused} tested)" in document
    standards = [line for line in document.splitlines() if line.startswith("| `three_nn_forward` | `dist2` |")]
    assert standards
    assert not any("diff3" in line for line in standards)
    assert "Cases held to criteria of their own, which are not listed: " in document
    assert "Functions have no open problem. Performance was not measured." in document
