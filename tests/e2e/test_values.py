"""Looking at values: what a run says of them, `run --save-outputs` and `mluops-test diff`."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.conftest import replace_in, wrong

CASE = "voxel_pooling_forward/bevdepth_twin"
OTHER = "voxel_pooling_forward/order_of_axes"


@pytest.mark.slow
def test_a_wrong_element_stands_out_of_the_rounding(run):
    result = run(CASE, "--backend", wrong("RoundsAndOneWrong"))
    worst = result.results[CASE]["worst"]
    assert worst["beyond"] == 1
    assert worst["bits_unequal"] > 100
    share = f"1 of {worst['compared']} elements beyond tolerance ({worst['bits_unequal']} unequal in their bits)"
    assert share in result.results[CASE]["reason"]
    assert result.out.count(share) == 1
    assert "ulp" not in result.out


@pytest.mark.slow
def test_in_an_output_within_its_criteria_nothing_is_beyond_tolerance(run):
    result = run(CASE, "--backend", wrong("OneUlpOff")).expect_code(0)
    worst = result.results[CASE]["worst"]
    assert (worst["beyond"], worst["bits_unequal"], worst["max_ulp"]) == (None, 1, 1)


@pytest.mark.slow
class TestDiff:
    def test_the_worst_elements_come_first(self, cli, run):
        told = run(CASE, "--backend", wrong("RoundsAndOneWrong")).results[CASE]["worst"]
        result = cli("diff", CASE, "--backend", wrong("RoundsAndOneWrong"), "-n", 2).expect_code(1)
        assert result.lines[1] == f"failed {CASE}"
        head = next(at for at, line in enumerate(result.lines) if line.startswith("index"))
        assert result.lines[head].split() == ["index", "flat", "got", "expected", "error", "relative"]
        flat = told["compared"] // 2
        index = ", ".join(map(str, told["index"]))
        assert result.lines[head + 1].startswith(f"[{index}]")
        assert result.lines[head + 1].split()[-5:-1] == [str(flat), told["evaluated"], told["baseline"], "1000"]
        assert result.lines[head + 3].startswith("largest relative error per cell")
        assert "pos_memo[2, 96, 3] int32: all elements are equal" in result.out
        assert "\x1b" not in result.out
        assert result.out.count("NaN or infinite") == 1

    @pytest.mark.parametrize("mistake", ["AllZero", "Transposed"])
    def test_it_begins_with_the_sentence_and_the_element_of_the_run(self, cli, run, mistake):
        done = run(OTHER, "--backend", wrong(mistake), "--save-outputs", "failed").expect_code(1)
        sentence, worst = done.lines[done.lines.index("") + 1], done.results[OTHER]["worst"]
        saved = cli("diff", OTHER, "--from", done.folder).expect_code(1)
        result = cli("diff", OTHER, "--backend", wrong(mistake), "-n", 1).expect_code(1)
        assert saved.lines[:2] == result.lines[:2] == [sentence, f"failed {OTHER}"]
        table = next(at for at, line in enumerate(result.lines) if line.startswith("index"))
        assert result.lines[table - 1].startswith(f"{worst['output']}[")
        assert result.lines[table + 1].startswith(f"[{', '.join(map(str, worst['index']))}]")

    def test_the_map_shows_where(self, cli):
        out = cli("diff", CASE, "--backend", wrong("WithNan")).out
        rows = [
            line.split()[1] for line in out.splitlines() if line.startswith(" ") and set(line.split()[-1]) <= {*"·!"}
        ]
        assert "".join(rows).count("!") == 1
        # The last of 640 elements, in lines of 25.
        assert rows[-1].index("!") == 639 % 25 == len(rows[-1]) - 1

    @pytest.mark.parametrize(
        ("name", "words"), [("Exact", "all elements are equal"), ("OneUlpOff", "0 of 640 elements")]
    )
    def test_a_case_that_passes_exits_0(self, cli, name, words):
        result = cli("diff", CASE, "--backend", wrong(name)).expect_code(0)
        assert result.lines[0] == f"passed {CASE}"
        assert words in result.out

    def test_a_backend_that_raises_is_told_as_by_run(self, cli):
        result = cli("diff", CASE, "--backend", wrong("Raises")).expect_output(1, "ZeroDivisionError: in my kernel")
        assert "index" not in result.out

    def test_other_values_of_a_seed(self, cli):
        first, again, declared = (
            cli("diff", CASE, "--backend", wrong("AllZero"), *seed).out
            for seed in (("--reseed", 7), ("--reseed", 7), ())
        )
        assert first == again != declared

    def test_save_writes_what_any_tool_reads(self, cli, tmp_path):
        assert cli("diff", CASE, "--backend", wrong("RoundsAndOneWrong"), "--save", tmp_path / "values").code == 1
        loaded = {path.name: np.load(path) for path in (tmp_path / "values").glob("*.npy")}
        assert set(loaded) == {
            "geom_xyz.npy", "input_features.npy", "output_features.got.npy", "output_features.expected.npy",
            "pos_memo.got.npy", "pos_memo.expected.npy",
        }  # fmt: skip
        got, expected = loaded["output_features.got.npy"], loaded["output_features.expected.npy"]
        assert (got.dtype, got.shape) == (np.dtype("float32"), (2, 8, 8, 5))
        at = np.unravel_index(np.argmax(np.abs(got - expected)), got.shape)
        script = tmp_path / "values" / "look.py"
        assert len(script.read_text().splitlines()) == 5
        said = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, timeout=60).stdout
        assert said.startswith(f"output_features{[int(i) for i in at]} = {got[at]}, expected {expected[at]}, error ")


@pytest.fixture(scope="module")
def with_outputs(run_once):
    """A run that kept the outputs of a case that fails."""
    return run_once(CASE, "--backend", wrong("AllZero"), "--save-outputs", "failed", code=1)


@pytest.fixture
def copied(with_outputs, tmp_path):
    return Path(shutil.copytree(with_outputs, tmp_path / "copied"))


@pytest.mark.slow
class TestSavedOutputs:
    def test_failed_keeps_those_that_fail_and_diff_shows_them(self, cli, run):
        result = run(
            CASE,
            "voxel_pooling_forward/batch_size_all_batch_size_0",
            "--backend",
            wrong("AllZero"),
            "--save-outputs",
            "failed",
        )
        assert sorted(p.parent.name for p in result.folder.rglob("outputs.json")) == ["bevdepth_twin"]
        command = f"mluops-test diff {CASE} --from {result.folder}"
        assert "Outputs of 1 case (" in result.out
        assert command in result.out
        kept, now = cli(*command.split()[1:]), cli("diff", CASE, "--backend", wrong("AllZero"))
        assert (kept.code, kept.out) == (now.code, now.out)

    def test_all_keeps_those_that_pass(self, cli, run):
        result = run(CASE, OTHER, "--backend", wrong("Exact"), "--save-outputs", "all")
        assert "Outputs of 2 cases (" in result.out
        assert cli("diff", OTHER, "--from", result.folder).code == 0

    def test_the_seed_of_the_run_is_taken(self, cli, run):
        result = run(CASE, "--backend", wrong("AllZero"), "--save-outputs", "failed", "--reseed", 7)
        kept, now = cli("diff", CASE, "--from", result.folder), cli("diff", CASE, "-b", wrong("AllZero"), "--reseed", 7)
        assert (kept.code, kept.out) == (now.code, now.out)

    def test_a_file_of_the_user_has_outputs_too(self, cli, run, tmp_path):
        from mluops_gtest.catalog.root import builtin_root

        copy = tmp_path / "mine" / "a case.prototxt"
        copy.parent.mkdir()
        shutil.copy(builtin_root().path / "prototxt" / f"{OTHER}.prototxt", copy)
        result = run(copy, "--backend", wrong("AllZero"), "--save-outputs", "failed")
        cli("diff", copy, "--from", result.folder).expect_output(1, "output_features")

    def test_the_first_failure_of_several_tries_is_kept(self, cli, run):
        result = run(CASE, "--backend", wrong("WrongAtFirst"), "--reruns", 2, "--save-outputs", "all")
        assert result.results[CASE]["outcome"] == "flaky"
        cli("diff", CASE, "--from", result.folder).expect_output(1, "the run itself: flaky")

    def test_overwriting_a_run_removes_its_outputs_and_nothing_else(self, cli, copied):
        (copied / "outputs" / "mine.txt").write_text("keep me")
        assert cli("run", OTHER, "--out", copied, "--overwrite").code == 0
        assert [path.name for path in (copied / "outputs").rglob("*")] == ["mine.txt"]

    def test_what_cannot_be_kept_costs_no_result(self, cli, tmp_path):
        out = tmp_path / "results"
        out.mkdir()
        (out / "outputs").write_text("in the way")
        cli("run", CASE, OTHER, "--backend", wrong("AllZero"), "--save-outputs", "failed", "--out", out).expect_error(
            74, "cannot be written"
        )
        assert json.loads((out / "report.json").read_text())["summary"] == {"failed": 2}

    @pytest.mark.parametrize(
        ("name", "spoil"),
        [
            ("output_features.npy", lambda file: file.write_bytes(file.read_bytes()[:-4])),
            ("output_features.npy", lambda file: np.save(file, np.load(file).astype(np.float64))),
            ("output_features.npy", Path.unlink),
            ("outputs.json", lambda file: replace_in(file, '"inputs": "', '"inputs": "0')),
            ("outputs.json", lambda file: replace_in(file, '"scalars": {', '"scalars": {"n": ""')),
        ],
        ids=["cut", "other type", "gone", "the inputs of the case have changed", "no number"],
    )
    def test_files_that_were_changed_are_refused(self, cli, copied, name, spoil):
        place = copied / "outputs" / CASE
        spoil(place / name)
        cli("diff", CASE, "--from", copied).expect_error(3, str(place))


class TestWithTheNumpyBackend:
    def test_a_call_that_must_fail_has_no_values(self, cli):
        result = cli("diff", "voxel_pooling_forward/batch_size_all_batch_size_0", "--backend", "numpy")
        assert (result.code, result.out) == (0, "passed voxel_pooling_forward/batch_size_all_batch_size_0\n")

    @pytest.mark.parametrize("options", [(), ("--backend", "numpy", "--from", ".")])
    def test_it_needs_one_source_of_outputs(self, cli, options):
        cli("diff", CASE, *options).expect_error(2, "either --backend")

    def test_what_cannot_be_saved_is_exit_74(self, cli, tmp_path):
        (tmp_path / "file").write_text("")
        cli("diff", CASE, "--backend", "numpy", "--save", tmp_path / "file" / "values").expect_error(
            74, "cannot be written"
        )

    def test_failed_keeps_nothing_of_a_run_that_passes(self, cli, run):
        result = run(CASE, "--backend", "numpy", "--save-outputs", "failed")
        assert "Outputs of" not in result.out
        cli("diff", CASE, "--from", result.folder).expect_error(
            2, "--save-outputs", f"`mluops-test diff {CASE} --backend numpy` runs the case now"
        )
