"""Kernels that crash, hang, leak and flood: one case each is lost, never the run."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.conftest import ROOT
from tests.e2e.conftest import ONE_VICTIM, TWO_VICTIMS, assert_costs_its_cases_alone, backends_in, split
from tests.support.crashing_backends import VICTIM

pytestmark = pytest.mark.slow
crashing = backends_in("crashing_backends")


@pytest.fixture(autouse=True)
def _support_is_importable(monkeypatch, tmp_path):
    """Workers start fresh: they find the tests' modules by PYTHONPATH alone."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("CRASH_COUNTER", str(tmp_path / "counter"))


@pytest.fixture(autouse=True)
def _nothing_is_left():
    """No process of ours more than before; another test's browser may be open."""

    def left():
        return {child.pid for child in psutil.Process().children(recursive=True)}

    before = left()
    yield
    assert left() - before == set()


@pytest.mark.parametrize(
    ("backend", "reason"),
    [
        ("Aborts", "killed by SIGABRT"),
        ("Terminates", "killed by SIGTERM"),
        ("KillsItsGroup", "killed by SIGKILL"),
        ("Exits", "exited with code 3"),
        ("RaisesSystemExit", "SystemExit: enough"),
        ("OverflowsTheStack", "killed by SIGSEGV"),
        ("LeavesAChild", "killed by SIGSEGV"),
        ("CrashesInWorkspaceSize", "killed by SIGSEGV"),
    ],
)
def test_what_a_backend_does_to_itself_costs_its_cases_alone(run, backend, reason):
    assert_costs_its_cases_alone(run(*TWO_VICTIMS, "--backend", crashing(backend)), "crashed", reason)


@pytest.mark.parametrize(
    "backend",
    [
        crashing("Hangs"),
        crashing("HangsInNativeCode"),
        *map(backends_in("rude_backends"), ("StallsInItsAnswer", "HangsInWorkspaceSize")),
    ],
)
def test_an_answer_that_does_not_come_costs_its_case_alone(run, backend):
    """One case waits, so that the limit can be one that no other case comes near."""
    result = run(*ONE_VICTIM, "--backend", backend, "--timeout", 5)
    assert_costs_its_cases_alone(result, "timed_out", "no answer within 5 s")


def test_a_worker_that_closes_its_pipe_is_ended(run):
    victims, _ = split(run(*TWO_VICTIMS, "--backend", crashing("ClosesEverything"), "--timeout", 20))
    assert {r["outcome"] for r in victims} == {"crashed"}


def test_the_last_words_of_a_crash_are_kept_and_resuming_its_run_changes_nothing(cli, run):
    result = run(*TWO_VICTIMS, "--backend", crashing("Segfaults"))
    assert_costs_its_cases_alone(result, "crashed", "killed by SIGSEGV")
    one = next(r for r in result.results.values() if r["outcome"] == "crashed")
    assert "about to read nothing" in one["output"]
    assert "crashing_backends.py" in one["output"]  # the faulthandler's trace
    assert "about to read nothing" in result.out
    before = (result.folder / "report.json").read_bytes()
    again = cli("run", "--resume", result.folder)
    assert again.code == result.code == 1
    assert "finished" in again.out
    assert (result.folder / "report.json").read_bytes() == before


def test_what_a_backend_prints_is_kept_apart_per_case(run):
    result = run(*TWO_VICTIMS, "--backend", crashing("Prints"), "-v")
    victims, others = split(result)
    for one in victims:
        assert sorted(one["output"].split("\n")) == ["", "from C", "from Python", "to stderr"]
    assert all(r["output"] == "" for r in others)
    assert result.out.count("from C") == len(victims)
    assert result.code == 0


def test_memory_is_limited_on_top_of_the_idle_worker(run):
    result = run(*TWO_VICTIMS, "--backend", crashing("EatsMemoryForReal"), "--memory-limit", "1G")
    assert_costs_its_cases_alone(result, "crashed", "MemoryError")
    assert run(*TWO_VICTIMS, "--backend", crashing("Isolated"), "--memory-limit", "1G").code == 0


def test_two_hundred_crashes_in_a_row(run):
    result = run("--op", VICTIM, "-k", "boundary or random", "--backend", crashing("CrashesAtOnce"))
    assert {r["outcome"] for r in result.results.values()} == {"crashed"}
    assert len(result.results) >= 200


def test_a_device_is_given_up_after_three_failed_health_calls(run):
    result = run(*TWO_VICTIMS, "--backend", crashing("NeverHealthyAgain"))
    outcomes = [r["outcome"] for r in result.report["results"]]
    first = outcomes.index("crashed")
    assert set(outcomes[:first]) <= {"passed"}
    assert set(outcomes[first + 1 :]) == {"not_run"}
    assert "health check three times" in result.report["results"][-1]["reason"]
    assert result.code == 1


def test_the_cases_of_a_lost_device_go_to_the_others(run):
    result = run("--tag", "smoke", "--backend", crashing("OneBadDevice"), "--devices", "0,1,2")
    outcomes = [r["outcome"] for r in result.report["results"]]
    assert outcomes.count("crashed") <= 1
    assert set(outcomes) <= {"passed", "crashed"}


def test_devices_reach_the_backend(run):
    result = run("--op", VICTIM, "--tag", "negative", "--backend", crashing("TellsDevice"), "--devices", "3,7")
    told = {note for r in result.results.values() for note in r["notes"] if note.startswith("device")}
    assert told == {"device 3 3", "device 7 7"}


def test_workers_side_by_side_give_the_same_report(run):
    cases = ("--op", "dynamic_scatter_backward", "-k", "random or null")
    one, two = run(*cases, "--isolate"), run(*cases, "--isolate", "-j", 2)
    assert (one.code, two.code) == (0, 0)
    assert undated(one.report) == undated(two.report)
    inline = run(*cases)
    assert [r["outcome"] for r in inline.report["results"]] == [r["outcome"] for r in one.report["results"]]


def undated(report):
    """The report without what differs between two equal runs: times, and how many ran side by side."""
    results = [{key: value for key, value in r.items() if key != "seconds"} for r in report["results"]]
    return {**report, "started": 0, "seconds": 0, "timing": 0, "results": results}


def test_a_backend_that_dies_while_loading_is_unusable(run):
    run(*TWO_VICTIMS, "--backend", crashing("crashes_while_loading")).expect_error(4, "killed by SIGSEGV")


def test_supports_that_crashes_is_an_error_of_the_backend(run):
    result = run(*TWO_VICTIMS, "--backend", crashing("CrashesInSupports"))
    assert {r["outcome"] for r in result.results.values()} == {"error"}
    assert all("SIGSEGV" in r["reason"] for r in result.results.values())


def test_shards_are_disjoint_complete_and_merge_to_the_whole(cli, run, tmp_path):
    parts = [run("--op", "voxel_pooling_forward", "--tag", "boundary", "--shard", f"{i}/3") for i in (1, 2, 3)]
    whole = run("--op", "voxel_pooling_forward", "--tag", "boundary")
    ids = [case for part in parts for case in part.results]
    assert sorted(ids) == sorted(whole.results)
    assert len(set(ids)) == len(ids)
    assert cli("merge", *(p.folder for p in parts), "--out", tmp_path / "merged").code == 0
    merged = json.loads((tmp_path / "merged" / "report.json").read_text())
    assert merged["summary"] == whole.report["summary"]
    assert sorted(r["case"] for r in merged["results"]) == sorted(whole.results)
    cli("merge", *(p.folder for p in parts[:2]), "--out", tmp_path / "m2").expect_error(
        3, "3/3. Name the folder of every shard"
    )
    assert cli("merge", *(p.folder for p in parts), parts[0].folder, "--out", tmp_path / "m3").code == 3
    other = run("--op", "voxel_pooling_forward", "--tag", "boundary", "--shard", "3/3", "--backend", "reference")
    cli("merge", parts[0].folder, parts[1].folder, other.folder, "--out", tmp_path / "m4").expect_error(3, "backend")


# Stays in the call that STOP_AT counts, if it is set.
STOPS = """
import os
import time
from tests.support.wrong_backends import Exact

class Stops(Exact):
    calls = 0

    def run(self, call):
        if self.calls == int(os.environ.get("STOP_AT", -1)):
            time.sleep(600)
        self.calls += 1
        return super().run(call)
"""


def command(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "mluops_gtest", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, **options,
    )  # fmt: skip


def wait_for_lines(path, count):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if path.exists() and path.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.01)
    raise AssertionError(f"{path} never had {count} lines")


@pytest.fixture(scope="module")
def stopping(tmp_path_factory):
    path = tmp_path_factory.mktemp("stops") / "stops.py"
    path.write_text(STOPS)
    return ("--op", "masked_im2col_forward", "--tag", "random", "--backend", f"{path}:Stops")


@pytest.fixture(scope="module")
def undisturbed(stopping, tmp_path_factory):
    """The report of a run that nobody killed."""
    out = tmp_path_factory.mktemp("whole") / "results"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = command("run", *stopping, "--out", out, env=environment, cwd=out.parent)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return json.loads((out / "report.json").read_text())


def test_the_command_frees_its_own_memory_alone(tmp_path):
    """Python's allocator for debugging dies of a wrong free, which else kills one run of many, after its results."""
    words = ["run", "--op", "voxel_pooling_forward", "--tag", "smoke", "--isolate"]
    process = command(*words, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONMALLOC": "debug"})
    _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize("point", [0, 20, 43])
def test_a_killed_controller_loses_nothing(cli, stopping, undisturbed, tmp_path, point):
    """Killed after a number of cases, in the middle of the next one; the campaign kills at any moment."""
    out = tmp_path / "killed"
    process = command("run", *stopping, "--out", out, cwd=tmp_path, env={**os.environ, "STOP_AT": str(point)})
    wait_for_lines(out / "results.jsonl", point)
    workers = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert alive == []
    kept = [json.loads(line)["case"] for line in (out / "results.jsonl").read_text().splitlines()]
    assert len(kept) == point
    with (out / "results.jsonl").open("a") as file:
        file.write('{"case": "torn')
    cli("run", "--resume", out).expect_code(0)
    assert undated(json.loads((out / "report.json").read_text())) == undated(undisturbed)
    final = [json.loads(line)["case"] for line in (out / "results.jsonl").read_text().splitlines()]
    assert sorted(final) == sorted(r["case"] for r in undisturbed["results"])
    assert final[: len(kept)] == kept


def wait_until_ignored(pid, number):
    """Until the process ignores a signal, or is gone."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        status = Path(f"/proc/{pid}/status").read_text()
        ignored = next((line for line in status.splitlines() if line.startswith("SigIgn:")), "SigIgn: -1")
        if int(ignored.split()[1], 16) >> (number - 1) & 1:
            return
        time.sleep(0.01)
    raise AssertionError(f"signal {number} was never ignored")


def test_ctrl_c_writes_what_is_done_and_can_be_resumed(cli, stopping, tmp_path):
    out = tmp_path / "interrupted"
    process = command("run", *stopping, "--out", out, cwd=tmp_path, env={**os.environ, "STOP_AT": "5"})
    wait_for_lines(out / "results.jsonl", 5)
    os.kill(process.pid, signal.SIGINT)
    wait_until_ignored(process.pid, signal.SIGINT)
    os.kill(process.pid, signal.SIGINT)  # impatience costs nothing
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    report = json.loads((out / "report.json").read_text())
    assert report["interrupted"] is True
    assert report["summary"] == {"passed": 5, "not_run": len(report["results"]) - 5}
    assert "not_run" in printed
    assert f"Interrupted. To run what is left: mluops-test run --resume {out}" in printed.splitlines()
    assert cli("run", "--resume", out).code == 0
    assert set(json.loads((out / "report.json").read_text())["summary"]) == {"passed"}
