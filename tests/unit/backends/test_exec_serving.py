"""exec:COMMAND with serve: one process, a line with a folder in, a line `done` out."""

import gc
import os
import signal
import time

import pytest

from mluops_gtest.backends import exec_backend as served
from mluops_gtest.backends.exec_backend import ExecBackend
from mluops_gtest.casefiles.writer import CallFolderWriter
from mluops_gtest.core.outcome import Outcome
from tests.support.shell_programs import GOOD, SERVE, execute, gone, scale_call

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
    result = execute(
        adapter(f"read -r folder\necho $$ > {tmp_path}/pid\nexec 1>&-\nexec sleep 60\n", serve=True), operator
    )
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


def test_serving_starts_nothing_before_the_first_call(operator, tmp_path):
    path = tmp_path / "program.sh"
    path.write_text("touch $0.started\n")
    backend = ExecBackend(f"sh {path}", CallFolderWriter({operator.name: operator}), serve=True)
    backend.close()
    assert not (tmp_path / "program.sh.started").exists()


def test_a_waiting_call_costs_no_processor_time(adapter):
    """Waiting for a served program is sleeping, not looking all the time."""
    backend = adapter(f"sleep 0.5\n{GOOD}", serve=True)
    before = time.process_time()
    backend.run(scale_call())
    assert time.process_time() - before < 0.4
