"""What one call changes in its process and the next one must not meet."""

import atexit
import builtins
import ctypes
import gc
import os
import random
import resource
import signal
import sys
import tempfile
import threading
import time

import msgspec
import numpy as np

from tests.campaign.faults import fault, faults
from tests.campaign.floats import change_floats

# What must outlive its call.
KEPT = []


faults(
    "state",
    "passed",
    changes_the_folder=lambda call: os.chdir("/"),
    clears_the_environment=lambda call: os.environ.clear(),
    blocks_signals=lambda call: signal.pthread_sigmask(
        signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD, signal.SIGINT}
    ),
    leaves_a_thread=lambda call: threading.Thread(target=time.sleep, args=(600,), daemon=True).start(),
    leaves_a_thread_that_waits=lambda call: threading.Thread(target=time.sleep, args=(600,)).start(),
    lowers_the_recursion_limit=lambda call: sys.setrecursionlimit(120),
    raises_on_numpy_warnings=lambda call: np.seterr(all="raise"),
    rounds_upwards=lambda call: change_floats("upwards"),
    flushes_subnormals=lambda call: change_floats("flush"),
    clears_the_path=lambda call: sys.path.clear(),
    switches_off_the_collector=lambda call: gc.disable(),
    changes_the_umask=lambda call: os.umask(0o777),
)


@fault("state", "passed")
def changes_into_a_folder_that_vanishes(call):
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.rmdir(folder)


@fault("state", "passed")
def changes_the_environment(call):
    os.environ["CAMPAIGN_WAS_HERE"] = "1"
    os.environ.pop("HOME", None)


@fault("state", "passed")
def installs_signal_handlers(call):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGALRM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)


@fault("state", "passed")
def sets_a_timer(call):
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)


@fault("state", "passed")
def sets_a_deadly_timer(call):
    """The alarm rings in a later case, which has no part in it."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, 0.2)


@fault("state", "passed")
def lowers_its_limits(call):
    resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


@fault("state", "passed", "crashed")
def leaves_a_thread_that_crashes_later(call):
    def later() -> None:
        time.sleep(0.05)
        ctypes.string_at(0)

    threading.Thread(target=later).start()


@fault("state", "passed")
def calls_back_on_numpy_warnings(call):
    def refuse(*_: object) -> None:
        raise RuntimeError("met the handler of another case")

    np.seterrcall(refuse)
    np.seterr(all="call")


@fault("state", "passed")
def traps_divisions(call):
    """The next division by zero is a SIGFPE."""
    change_floats("trap")


@fault("state", "passed", "crashed")
def leaves_a_posix_timer(call):
    library, timer, first = ctypes.CDLL(None), ctypes.c_void_p(), (ctypes.c_long * 4)(0, 0, 0, 20_000_000)
    library.timer_create(1, None, ctypes.byref(timer))
    library.timer_settime(timer, 0, first, None)


@fault("state", "passed")
def patches_numpy(call):
    true = np.frombuffer
    np.frombuffer = lambda *arguments, **keywords: true(*arguments, **keywords) * 0


@fault("state", "passed", "crashed", "error")
def patches_imports(call):
    def refuse(*_: object, **__: object) -> None:
        raise ImportError("patched")

    builtins.__import__ = refuse


@fault("state", "passed", "crashed", "error")
def patches_msgspec(call):
    msgspec.json.encode = lambda *_: b"nonsense"


@fault("state", "passed")
def leaves_a_busy_thread(call):
    """No thread of Python: one that waits for a lock which it never gets, and uses the processor meanwhile."""
    library, handle = ctypes.CDLL(None), ctypes.c_ulong()
    lock = ctypes.c_int()
    KEPT.append(lock)
    library.pthread_spin_init(ctypes.byref(lock), 0)
    library.pthread_spin_lock(ctypes.byref(lock))
    library.pthread_create(ctypes.byref(handle), None, library.pthread_spin_lock, ctypes.byref(lock))


@fault("state", "passed")
def leaves_an_idle_thread(call):
    """As pools of OpenMP and BLAS do."""
    library, handle = ctypes.CDLL(None), ctypes.c_ulong()
    library.pthread_create(ctypes.byref(handle), None, library.sleep, ctypes.c_void_p(600))


@fault("state", "passed")
def leaves_many_mappings(call):
    library = ctypes.CDLL(None)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    library.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    start = library.mmap(None, 64_000 * 4096, 0, 0x22, -1, 0)
    for page in range(0, 64_000, 2):
        library.mprotect(start + page * 4096, 4096, 1)


@fault("state", "passed", "crashed", "error", fresh=True)
def closes_its_output(call):
    sys.stdout.close()
    os.close(1)
    os.close(2)


@fault("state", "passed", "crashed", "error", fresh=True)
def replaces_its_output(call):
    sys.stdout = None
    sys.stderr = object()


@fault("state", "passed")
def seeds_the_random_numbers(call):
    random.seed(0)
    np.random.seed(0)


faults(
    "state",
    "passed",
    "crashed",
    "error",
    leaves_an_exit_handler_that_hangs=lambda call: atexit.register(time.sleep, 600),
    opens_many_files=lambda call: call.notes.extend(str(os.open("/dev/null", os.O_RDONLY)) for _ in range(300)),
)


@fault("state", "passed", "crashed", "error")
def exhausts_its_descriptors(call):
    try:
        while True:
            os.open("/dev/null", os.O_RDONLY)
    except OSError:
        return


@fault("state", "passed", "crashed", "error", fresh=True)
def removes_builtins(call):
    del builtins.len


@fault("state", "passed", "crashed", "error", "timed_out", fresh=True)
def removes_modules(call):
    for name in list(sys.modules):
        if name.startswith("mluops_gtest"):
            del sys.modules[name]


@fault("state", "passed", "crashed", "error", fresh=True)
def traces_every_line(call):
    sys.settrace(lambda *_: None)
    threading.settrace(lambda *_: None)


@fault("state", "passed")
def leaves_files_in_the_temporary_folder(call):
    """Its own business: not the harness's file, but the worker's folder goes with it."""
    path = tempfile.mkstemp()[1]
    os.unlink(path)


@fault("state", "passed")
def leaves_thousands_of_nested_folders(call):
    """Deeper than the recursion limit, and longer than a path may be."""
    before = os.getcwd()
    os.chdir(tempfile.mkdtemp())
    for _ in range(3000):
        os.mkdir("d")
        os.chdir("d")
    os.chdir(before)  # where a process is takes seconds to say from so deep


@fault("state", "passed")
def leaves_a_locked_folder(call):
    folder = tempfile.mkdtemp()
    os.mkdir(f"{folder}/inner")
    os.chmod(folder, 0)


@fault("state", "passed")
def leaves_a_sparse_file_of_20_gib(call):
    with open(tempfile.mkstemp()[0], "wb") as file:
        file.truncate(20 << 30)
