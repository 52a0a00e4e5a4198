"""What backends do to memory, processes and limits around them costs their own case at most, and nothing survives."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from mluops_gtest.engine.isolation import process_tree
from tests.conftest import ROOT
from tests.e2e.conftest import SUPPORT

VICTIMS = "masked_im2col_forward"
SMOKE = ("--tag", "smoke", "-k", "masked or voxel or dynamic")
linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and prctl")


def acting(name):
    return f"{SUPPORT / 'process_backends.py'}:{name}"


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


def split(result):
    """The results of the victims and of the others."""
    results = list(result.results.values())
    victims = [r for r in results if r["operator"] == VICTIMS]
    assert 0 < len(victims) < len(results)
    return victims, [r for r in results if r["operator"] != VICTIMS]


@linux
def test_tensors_cannot_be_resized(run, pids):
    result = run(*SMOKE, "--backend", acting("ResizesItsTensors"))
    victims, _ = split(result)
    assert result.code == 0
    assert all("ftruncate: PermissionError" in r["notes"] for r in victims)


def test_a_child_that_writes_on_disturbs_no_other_case(run, pids):
    result = run(*SMOKE, "--backend", acting("WritesFromBehind"))
    victims, others = split(result)
    assert {(r["outcome"], r["reason"]) for r in victims} == {("crashed", "the process exited with code 5")}
    assert {r["outcome"] for r in others} == {"passed"}


@linux
@pytest.mark.parametrize("backend", ["LeavesADaemon", "LeavesADaemonAndCrashes", "LeavesAProgramWithoutEnvironment"])
def test_daemons_end_with_the_run(run, pids, backend):
    _, others = split(run(*SMOKE, "--backend", acting(backend)))
    assert {r["outcome"] for r in others} == {"passed"}
    assert noted(pids)
    assert alive(pids) == set()


@linux
def test_a_process_that_runs_us_adopts_orphans_no_longer_than_a_run(run, pids):
    def adopts():
        import ctypes

        flag = ctypes.c_int()
        process_tree.c_library().prctl(37, ctypes.byref(flag), 0, 0, 0)
        return flag.value

    own = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    try:
        before = adopts()
        run(*SMOKE, "--backend", acting("KillsTheForkServerOnce"))
        assert adopts() == before
        assert own.poll() is None
    finally:
        own.communicate()


@linux
@pytest.mark.parametrize("victim", ["controller", "fork server"])
def test_daemons_end_and_folders_go_when_one_is_killed(pids, tmp_path, victim):
    out = tmp_path / "out"
    arguments = ("run", *SMOKE, "--backend", acting("LeavesDaemonsAndIsSlow"), "--out", out)
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
        os.kill(process.pid if victim == "controller" else server, signal.SIGKILL)
        process.wait(120)
        wait_until(lambda: not alive(pids), "processes are left")
        wait_until(lambda: not folder.exists(), "the temporary folder is left")
    finally:
        process.kill()
        process.wait()
