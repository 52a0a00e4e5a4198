"""One run per results folder: locked while it runs, and never overwritten unawares."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from mluops_gtest.base.errors import UsageError
from mluops_gtest.results.folder import LOCK, ResultsFolder
from tests.conftest import ROOT
from tests.support.disks import command

ONE = "voxel_pooling_forward/bevdepth_twin"
SMOKE = ("--op", "voxel_pooling_forward", "--tag", "smoke")
# Runs until the file beside it is removed, so that a test decides when a run ends.
WAITS = """
import pathlib
import time

from mluops_gtest import Declined

GATE = pathlib.Path(__file__).with_suffix(".gate")


class Waits:
    name = "waits"

    def run(self, call):
        while GATE.exists():
            time.sleep(0.01)
        raise Declined("nothing to do")
"""
VANISHES = """
import pathlib
import shutil

from mluops_gtest import Declined

FOLDER = pathlib.Path(__file__).with_name("results")


class Vanishes:
    name = "vanishes"
    calls = 0

    def run(self, call):
        Vanishes.calls += 1
        if Vanishes.calls == 2 and not FOLDER.with_name("again").exists():
            FOLDER.with_name("again").touch()
            {act}
        raise Declined("nothing to do")
"""


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def running(tmp_path):
    """A run in `results` that is in the middle of its first case."""
    (tmp_path / "waits.py").write_text(WAITS)
    (tmp_path / "waits.gate").touch()
    out = tmp_path / "results"
    words = ["run", *SMOKE, "-b", f"{tmp_path / 'waits.py'}:Waits", "--out", out]
    process = subprocess.Popen(
        [sys.executable, "-m", "mluops_gtest", *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not (out / "results.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    yield process, out
    (tmp_path / "waits.gate").unlink(missing_ok=True)
    process.communicate(timeout=60)


@pytest.mark.slow
def test_a_second_run_is_refused_while_the_first_one_runs(cli, running, tmp_path):
    process, out = running
    for arguments in (
        ["run", *SMOKE, "--out", out],
        ["run", *SMOKE, "--out", out, "--overwrite"],
        ["run", "--resume", out],
        ["merge", out, "--out", out, "--overwrite"] if (out / "report.json").exists() else ["run", ONE, "--out", out],
    ):
        cli(*arguments).expect_error(2, f"process {process.pid} is writing there")
    (tmp_path / "waits.gate").unlink()
    assert process.wait(60) == 5
    assert sorted(files(out)) == ["causes.json", "report.json", "results.jsonl", "run.json"]


@pytest.mark.slow
def test_a_killed_run_frees_its_folder(cli, running, tmp_path):
    process, out = running
    process.send_signal(signal.SIGKILL)
    process.wait()
    (tmp_path / "waits.gate").unlink()
    cli("run", "--resume", out).expect_code(5)
    assert sorted(files(out)) == ["causes.json", "report.json", "results.jsonl", "run.json"]


def test_a_folder_that_holds_a_run_is_refused(cli, run):
    first = run(*SMOKE)
    before = files(first.folder)
    cli("run", ONE, "--out", first.folder).expect_error(
        2,
        "the folder already holds a run (run.json, results.jsonl, report.json)",
        f"`--resume {first.folder}`",
        "--overwrite",
    )
    assert files(first.folder) == before


@pytest.mark.parametrize("name", ["run.json", "results.jsonl", "report.json"])
def test_a_part_of_a_run_is_one_too(cli, tmp_path, name):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("")
    assert cli("run", ONE, "--out", tmp_path / "out").code == 2
    assert files(tmp_path / "out") == {name: b""}


def test_overwrite_replaces_the_run_and_nothing_else(cli, run):
    first = run(*SMOKE)
    (first.folder / "notes.txt").write_text("mine")
    assert cli("run", ONE, "--out", first.folder, "--overwrite").code == 0
    report = json.loads((first.folder / "report.json").read_text())
    assert [r["case"] for r in report["results"]] == [ONE]
    assert (first.folder / "notes.txt").read_text() == "mine"


@pytest.mark.slow
def test_an_unusable_backend_costs_the_old_run_nothing(cli, run, tmp_path):
    first = run(*SMOKE)
    before = files(first.folder)
    (tmp_path / "broken.py").write_text("raise ImportError('no')")
    words = ("run", ONE, "-b", f"{tmp_path / 'broken.py'}:backend")
    assert cli(*words, "--out", first.folder, "--overwrite").code == 4
    assert files(first.folder) == before
    assert cli(*words, "--out", tmp_path / "deep" / "new").code == 4
    assert not (tmp_path / "deep").exists(), "an empty folder is left"
    assert cli(*words).code == 4
    assert not (tmp_path / "cwd" / "mluops-results").exists()


def test_a_folder_with_other_things_is_fine(cli, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    assert cli("run", ONE, "--out", tmp_path).code == 0


def test_overwrite_is_about_out(cli, run):
    assert cli("run", ONE, "--overwrite").code == 2
    assert cli("run", "--resume", run(ONE).folder, "--overwrite").code == 2


def test_merge_is_careful_as_well(cli, run, tmp_path):
    parts = [run(*SMOKE, "--shard", f"{i}/2").folder for i in (1, 2)]
    assert cli("merge", *parts, "--out", tmp_path / "merged").code == 0
    before = files(tmp_path / "merged")
    cli("merge", *parts, "--out", tmp_path / "merged").expect_error(2, "the folder already holds a run")
    assert files(tmp_path / "merged") == before
    refused = cli("run", ONE, "--out", tmp_path / "merged").expect_error(2, "--overwrite replaces it")
    assert "--resume" not in refused.err, "a merged run has no plan to go on with"
    assert cli("merge", *parts, "--out", parts[0], "--overwrite").code == 0
    assert sorted(files(parts[0])) == ["causes.json", "report.json", "results.jsonl"]


def test_runs_that_start_in_the_same_second_have_folders_of_their_own(tmp_path):
    folders = [ResultsFolder.fresh(tmp_path / "mluops-results", "20260101-120000") for _ in range(3)]
    assert [folder.path.name for folder in folders] == ["20260101-120000", "20260101-120000-2", "20260101-120000-3"]
    for folder in reversed(folders):
        folder.close()
    assert not (tmp_path / "mluops-results").exists()


def test_the_lock_is_the_file_in_the_folder_not_one_that_was_removed(tmp_path):
    with ResultsFolder(tmp_path) as held:
        with pytest.raises(UsageError, match=f"process {os.getpid()}"):
            ResultsFolder(tmp_path)
        (tmp_path / LOCK).unlink()
        with ResultsFolder(tmp_path):
            held.close()
            assert (tmp_path / LOCK).exists(), "the lock of another was removed"
            held._lock = os.open(tmp_path, os.O_RDONLY)
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("options", [("--no-isolate",), ("-j", "2")])
@pytest.mark.parametrize("act", ["shutil.rmtree(FOLDER)", "FOLDER.rename(FOLDER.with_name('elsewhere'))"])
def test_a_folder_that_vanishes_is_written_again_and_can_be_resumed(cli, tmp_path, act, options):
    (tmp_path / "vanishes.py").write_text(VANISHES.format(act=act))
    out = tmp_path / "results"
    boundary = ("--op", "voxel_pooling_forward", "--tag", "boundary")
    stopped = command("run", *boundary, "-b", f"{tmp_path / 'vanishes.py'}:Vanishes", "--out", out, *options)
    assert stopped.returncode == 74, stopped.stderr
    (line,) = [line for line in stopped.stderr.splitlines() if not line.startswith("warning: ")]
    assert f"{out / 'results.jsonl'}: cannot be written: the file was removed." in line
    assert sorted(files(out)) == ["results.jsonl", "run.json"]
    kept = len((out / "results.jsonl").read_text().splitlines())
    assert f"The results of {kept} cases are kept there" in line
    cli("run", "--resume", out).expect_code(5)
    cases = [json.loads(line)["case"] for line in (out / "results.jsonl").read_text().splitlines()]
    assert len(cases) == len(set(cases)) > kept
    shutil.rmtree(out)


@pytest.mark.slow
def test_a_vanished_folder_that_another_run_took_is_left_alone(tmp_path):
    act = "FOLDER.rename(FOLDER.with_name('elsewhere')); FOLDER.mkdir(); (FOLDER / 'run.json').write_text('other')"
    (tmp_path / "vanishes.py").write_text(VANISHES.format(act=act))
    words = ("run", "--op", "voxel_pooling_forward", "-b", f"{tmp_path / 'vanishes.py'}:Vanishes", "--no-isolate")
    stopped = command(*words, "--out", tmp_path / "results")
    assert stopped.returncode == 74
    assert "Another run may be there now" in stopped.stderr
    assert files(tmp_path / "results") == {"run.json": b"other"}


def test_a_lock_that_is_a_link_is_refused_and_what_it_leads_to_stays(cli, tmp_path):
    victim, folder = tmp_path / "victim", tmp_path / "results"
    victim.write_text("precious")
    folder.mkdir()
    for target in (victim, tmp_path / "not_there"):
        (folder / LOCK).symlink_to(target)
        cli("run", ONE, "--out", folder).expect_error(2, f"{folder / LOCK}: is a link")
        (folder / LOCK).unlink()
    assert victim.read_text() == "precious"
    assert not (tmp_path / "not_there").exists()


WITHOUT_READINGS = {"readings": [], "status": None}


@pytest.mark.parametrize(
    "changes", [WITHOUT_READINGS, {"status": "BAD_PARAM"}, {"compared": False}, {"within": False}], ids=str
)
def test_a_results_file_with_a_pass_that_nobody_saw_is_refused(cli, run, tmp_path, changes):
    result = run(ONE).expect_code(0)
    path = result.folder / "report.json"
    (tmp_path / "before.json").write_bytes(path.read_bytes())
    report = json.loads(path.read_text())
    (record,) = report["results"]
    (record["readings"][0] if "within" in changes else record).update(changes)
    path.write_text(json.dumps(report))
    for words in (
        ("gate", result.folder, "--against", tmp_path / "before.json"),
        ("report", result.folder, "--format", "markdown"),
        ("merge", result.folder, "--out", tmp_path / "merged"),
        ("history", "add", result.folder, "--db", tmp_path / "history.db"),
        ("compare", result.folder, result.folder),
    ):
        cli(*words).expect_error(3, "report.json", ONE, "cannot have passed")


def test_a_line_of_an_unfinished_run_with_such_a_pass_is_refused(cli, run):
    result = run(ONE)
    (result.folder / "report.json").unlink()
    path = result.folder / "results.jsonl"
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | WITHOUT_READINGS) + "\n")
    cli("run", "--resume", result.folder).expect_error(3, "results.jsonl", "cannot have passed")
