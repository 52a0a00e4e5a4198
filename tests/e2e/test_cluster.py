"""Cases on a real Dask cluster of three worker processes: the same report as on one machine, whatever is lost."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from mluops_gtest.cluster import opening
from mluops_gtest.errors import ExitCode
from tests.support.dask_needed import needs_dask

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default"), *needs_dask]
PROGRAM = Path(__file__).parents[1] / "support" / "dask_cluster.py"
KERNELS = """\
import os, signal, time
import mluops_gtest as mt


class Scaled(mt.NumpyBackend):
    name = "scaled"

    def run(self, call):
        status = super().run(call)
        if status == mt.Status.SUCCESS and call.operator == "voxel_pooling_forward":
            call.array("output_features")[..., -1] *= 1.01
        return status


class Slow(mt.NumpyBackend):
    name = "slow"

    def run(self, call):
        time.sleep(0.01)
        return super().run(call)


class Deadly(mt.NumpyBackend):
    name = "deadly"

    def run(self, call):
        if call.handle is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().run(call)


backend, slow, deadly = Scaled(), Slow(), Deadly()
"""


@contextlib.contextmanager
def started(workers, port=0):
    """The address of a cluster, and the process that holds its scheduler."""
    command = [sys.executable, str(PROGRAM), str(workers), str(port)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield process.stdout.readline().strip(), process
    finally:
        with contextlib.suppress(OSError):
            process.stdin.close()
            process.stdout.close()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture(scope="module")
def address():
    with started(3) as (address, _):
        yield address


@pytest.fixture
def kernels(tmp_path):
    file = tmp_path / "kernels.py"
    file.write_text(KERNELS)
    return file


def verdicts(results):
    """All that a result says, except for where and how long."""
    elsewhere = ("host", "device", "seconds", "repro", "debug")
    return {case: {k: v for k, v in result.items() if k not in elsewhere} for case, result in results.items()}


def test_the_report_is_that_of_one_machine(run, address, kernels):
    selected = ("--op", "voxel_pooling_forward", "-k", "bounds or twin or null", "--backend", kernels)
    here = run(*selected)
    there = run(*selected, "--cluster", address, "--ship", kernels)
    assert (
        (there.code, len(there.results)) == (here.code, len(here.results)) == (int(ExitCode.FAILED), len(here.results))
    )
    assert list(there.results) == list(here.results)
    assert verdicts(there.results) == verdicts(here.results)
    assert all(result["host"] for result in there.results.values())
    assert "is scaled by 1.01" in there.out


def test_a_file_of_the_user_travels(run, cli, address, tmp_path):
    assert cli("generate", "ball_query/*", "--tag", "smoke", "--out", tmp_path / "mine").code == 0
    result = run(tmp_path / "mine", "--cluster", address)
    assert result.code == 0
    assert set(result.results) == {path.as_posix() for path in (tmp_path / "mine").rglob("*.prototxt")}


def lines_in(folder):
    try:
        return (folder / "results.jsonl").read_bytes().count(b"\n")
    except OSError:
        return 0


def test_lost_workers_cost_nothing(run, address, kernels, tmp_path):
    """Two workers are killed while the run goes on; their cases run elsewhere, and each has one result."""
    from distributed import Client

    killed = []

    def kill(after):
        folder = next(iter(tmp_path.glob("results-*")), None)
        while folder is None or lines_in(folder) < after:
            time.sleep(0.02)
            folder = next(iter(tmp_path.glob("results-*")), None)
        with Client(address, set_as_default=False) as client:
            pids = client.run(os.getpid)
            pid = sorted(pids.values())[0]
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    def kill_twice():
        kill(5)
        kill(40)

    thread = threading.Thread(target=kill_twice, daemon=True)
    thread.start()
    result = run("--op", "ball_query", "--backend", f"{kernels}:slow", "--cluster", address, "--ship", kernels)
    thread.join(30)
    assert len(killed) == 2
    assert result.code == 0, result.out + result.err
    lines = (result.folder / "results.jsonl").read_text().splitlines()
    assert len(lines) == len(result.results) == result.report["summary"]["passed"]


def test_a_case_that_kills_its_workers_is_crashed_and_the_run_goes_on(run, address, kernels):
    """Without isolation the backend takes the worker itself with it."""
    result = run(
        *("ball_query/handle_null", "ball_query/nothing_missing_ok"),
        *("--backend", f"{kernels}:deadly", "--no-isolate", "--cluster", address, "--ship", kernels),
    )
    outcomes = {case: found["outcome"] for case, found in result.results.items()}
    assert outcomes == {"ball_query/handle_null": "crashed", "ball_query/nothing_missing_ok": "passed"}
    assert "the worker was lost 3 times while it ran this case" in result.out


@pytest.mark.slow(seconds=30)
def test_a_scheduler_that_is_lost_ends_the_run_and_it_can_be_resumed(run, cli, address, kernels, tmp_path):
    with started(1) as (other, process):

        def kill():
            while lines_in(tmp_path / "results-0") < 5:
                time.sleep(0.02)
            os.killpg(process.pid, signal.SIGKILL)

        thread = threading.Thread(target=kill, daemon=True)
        thread.start()
        result = run("--op", "ball_query", "--backend", f"{kernels}:slow", "--cluster", other, "--ship", kernels)
        thread.join(30)
    assert result.code == int(ExitCode.INTERRUPTED), result.out + result.err
    assert "not_run" in result.report["summary"]
    again = cli("run", "--resume", result.folder, "--cluster", address)
    assert again.code == 0, again.out + again.err
    assert f"{len(result.results)} passed" in again.out


def test_a_hunt_draws_here_and_calls_there(cli, address, kernels, tmp_path):
    """As on one machine: the same calls are drawn, the same cause is found and kept here, the next hunt goes on."""
    operator = "voxel_pooling_forward"
    hunt = ("fuzz", "--op", operator, "--backend", kernels, "--seed", "3")
    here = cli(*hunt, "--no-isolate", "--cases", "24", "--corpus", tmp_path / "here")
    cluster = ("--no-isolate", "--cluster", address, "--ship", kernels, "--corpus", tmp_path / "there")
    there = cli(*hunt, "--cases", "24", *cluster)
    assert (there.code, here.code) == (1, 1), there.out + there.err
    states = [json.loads((tmp_path / name / "state.json").read_text()) for name in ("here", "there")]
    assert states[0] == states[1]
    kept = [json.loads((tmp_path / name / "corpus.json").read_text())["cases"] for name in ("here", "there")]
    assert kept[1]
    assert [one["cause"] for one in kept[0]] == [one["cause"] for one in kept[1]]
    again = cli(*hunt, "--cases", "4", *cluster)
    assert f"{len(kept[1])} case" in again.out, again.out + again.err
    assert f", {len(kept[1])} still failing" in again.out
    assert f"{operator}     3            28" in again.out


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("__version__", "9.9", "has mluops-test 0.1.0, this is 9.9; install the same version there"),
        ("digest", {"ball_query": "0123"}, "has another lock of ball_query (prototxt/ball_query/baselines.lock)"),
    ],
)
def test_workers_that_differ_are_refused_by_name(run, address, monkeypatch, name, value, message):
    if name == "digest":
        monkeypatch.setattr(opening.worker, "content_digests", lambda *_: value)
    else:
        monkeypatch.setattr(opening, name, value)
    result = run("ball_query/nothing_missing_ok", "--cluster", address)
    assert result.code == int(ExitCode.BACKEND)
    assert "No worker of the cluster can run these cases." in result.err
    assert message in result.err


def test_a_backend_that_does_not_load_there_is_told(run, address, tmp_path):
    file = tmp_path / "broken.py"
    file.write_text("import nowhere_at_all\n")
    result = run("ball_query/nothing_missing_ok", "--cluster", address, "--backend", file, "--ship", file)
    assert result.code == int(ExitCode.BACKEND)
    assert "No module named 'nowhere_at_all'" in result.err


def test_a_function_may_make_the_cluster(run, address, tmp_path):
    (tmp_path / "mine.py").write_text(f"def make():\n    return {address!r}\n")
    assert run("ball_query/nothing_missing_ok", "--cluster", f"{tmp_path}/mine.py:make").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--cluster", "local:0"), "write the number of processes"),
        (("--cluster", "nowhere"), "write tcp://HOST:PORT, local:N or path/file.py:FUNCTION"),
        (("--cluster", "none.py:make"), "there is no file none.py"),
        (("--cluster", "local:2", "-j", "2"), "-j does not go with --cluster"),
        (("--cluster", "local:2", "--save-outputs", "all"), "outputs stay on the workers"),
        (("--cluster", "local:2", "--stress", "5"), "e.g. --stress 20x"),
        (("--ship", "cases.txt"), "add --cluster ADDRESS"),
        (("--cluster", "local:2", "--ship", "cases.txt"), "--backend numpy does not name that file"),
    ],
)
def test_what_makes_no_sense_is_refused(cli, arguments, message):
    Path("cases.txt").write_text("")
    result = cli("run", "ball_query/nothing_missing_ok", "--out", "r", *arguments)
    assert (result.code, message in result.err) == (int(ExitCode.USAGE), True), result.err


def test_without_dask_the_message_says_what_to_install(cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    result = cli("run", "ball_query/nothing_missing_ok", "--out", "r", "--cluster", "local:2")
    assert result.code == int(ExitCode.USAGE)
    assert "pip install 'mluops-test[dask]'" in result.err
