"""Cases on a real Dask cluster of three worker processes: the same report as on one machine, whatever is lost."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from mluops_gtest.cluster import dispatch, opening
from mluops_gtest.engine.confirming import UNCONFIRMED
from mluops_gtest.errors import ExitCode
from tests.e2e.conftest import SUPPORT
from tests.support import lying_workers
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
def started(workers, port=0, protocol="tcp://"):
    """The address of a cluster, and the process that holds its scheduler."""
    command = [sys.executable, str(PROGRAM), str(workers), str(port), protocol]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(PROGRAM.parents[2])},
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
    """All that a result says, except for where and how long, and which of many failures that worker confirmed."""
    elsewhere = ("host", "device", "judged_by", "seconds", "repro", "debug")

    def verdict(result):
        notes = [note for note in result["notes"] if note != UNCONFIRMED]
        return {**{k: v for k, v in result.items() if k not in elsewhere}, "notes": notes}

    return {case: verdict(result) for case, result in results.items()}


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


def test_the_outputs_of_a_verdict_alone_are_those_that_are_judged_here(run, toy):
    """The first call of the smaller case, which comes last, failed; its worker must not be taken for a liar."""
    ids = [f"scale_by/ramp_{n}" for n in (3, 4)]
    kernels = SUPPORT / "remembering_backends.py"
    with started(1) as (address, _):
        cluster = ("--cluster", address, "--ship", kernels, "--judge-here")
        result = run(*ids, "--root", toy, "--backend", f"{kernels}:NamesAfter4", *cluster)
    assert result.code == 0, result.out
    assert "its verdict alone" in result.results[ids[0]]["notes"][-1]


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


@contextlib.contextmanager
def one_lies(address, plant, *arguments, workers=3, **named):
    """The address of one worker of the cluster that lies meanwhile."""
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        # Others take over what the liar loses.
        client.wait_for_workers(workers, timeout=60)
        liar = sorted(client.scheduler_info(n_workers=-1)["workers"])[0]
        client.run(plant, *arguments, **named, workers=[liar])
        try:
            yield liar
        finally:
            client.run(lying_workers.repent)


@pytest.mark.parametrize("lie", lying_workers.LIES)
def test_a_wrong_answer_costs_the_worker(run, cli, address, lie, monkeypatch):
    """It is named and gets nothing more; its cases run elsewhere, and the gate takes the report."""
    monkeypatch.setattr(dispatch, "_MIN_SILENCE", 3.0)
    with one_lies(address, lying_workers.plant, lie) as liar:
        result = run("--op", "ball_query", "--tag", "smoke", "--cluster", address, "--timeout", "1", "--isolate")
    assert result.code == 0, result.out + result.err
    (complaint,) = [line for line in result.err.splitlines() if liar in line]
    assert any(words in complaint for words in lying_workers.LIES[lie][1].split("|")), complaint
    assert {one["outcome"] for one in result.results.values()} == {"passed"}
    assert lines_in(result.folder) == len(result.results) > 3
    assert cli("gate", result.folder, "--against", result.folder).code == 0


WRONG = ("--op", "voxel_pooling_forward", "-k", "bounds or twin or null", "--backend")


@pytest.mark.parametrize(
    ("plant", "named", "words"),
    [
        ("call_failures_passed", {}, "passed, and its outputs are failed here"),
        ("call_failures_passed", {"without_outputs": True}, "passed, and its outputs are failed here"),
        ("change_outputs", {}, "are not those that it named before"),
        ("hand_over_nothing", {}, "it handed over 0 outputs instead of 1"),
    ],
)
def test_a_wrong_verdict_costs_the_worker_all_its_cases(run, cli, address, kernels, plant, named, words):
    here = run(*WRONG, kernels)
    with one_lies(address, getattr(lying_workers, plant), **named) as liar:
        every = ("--judge-here",) if plant == "call_failures_passed" and not named else ()
        there = run(*WRONG, kernels, "--cluster", address, "--ship", kernels, *every)
    assert (there.code, there.report["summary"]) == (here.code, here.report["summary"]), there.err
    (complaint,) = [line for line in there.err.splitlines() if liar in line]
    assert words in complaint
    assert verdicts(there.results) == verdicts(here.results)
    assert "9 still failing" in cli("gate", there.folder, "--against", here.folder).out


def test_verdicts_that_counted_are_taken_back(run, address, kernels):
    """The worker lies from its second batch on; what it said before has been written, and does not count any more."""
    here = run(*WRONG, kernels)
    with one_lies(address, lying_workers.call_failures_passed, 1) as liar:
        there = run(*WRONG, kernels, "--cluster", address, "--ship", kernels, "--judge-here")
    assert liar in there.err
    assert verdicts(there.results) == verdicts(here.results)
    assert there.report["summary"] == here.report["summary"]
    assert lines_in(there.folder) == len(there.results)


def test_the_report_says_who_judged(run, address, kernels):
    selected = ("--op", "ball_query", "--backend", f"{kernels}:slow", "--cluster", address, "--ship", kernels)
    drawn, everything = run(*selected), run(*selected, "--judge-here")
    assert (drawn.code, everything.code) == (0, 0), drawn.err + everything.err
    by_workers = [result for result in drawn.results.values() if result.get("judged_by") == "worker"]
    # One of each of three workers, and 2 % of the others: 20 of 100 are out of reach.
    assert 0.8 * len(drawn.results) < len(by_workers) <= len(drawn.results) - 3
    assert not any("judged_by" in result for result in everything.results.values())


def test_where_all_workers_answer_wrongly_the_run_ends_and_says_why(run):
    with started(1) as (other, _), one_lies(other, lying_workers.plant, "noise", workers=1) as liar:
        result = run("ball_query/handle_null", "--cluster", other)
    assert result.code == int(ExitCode.INTERRUPTED)
    assert f"no worker of the cluster can be used any more: the worker {liar}" in result.out


def test_a_stopped_worker_costs_its_timeout(run, address, kernels, tmp_path, monkeypatch):
    from distributed import Client

    monkeypatch.setattr(dispatch, "_MIN_SILENCE", 3.0)
    stopped = []

    def stop():
        while lines_in(tmp_path / "results-0") < 5:
            time.sleep(0.02)
        with Client(address, set_as_default=False) as client:
            worker, pid = sorted(client.run(os.getpid).items())[0]
        os.kill(pid, signal.SIGSTOP)
        stopped.extend((worker, pid))

    thread = threading.Thread(target=stop, daemon=True)
    thread.start()
    began = time.monotonic()
    selected = ("--op", "ball_query", "--backend", f"{kernels}:slow", "--timeout", "1")
    try:
        result = run(*selected, "--cluster", address, "--ship", kernels)
    finally:
        thread.join(30)
        os.kill(stopped[1], signal.SIGCONT)
    assert result.code == 0, result.out + result.err
    assert f"nothing was heard of the worker {stopped[0]} for 3 s" in result.err
    assert time.monotonic() - began < 60


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


def certificate(folder):
    """A certificate of one's own for everybody, which is its own authority: Dask's settings."""
    make = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=test")
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run([*make, "-keyout", key, "-out", cert], check=True, capture_output=True)
    files = {
        f"{role}.{part}": file
        for role in ("scheduler", "worker", "client")
        for part, file in (("cert", cert), ("key", key))
    }
    return {f"distributed.comm.tls.{name}": str(file) for name, file in {"ca-file": cert, **files}.items()}


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_a_cluster_of_members_with_certificates(run, tmp_path, monkeypatch):
    import dask
    import distributed  # noqa: F401  its own settings come with it

    settings = certificate(tmp_path)
    for name, value in settings.items():
        monkeypatch.setenv(f"DASK_{name.upper().replace('.', '__').replace('-', '_')}", value)
    selected = ("--op", "ball_query", "--tag", "smoke", "--cluster")
    with started(2, protocol="tls://") as (secured, _):
        assert secured.startswith("tls://")
        with dask.config.set(settings):
            result = run(*selected, secured)
        assert result.code == 0, result.out + result.err
        with dask.config.set(dict.fromkeys(settings)):
            without = run(*selected, secured)
    assert (without.code, "no certificate is set" in without.err) == (int(ExitCode.USAGE), True), without.err
    with dask.config.set({**settings, "distributed.comm.tls.ca-file": str(tmp_path / "none.pem")}):
        missing = run(*selected, secured)
    assert (missing.code, "the certificate cannot be used" in missing.err) == (int(ExitCode.USAGE), True), missing.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--cluster", "tls://node1:8786"), "DASK_DISTRIBUTED__COMM__TLS__CA_FILE"),
        (("--cluster", "ucx://node1:8786"), "install distributed-ucxx on every machine"),
        (("--cluster", "udp://node1:8786"), "Dask cannot use udp:// here"),
        (("--cluster", "local:0"), "write the number of processes"),
        (("--cluster", "nowhere"), "write tcp://HOST:PORT, tls://HOST:PORT"),
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
