"""What backends do to memory, processes and limits around them costs their own case at most, and nothing survives."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from mluops_gtest.running.workers import process_tree
from tests.conftest import ROOT
from tests.e2e.conftest import ONE_VICTIM, TWO_VICTIMS, assert_costs_its_cases_alone, backends_in, split
from tests.support.crashing_backends import VICTIM

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and prctl")]
acting = backends_in("process_backends")


@pytest.fixture
def pids(monkeypatch, tmp_path):
    """Where backends note the processes that they leave; all of them must be gone in the end."""
    path = tmp_path / "pids"
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PIDS", str(path))
    return path


def noted(path):
    return {int(line) for line in path.read_text().split()} if path.exists() else set()


def alive(path):
    """Processes that were noted and still run."""

    def runs(pid):
        try:
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    return {pid for pid in noted(path) if runs(pid)}


def wait_until(condition, what):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def test_tensors_cannot_be_resized(run, pids):
    result = run(*TWO_VICTIMS, "--backend", acting("ResizesItsTensors"))
    victims, _ = split(result)
    assert result.code == 0
    assert all("ftruncate: PermissionError" in r["notes"] for r in victims)


def test_a_child_that_writes_on_disturbs_no_other_case(run, pids):
    result = run(*TWO_VICTIMS, "--backend", acting("WritesFromBehind"))
    assert_costs_its_cases_alone(result, "crashed", "the process exited with code 5")


@pytest.mark.parametrize("backend", ["LeavesADaemon", "LeavesADaemonAndCrashes", "LeavesAProgramWithoutEnvironment"])
def test_daemons_end_with_the_run(run, pids, backend):
    _, others = split(run(*TWO_VICTIMS, "--backend", acting(backend)))
    assert {r["outcome"] for r in others} == {"passed"}
    assert noted(pids)
    assert alive(pids) == set()


def test_a_process_that_runs_us_adopts_orphans_no_longer_than_a_run(run, pids):
    def adopts():
        import ctypes

        flag = ctypes.c_int()
        process_tree.c_library().prctl(37, ctypes.byref(flag), 0, 0, 0)
        return flag.value

    own = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    try:
        before = adopts()
        run(*TWO_VICTIMS, "--backend", acting("KillsTheForkServerOnce"))
        assert adopts() == before
        assert own.poll() is None
    finally:
        own.communicate()


@pytest.mark.parametrize("victim", ["controller", "fork server", "controller of a stopped fork server"])
def test_daemons_end_and_folders_go_when_one_is_killed(pids, tmp_path, victim):
    out = tmp_path / "out"
    arguments = ("run", *TWO_VICTIMS, "--backend", acting("LeavesDaemonsAndIsSlow"), "--out", out)
    process = subprocess.Popen(
        [sys.executable, "-m", "mluops_gtest", *arguments],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        cwd=tmp_path,
    )
    try:
        wait_until(Path(f"{pids}.ready").exists, "the backend never ran")
        folder = Path(Path(f"{pids}.folder").read_text())
        assert (folder / "left").exists()
        server = psutil.Process(process.pid).children()[0].pid
        assert server in noted(pids)
        if "stopped" in victim:
            os.kill(server, signal.SIGSTOP)
        os.kill(server if victim == "fork server" else process.pid, signal.SIGKILL)
        process.wait(120)
        wait_until(lambda: not alive(pids), "processes are left")
        wait_until(lambda: not folder.exists(), "the temporary folder is left")
    finally:
        process.kill()
        process.wait()
    if victim == "fork server":
        report = json.loads((out / "report.json").read_text())
        assert {r["outcome"] for r in report["results"]} == {"passed"}


@pytest.mark.parametrize(
    ("backend", "mark", "options"),
    [
        ("KillsTheForkServerOnce", "killed", ()),
        ("KillsTheForkServerOnce", "killed", ("-j", 2)),
        ("StopsTheForkServerOnce", "crashed", ()),
    ],
)
def test_a_fork_server_that_is_killed_or_stopped_is_replaced_and_costs_no_case(run, pids, backend, mark, options):
    result = run(*TWO_VICTIMS, "--backend", acting(backend), *options)
    assert {r["outcome"] for r in result.results.values()} == {"passed"}
    assert Path(f"{pids}.{mark}").exists()


@pytest.mark.parametrize("options", [(), ("-j", 3)])
def test_only_the_case_that_always_loses_the_fork_server_is_blamed(run, pids, options):
    result = run(*ONE_VICTIM, "--backend", acting("KillsTheForkServerAlways"), *options)
    assert_costs_its_cases_alone(result, "crashed", "the fork server was lost three times while this case ran")


def test_a_backend_that_kills_the_fork_server_while_loading_is_unusable(run, pids):
    run(*TWO_VICTIMS, "--backend", acting("KillsTheForkServerWhileLoading")).expect_error(
        4, "the fork server was lost three times while loading"
    )


@pytest.mark.parametrize("options", [(), ("-j", 2)])
def test_a_run_that_cannot_go_on_says_so(run, pids, tmp_path, monkeypatch, options):
    spoiled = tmp_path / "spoiled"
    spoiled.mkdir()
    monkeypatch.setenv("SPOILED", str(spoiled))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(spoiled), str(ROOT))))
    result = run(*TWO_VICTIMS, "--backend", acting("SpoilsTheForkServer"), *options)
    outcomes = [r["outcome"] for r in result.report["results"]]
    assert set(outcomes) <= {"passed", "not_run"}
    assert "not_run" in outcomes
    (reason,) = {r["reason"] for r in result.report["results"] if r["outcome"] == "not_run"}
    assert "the run cannot go on: no worker could be started, three times in a row" in reason
    assert "exited with code 9" in reason
    assert reason in " ".join(result.out.split())
    assert result.code == 1


@pytest.mark.parametrize("backend", ["RaisesItsLimit", "RaisesItsLimitForAMoment"])
def test_a_limit_that_was_raised_is_told(run, pids, backend):
    victims, others = split(run(*TWO_VICTIMS, "--backend", acting(backend), "--memory-limit", "1G"))
    assert {r["outcome"] for r in (*victims, *others)} == {"passed"}
    told = "raised its memory limit (--memory-limit), which its privileges allow; its worker was replaced"
    for one in victims:
        assert "refused" in one["notes"] or {"raised", told} <= set(one["notes"])
    assert not any(told in one["notes"] for one in others)


def test_the_memory_limit_is_the_hard_limit(run, pids):
    result = run(*TWO_VICTIMS, "--backend", acting("RaisesTheSoftLimit"), "--memory-limit", "1G")
    assert_costs_its_cases_alone(result, "crashed", "MemoryError")


def test_what_one_case_keeps_is_not_taken_from_the_next(run, pids):
    result = run("--op", VICTIM, "--tag", "smoke", "--backend", acting("KeepsWhatItTook"), "--memory-limit", "1G")
    assert len(result.results) > 1
    assert {r["outcome"] for r in result.results.values()} == {"passed"}


def test_tensors_that_grow_under_a_limit_get_a_new_worker(run, pids):
    result = run("--op", VICTIM, "--tag", "random", "--backend", acting("TellsItsProcess"), "--memory-limit", "4M")
    assert {r["outcome"] for r in result.results.values()} == {"passed"}
    assert len(processes(result)) > 1


def processes(result):
    return [note for r in result.results.values() for note in r["notes"] if note.startswith("process")]


def test_what_a_case_changes_is_put_back(run, pids):
    result = run("--op", VICTIM, "--tag", "smoke", "--backend", acting("ChangesEverything"))
    assert {r["outcome"] for r in result.results.values()} == {"passed"}
    states = {tuple(r["notes"]) for r in result.results.values()}
    assert len(result.results) > 1
    assert len(states) == 1


@pytest.mark.parametrize(
    ("backend", "effect", "of_victims", "of_all"),
    [
        ("LeavesNoDescriptor", "left too many files open", {"no descriptor is left"}, set()),
        ("LeavesAThread", "left the thread 'left' running", set(), {"threads 1"}),
    ],
)
def test_what_a_case_leaves_open_or_running_costs_its_worker(run, pids, backend, effect, of_victims, of_all):
    victims, others = split(run(*TWO_VICTIMS, "--backend", acting(backend)))
    note = f"{effect}; its worker was replaced"
    assert all({note, *of_victims, *of_all} <= set(r["notes"]) for r in victims)
    assert all(of_all <= set(r["notes"]) and note not in r["notes"] for r in others)
    assert {r["outcome"] for r in (*victims, *others)} == {"passed"}


def test_fresh_workers(run, pids):
    cases = (*TWO_VICTIMS, "--backend", acting("TellsItsProcess"))
    shared, fresh = run(*cases), run(*cases, "--fresh-workers", "--repeat", 2)
    assert len(set(processes(shared))) == 1
    assert len(set(processes(fresh))) == len(fresh.results)
    assert fresh.code == 0
    assert all(r["repro"].endswith(" --fresh-workers") for r in fresh.results.values())
    run(*TWO_VICTIMS, "--fresh-workers").expect_error(2, "--fresh-workers needs worker processes")


def test_nested_folders_that_a_backend_leaves_end_no_run(run, pids):
    run(*TWO_VICTIMS, "--backend", acting("NestsFolders")).expect_code(0)
    assert set(pids.read_text().split()), "it did nest them"
    assert not any(Path(folder).exists() for folder in pids.read_text().splitlines())
