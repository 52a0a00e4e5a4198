"""Each change is made in this very process and must be gone afterwards."""

import ctypes
import faulthandler
import os
import resource
import signal
import sys
import threading

import pytest

from mluops_gtest.running.workers.process_state import ProcessState

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


def raw_signal():
    """C's function signal."""
    raw = ctypes.CDLL(None)["signal"]
    raw.restype, raw.argtypes = ctypes.c_void_p, (ctypes.c_int, ctypes.c_void_p)
    return raw


@pytest.fixture(autouse=True)
def _faults_are_traced():
    before = faulthandler.is_enabled()
    yield
    if before and not faulthandler.is_enabled():
        faulthandler.enable()


def test_variables_that_only_c_knows(monkeypatch):
    library = ctypes.CDLL(None)
    library.getenv.restype = ctypes.c_char_p
    monkeypatch.setenv("KEPT", "a")
    state = ProcessState()
    for change in (lambda: library.setenv(b"KEPT", b"b", 1), lambda: library.unsetenv(b"KEPT")):
        library.setenv(b"ADDED_IN_C", b"c", 1)
        change()
        assert state.restore() == ()
        assert (library.getenv(b"KEPT"), library.getenv(b"ADDED_IN_C")) == (b"a", None)


def test_a_folder_that_is_gone_is_told(tmp_path, monkeypatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    state = ProcessState()
    os.chdir("/")
    folder.rmdir()
    (told,) = state.restore()
    assert "cannot be entered again" in told
    assert state.restore() == ()


def test_handlers_of_python_and_of_c():
    state = ProcessState()
    before = signal.getsignal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, lambda *_: None)
    assert state.restore() == ()
    assert signal.getsignal(signal.SIGUSR1) is before
    raw = raw_signal()
    raw(signal.SIGUSR2, ctypes.cast(ctypes.CDLL(None).abs, ctypes.c_void_p))
    assert state.restore() == ()
    assert raw(signal.SIGUSR2, None) is None  # SIG_DFL is 0


@linux
def test_the_handler_of_faults_is_put_back():
    faulthandler.enable()
    state = ProcessState()
    raw = raw_signal()
    other = ctypes.cast(ctypes.CDLL(None).abs, ctypes.c_void_p).value
    ours = raw(signal.SIGSEGV, other)
    assert state.restore() == ()
    assert raw(signal.SIGSEGV, ours) == ours
    faulthandler.disable()
    assert state.restore() == ()
    assert faulthandler.is_enabled()


def test_umask_timers_and_masks():
    state = ProcessState()
    umask = os.umask(0o77)
    signal.setitimer(signal.ITIMER_REAL, 600)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    assert state.restore() == ()
    assert os.umask(umask) == umask
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
    assert signal.SIGUSR1 not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_hard_limit_that_was_lowered_is_told(monkeypatch):
    """As for a user who is not root."""
    state = ProcessState()
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (1 << 22, hard))

    def refuse(*_):
        raise ValueError("not allowed to raise maximum limit")

    with monkeypatch.context() as patch:
        patch.setattr(resource, "setrlimit", refuse)
        assert state.restore() == ("lowered the limit RLIMIT_STACK for good",)
        assert state.restore() == ()
    resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))


def test_a_thread_is_told_once_and_only_while_it_runs():
    state = ProcessState()
    done = threading.Event()
    threading.Thread(target=lambda: None).start()
    thread = threading.Thread(target=done.wait, name="idle", daemon=True)
    thread.start()
    assert state.restore() == ()
    assert state.is_busy
    assert state.settle() == ("left the thread 'idle' running",)
    assert state.restore() == ()
    done.set()
    thread.join()
