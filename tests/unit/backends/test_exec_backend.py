"""exec:COMMAND by programs that are wrong in one way each; most are shell scripts of a few lines."""

import contextlib
import gc
import json
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mluops_gtest.backends import exec_backend
from mluops_gtest.backends import exec_backend as served
from mluops_gtest.backends.exec_backend import ExecBackend
from mluops_gtest.base.errors import BackendError
from mluops_gtest.casefiles.writer import CallFolderWriter
from mluops_gtest.catalog.operators import load_operator
from mluops_gtest.core.call import Declined, OpCall, Status, TensorArg
from mluops_gtest.core.case import Expect
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.tensor import DType, Layout, Tensor, TensorDesc
from mluops_gtest.running.case_run import Options
from mluops_gtest.running.timing import Sampling
from tests.support.shell_programs import ANSWER, COPY, GOOD, SERVE, execute, gone, scale_call, scale_case, vector
from tests.support.toy_root import write_toy_root


@pytest.fixture(scope="module")
def operator(tmp_path_factory):
    return load_operator(write_toy_root(tmp_path_factory.mktemp("toy")) / "generators" / "scale_by.py")


@pytest.fixture
def adapter(tmp_path, operator):
    """Makes the backend of a shell script; closes it afterwards."""
    with contextlib.ExitStack() as stack:

        def make(script, serve=False):
            path = tmp_path / "program.sh"
            path.write_text(SERVE.format(body=script) if serve and "read -r" not in script else script)
            backend = ExecBackend(f"sh {path}", CallFolderWriter({operator.name: operator}), serve)
            stack.callback(backend.close)
            return backend

        yield make


both_ways = pytest.mark.parametrize("serve", [False, True], ids=["started", "served"])


def answer(**message):
    """A line that answers so."""
    return f"echo '{json.dumps(message)}' > $1/result.json\n"


@both_ways
def test_a_shell_script_is_a_kernel(adapter, operator, serve):
    backend = adapter(GOOD, serve)
    result = execute(backend, operator, options=Options(repeat=3))
    assert (result.outcome, result.reason, result.status) == (Outcome.PASSED, "", Status.SUCCESS)
    assert result.notes == ()
    assert backend.name.startswith("exec:sh ")
    assert backend.healthy()


@both_ways
def test_an_empty_call_does_not_start_the_program(adapter, operator, serve, tmp_path):
    backend = adapter(f"echo once >> {tmp_path / 'starts'}\n{GOOD}", serve)
    result = execute(backend, operator, options=Options(sampling=Sampling(warmup=0, samples=3)))
    assert (result.outcome, result.perf.overhead_ns > 0) == (Outcome.PASSED, True)
    assert len((tmp_path / "starts").read_text().splitlines()) == 1 + 3


@both_ways
@pytest.mark.parametrize(
    ("script", "words"),
    [
        (ANSWER, "y.out was not written (0 bytes); the buffer of y has 16"),
        (f"head -c 12 $1/x.in > $1/y.out\n{ANSWER}", "y.out holds 12 bytes; the buffer of y has 16"),
        (f"cat $1/x.in $1/x.in > $1/y.out\n{ANSWER}", "y.out holds 32 bytes; the buffer of y has 16"),
        (f"mkfifo $1/y.out\n{ANSWER}", "y.out cannot be read: it is not a regular file"),
        (f"mkdir $1/y.out\n{ANSWER}", "y.out cannot be read: it is not a regular file"),
        (f"ln -s /dev/zero $1/y.out\n{ANSWER}", "y.out cannot be read: it is not a regular file"),
        (f"ln -s y.out $1/y.out\n{ANSWER}", "y.out cannot be read: Too many levels of symbolic links"),
    ],
    ids=["missing", "short", "long", "pipe", "folder", "device", "loop"],
)
def test_an_output_that_is_not_the_buffer_is_a_memory_fault(adapter, operator, serve, script, words):
    result = execute(adapter(f"echo some words >&2\n{script}", serve), operator)
    assert (result.outcome, result.reason) == (Outcome.MEMORY, words)
    assert any(note.endswith("printed:\nsome words") for note in result.notes)


def test_a_refused_call_that_writes_is_seen(adapter, operator):
    """Whatever the status, a file of the right size reaches the buffer, where the harness looks for writes."""
    flat = TensorDesc(DType.FLOAT, Layout.ARRAY, (2, 2))
    negative = scale_case(
        inputs=(Tensor("x", flat, None),),
        outputs=(Tensor("y", replace(flat, dims=(4,)), None),),
        expect=Expect(Status.BAD_PARAM, "x_rank"),
    )
    refusal = answer(status="BAD_PARAM")
    assert execute(adapter(refusal), operator, negative).outcome is Outcome.PASSED
    result = execute(adapter(COPY + refusal), operator, negative)
    assert result.outcome is Outcome.FAILED
    assert "y" in result.reason
    assert execute(adapter(f"echo > $1/y.out\n{refusal}"), operator, negative).outcome is Outcome.MEMORY


def test_an_early_return_need_not_write(adapter, operator):
    nothing = scale_case(inputs=(vector("x"),), outputs=(vector("y"),), expect=Expect(Status.SUCCESS, "x_empty"))
    assert execute(adapter(ANSWER), operator, nothing).outcome is Outcome.PASSED


@both_ways
@pytest.mark.parametrize("name", ["SEGV", "ABRT", "KILL"])
def test_death_by_a_signal_is_a_crash(adapter, operator, serve, name):
    result = execute(adapter(f"echo about to fail >&2\n{GOOD}kill -{name} $$\nsleep 9\n", serve), operator)
    assert result.outcome is Outcome.CRASHED
    assert f"died by SIG{name}. Last printed: about to fail" in result.reason
    assert execute(adapter(GOOD, serve), operator).outcome is Outcome.PASSED


@both_ways
@pytest.mark.parametrize(
    ("script", "outcome", "words"),
    [
        (f"head -c 16 /dev/zero > $1/y.out\n{ANSWER}", Outcome.FAILED, ["y: diff"]),
        ("echo oops >&2; exit 3\n", Outcome.ERROR, ["exited with 3", "Last printed: oops"]),
        (f"{GOOD}exit 3\n", Outcome.ERROR, ["exited with 3", "result.json does not count"]),
        (f"echo forgot\n{COPY}", Outcome.ERROR, ["without a status: it wrote no result.json. Last printed: forgot"]),
        (answer(declined="no float here"), Outcome.SKIPPED, ["declined: no float here"]),
        (answer(status=3, notes=["y_desc"]), Outcome.WRONG_STATUS, ["answered BAD_PARAM (y_desc), expected SUCCESS"]),
    ],
    ids=["wrong values", "exits", "answers and exits", "no status", "declines", "another status"],
)
def test_what_a_program_does_wrong_has_its_outcome(adapter, operator, serve, script, outcome, words):
    result = execute(adapter(script, serve), operator)
    assert result.outcome is outcome
    assert all(word in result.reason for word in words), result.reason


def test_a_started_program_that_answers_is_told_to_exit_with_0(adapter, operator):
    assert "exits with 0, whatever the status" in execute(adapter(f"{GOOD}exit 3\n"), operator).reason


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not JSON"),
        ("[" * 100000, "is not JSON"),
        ("7", "must hold an object; found 7"),
        ("{}", "has no status; known: 0 SUCCESS"),
        ('{"status": 9}', "unknown status 9; known: 0 SUCCESS"),
        ('{"status": true}', "unknown status True"),
        ('{"status": "success"}', "unknown status 'success'"),
        ('{"status": 0, "scalar": {}}', "has unknown keys; known: status, scalars"),
        ('{"status": 0, "scalars": {"n": 1.5}}', "scalars: must be an object of integers"),
        ('{"status": 0, "scalars": {"n": true}}', "scalars: must be an object of integers"),
        ('{"status": 0, "notes": "one"}', "notes: must be a list of strings"),
        ('{"status": 0, "device_seconds": -1}', "device_seconds is -1; it must be a number of seconds"),
        ('{"status": 0, "device_seconds": NaN}', "device_seconds is nan; it must be"),
        ('{"status": 0, "device_seconds": 1e7}', "device_seconds is 10000000.0; it must be"),
        ('{"status": 0, "device_seconds": true}', "device_seconds is True; it must be"),
        (f'{{"status": 0, "device_seconds": 1{"0" * 400}}}', "device_seconds is an int of 1329 bits; it must be"),
        ('{"declined": 1}', "declined: must be the reason"),
        (" " * exec_backend.RESULT_BYTES + "{}", f"holds {exec_backend.RESULT_BYTES + 2} bytes; at most"),
    ],
)
def test_a_result_is_checked(tmp_path, text, words):
    path = tmp_path / "result.json"
    path.write_text(text)
    with pytest.raises(exec_backend.ProgramError) as error:
        exec_backend.read_answer(path)
    assert words in str(error.value)
    assert len(str(error.value)) < 500


def test_a_result_that_is_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "result.json")
    with pytest.raises(exec_backend.ProgramError, match="not a regular file"):
        exec_backend.read_answer(tmp_path / "result.json")


@both_ways
def test_what_a_program_tells_arrives(adapter, operator, serve):
    message = {"status": "SUCCESS", "scalars": {"count": 2**40}, "notes": ["used plan B"], "device_seconds": 0.25}
    backend = adapter(COPY + answer(**message), serve)
    call = scale_call()
    assert backend.run(call) is Status.SUCCESS
    assert (call.scalars, call.notes) == ({"count": 2**40}, ["used plan B"])
    assert call.array("y").tolist() == [1.5, -2.0, 3.25, 8.0]
    assert backend.device_seconds() == 0.25


def test_a_time_does_not_outlive_its_call(adapter):
    """The second call measures nothing."""
    timed = '{"status": 0, "device_seconds": 1}'
    backend = adapter(f"{COPY}test -e $0.used && {ANSWER.strip()} || echo '{timed}' > $1/result.json\ntouch $0.used\n")
    times = []
    for _ in range(2):
        backend.run(scale_call())
        times.append(backend.device_seconds())
    assert times == [1.0, None]


@both_ways
def test_of_what_is_printed_head_and_tail_are_kept(adapter, operator, serve):
    program = "echo the start >&2; head -c 3000000 /dev/zero | tr '\\0' x >&2; echo >&2; echo the end >&2\n"
    result = execute(adapter(program, serve), operator)
    (printed,) = (note for note in result.notes if "printed:\n" in note)
    assert printed.endswith("x\nthe end")
    assert "printed:\nthe start\nx" in printed
    assert f"[… {3_000_000 + 19 - 16384} bytes cut …]" in printed
    assert len(printed) < 17_000
    assert len(result.reason) < exec_backend.LAST_LETTERS + 200


@both_ways
def test_what_a_good_program_prints_is_passed_on(adapter, operator, serve, capfd):
    result = execute(adapter(f"echo hello\necho world >&2\n{GOOD}", serve), operator)
    assert result.outcome is Outcome.PASSED
    assert sorted(capfd.readouterr().err.split()) == ["hello", "world"]


# The process


def test_the_folder_goes_with_the_call(adapter, operator, tmp_path):
    backend = adapter(f'echo "$1" >> {tmp_path}/folders\nchmod 500 "$1"\nls "$1" >> {tmp_path}/names\nexit 1\n')
    execute(backend, operator)
    (folder,) = (tmp_path / "folders").read_text().splitlines()
    assert os.path.isabs(folder)
    assert not os.path.exists(folder)
    assert (tmp_path / "names").read_text().split() == ["call.json", "call.txt", "case.pb", "x.in"]


@both_ways
def test_calls_can_be_kept(adapter, operator, tmp_path, monkeypatch, serve):
    monkeypatch.setenv("MLUOPS_TEST_KEEP_CALLS", str(tmp_path / "new" / "kept"))
    execute(adapter(GOOD, serve), operator, options=Options(repeat=2))
    kept = sorted((tmp_path / "new" / "kept").iterdir())
    assert [folder.name.partition("-")[0] for folder in kept] == ["scale_by", "scale_by"]
    names = {"call.json", "call.txt", "case.pb", "x.in", "y.out", "result.json"}
    assert {path.name for path in kept[0].iterdir()} == names


def test_the_program_runs_where_the_user_is(operator, tmp_path, monkeypatch):
    """Relative paths in the command mean what they mean in the user's shell; also with blanks."""
    monkeypatch.chdir(tmp_path)
    Path("my kernel.sh").write_text(f"#!/bin/sh\ntest -e 'my kernel.sh' || exit 9\n{GOOD}")
    Path("my kernel.sh").chmod(0o755)
    backend = ExecBackend("'./my kernel.sh'", CallFolderWriter({operator.name: operator}))
    assert execute(backend, operator).outcome is Outcome.PASSED
    Path("my kernel.sh").unlink()
    assert not backend.healthy()
    result = execute(backend, operator)
    assert result.outcome is Outcome.ERROR
    assert "my kernel.sh cannot be started: No such file" in result.reason


@both_ways
def test_the_program_stays_in_our_process_group(adapter, operator, serve, tmp_path):
    """Whoever kills the harness with its group must end the program, too."""
    execute(adapter(f"cut -d' ' -f5 /proc/$$/stat > {tmp_path}/group\n{GOOD}", serve), operator)
    assert int((tmp_path / "group").read_text()) == os.getpgrp()


@both_ways
@pytest.mark.parametrize("device", [None, 3])
def test_the_device_is_told_twice(adapter, serve, device, tmp_path, monkeypatch):
    monkeypatch.delenv("MLUOPS_TEST_DEVICE", raising=False)
    backend = adapter(
        f'echo "${{MLUOPS_TEST_DEVICE-unset}}" > {tmp_path}/device\ncp $1/call.json {tmp_path}\n{GOOD}', serve
    )
    assert backend.run(scale_call(device=device)) is Status.SUCCESS
    assert (tmp_path / "device").read_text().strip() == ("unset" if device is None else "3")
    assert json.loads((tmp_path / "call.json").read_text())["device"] == device


@both_ways
def test_an_interrupted_call_leaves_no_process_and_no_folder(adapter, serve, tmp_path, monkeypatch):
    """Ctrl-C while the program works, and we take what it prints."""
    drain = exec_backend.OutputPipe.drain

    def interrupt(output):
        drain(output)
        if (tmp_path / "who").exists():  # it is there before anything is printed
            # Not by a signal: whoever starts the tests in the background lets it be ignored.
            raise KeyboardInterrupt

    monkeypatch.setattr(exec_backend.OutputPipe, "drain", interrupt)
    backend = adapter(
        f"echo $$ $1 > {tmp_path}/new\nmv {tmp_path}/new {tmp_path}/who\necho hello\nexec sleep 60\n", serve
    )
    with pytest.raises(KeyboardInterrupt):
        backend.run(scale_call())
    monkeypatch.undo()
    pid, folder = (tmp_path / "who").read_text().split()
    assert gone(int(pid))
    assert not os.path.exists(folder)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("", "needs a program"),
        ("'sh", "No closing quotation"),
        ("no-such-program-anywhere x", "'no-such-program-anywhere': no such program is on PATH"),
        ("./missing", "'./missing': there is no such program. Relative paths start in"),
        ("kernel.py", "write ./kernel.py"),
        ("./kernel.py", "not executable. chmod +x ./kernel.py, or name its interpreter"),
        ("./folder", "'./folder': there is no such program"),
    ],
)
def test_a_command_that_cannot_run_is_refused_at_once(command, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("kernel.py").write_text("")
    Path("folder").mkdir()
    with pytest.raises(BackendError) as error:
        ExecBackend(command, CallFolderWriter({}))
    assert words in str(error.value)


def test_a_file_without_a_first_line_cannot_be_started(operator, tmp_path):
    path = tmp_path / "kernel"
    path.write_bytes(b"\x7fELF nonsense")
    path.chmod(0o755)
    result = execute(ExecBackend(str(path), CallFolderWriter({operator.name: operator})), operator)
    assert result.outcome is Outcome.ERROR
    assert "cannot be started: Exec format error" in result.reason


def test_a_strided_output_comes_back_with_its_gaps(adapter):
    """The file is the whole buffer, from the first element to the last that the strides reach."""
    desc = TensorDesc(DType.FLOAT, Layout.ARRAY, (2, 2), (3, 1))
    buffer = np.full(desc.extent, -1, "<f4")
    values = np.arange(5, dtype="<f4")
    call = OpCall(
        "scale_by",
        {"factor": 1},
        {"x": TensorArg(TensorDesc(DType.FLOAT, Layout.ARRAY, (5,)), values)},
        {"y": TensorArg(desc, desc.view(buffer))},
    )
    assert adapter(GOOD).run(call) is Status.SUCCESS
    assert buffer.tolist() == [0, 1, 2, 3, 4]


def test_a_decline_is_no_failure_to_print(adapter):
    backend = adapter("echo noise >&2\n" + answer(declined="later"))
    call = scale_call()
    with pytest.raises(Declined):
        backend.run(call)
    assert call.notes == []


@pytest.mark.skipif(sys.platform != "linux", reason="counts open files in /proc")
@both_ways
def test_no_file_stays_open(adapter, operator, serve):
    backend = adapter(f"{GOOD}mkfifo $1/z.out\n", serve)
    execute(backend, operator)
    backend.close()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        execute(backend, operator)
        backend.close()
    assert len(os.listdir("/proc/self/fd")) == before


WITH_PID = f"echo $$ >> $0.pids\n{GOOD}"


def pids(tmp_path):
    return [int(line) for line in (tmp_path / "program.sh.pids").read_text().split()]


def test_one_process_serves_many_calls_and_ends_when_closed(adapter, operator, tmp_path):
    backend = adapter(WITH_PID, serve=True)
    for _ in range(3):
        assert execute(backend, operator).outcome is Outcome.PASSED
    assert len(set(pids(tmp_path))) == 1
    assert not gone(pids(tmp_path)[0])
    backend.close()
    assert gone(pids(tmp_path)[0])
    assert execute(backend, operator).outcome is Outcome.PASSED
    assert len(set(pids(tmp_path))) == 2


@pytest.mark.slow
def test_a_forgotten_backend_leaves_no_process(operator, tmp_path):
    path = tmp_path / "program.sh"
    path.write_text(SERVE.format(body=WITH_PID))
    backend = ExecBackend(f"sh {path}", CallFolderWriter({operator.name: operator}), serve=True)
    assert execute(backend, operator).outcome is Outcome.PASSED
    del backend
    gc.collect()
    assert gone(pids(tmp_path)[0])


def test_a_server_that_does_not_end_is_killed(adapter, operator, tmp_path, monkeypatch):
    monkeypatch.setattr(served, "GRACE", 0.05)
    backend = adapter(SERVE.format(body=WITH_PID) + "trap '' TERM\nwhile :; do sleep 0.05; done\n", serve=True)
    assert execute(backend, operator).outcome is Outcome.PASSED
    backend.close()
    assert gone(pids(tmp_path)[0])


def test_a_crash_costs_one_call(adapter, operator, tmp_path):
    """The second of three calls dies; the third is served by a new process."""
    backend = adapter(f"{WITH_PID}test $(wc -l < $0.pids) = 2 && kill -ABRT $$\n", serve=True)
    results = [execute(backend, operator) for _ in range(3)]
    assert [result.outcome for result in results] == [Outcome.PASSED, Outcome.CRASHED, Outcome.PASSED]
    assert "SIGABRT" in results[1].reason
    assert results[2].notes == ()
    first, second, third = pids(tmp_path)
    assert first == second != third


def test_a_death_between_calls_is_noted_at_the_next(adapter, operator, tmp_path):
    script = f"read -r folder\nset -- $folder\n{WITH_PID}echo done\nkill -SEGV $$\n"
    backend = adapter(script, serve=True)
    assert execute(backend, operator).outcome is Outcome.PASSED
    backend._program._service.process.wait()
    result = execute(backend, operator)
    assert result.outcome is Outcome.PASSED
    assert result.notes == ("the served program died by SIGSEGV after the call before this one and was started again",)


def test_lines_that_are_not_done_are_its_printing(adapter, operator):
    chatter = (
        "echo almost done\nhead -c 300000 /dev/zero | tr '\\0' y\necho\nprintf 'done\\r\\n'\nprintf 'done\\nrest'\n"
    )
    backend = adapter(GOOD + chatter, serve=True)
    assert [execute(backend, operator).outcome for _ in range(3)] == [Outcome.PASSED] * 3


def test_a_late_done_answers_no_other_call(adapter, operator):
    """Said twice in one breath, then not at all: the second call must not be taken as done."""
    script = f"read -r folder\nset -- $folder\n{GOOD}printf 'done\\ndone\\n'\nread -r folder\nexit 5\n"
    backend = adapter(script, serve=True)
    assert execute(backend, operator).outcome is Outcome.PASSED
    result = execute(backend, operator)
    assert result.outcome is Outcome.ERROR
    assert "exited with 5 before it said 'done'" in result.reason


def test_a_server_that_turns_silent_is_an_error(adapter, operator, monkeypatch, tmp_path):
    monkeypatch.setattr(served, "GRACE", 0.05)
    backend = adapter(f"read -r folder\necho $$ > {tmp_path}/pid\nexec 1>&-\nexec sleep 60\n", serve=True)
    result = execute(backend, operator)
    assert result.outcome is Outcome.ERROR
    assert "closed its output without the line 'done'" in result.reason
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_dead_server_is_noticed_though_its_child_holds_the_pipe(adapter, operator, tmp_path):
    backend = adapter(f"read -r folder\nsleep 60 &\necho $! > {tmp_path}/child\nkill -SEGV $$\n", serve=True)
    try:
        assert "died by SIGSEGV" in execute(backend, operator).reason
    finally:
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def test_another_device_gets_another_process(adapter, tmp_path):
    backend = adapter(f"echo $MLUOPS_TEST_DEVICE >> $0.devices\n{WITH_PID}", serve=True)
    for device in (0, 0, 1):
        backend.run(scale_call(device=device))
    assert (tmp_path / "program.sh.devices").read_text().split() == ["0", "0", "1"]
    first, second, third = pids(tmp_path)
    assert first == second != third


def test_serving_starts_nothing_before_the_first_call(adapter, tmp_path):
    adapter("touch $0.started\nread -r folder\n", serve=True).close()
    assert not (tmp_path / "program.sh.started").exists()


def test_a_waiting_call_costs_no_processor_time(adapter):
    """Waiting for a served program is sleeping, not looking all the time."""
    backend = adapter(f"sleep 0.5\n{GOOD}", serve=True)
    before = time.process_time()
    backend.run(scale_call())
    assert time.process_time() - before < 0.4
