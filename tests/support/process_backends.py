"""Backends that act on processes and limits around them; each does it on the victim's cases alone."""

import ctypes
import mmap
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.support.crashing_backends import Isolated, misbehaving


def note_pid(pid):
    """Tell the test which processes to look for."""
    with Path(os.environ["PIDS"]).open("a") as file:
        file.write(f"{pid}\n")


def first_time(name):
    """Whether nobody asked for that name before, in any process of the run."""
    try:
        Path(f"{os.environ['PIDS']}.{name}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def daemonise(work):
    """A grandchild in a session of its own, whose parent is dead: nobody's descendant by ancestry."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.setsid()
        if os.fork() == 0:
            note_pid(os.getpid())
            os.write(writer, b"x")
            try:
                work()
            finally:
                os._exit(0)
        os._exit(0)
    os.waitpid(child, 0)
    os.read(reader, 1)
    os.close(reader)
    os.close(writer)


class NestsFolders(Isolated):
    """In its own temporary folder, deeper than the recursion limit and than a path may be long."""

    def misbehave(self, call):
        if first_time("nests"):
            before, folder = os.getcwd(), tempfile.mkdtemp()
            Path(os.environ["PIDS"]).write_text(folder)
            os.chdir(folder)
            for _ in range(3000):
                os.mkdir("d")
                os.chdir("d")
            os.chdir(before)


class ResizesItsTensors(Isolated):
    def misbehave(self, call):
        for fd in os.listdir("/proc/self/fd"):
            try:
                if os.readlink(f"/proc/self/fd/{fd}").startswith("/memfd:mluops-test"):
                    os.ftruncate(int(fd), 0)
            except OSError as error:
                call.notes.append(f"ftruncate: {type(error).__name__}")


def leave_daemon(_):
    daemonise(lambda: time.sleep(600))


def leave_program(_):
    program = [sys.executable, "-c", "import time; time.sleep(600)"]
    note_pid(subprocess.Popen(program, env={}, start_new_session=True).pid)


LeavesADaemon = misbehaving(leave_daemon)
LeavesADaemonAndCrashes = misbehaving(lambda call: leave_daemon(call) or ctypes.string_at(0))
LeavesAProgramWithoutEnvironment = misbehaving(leave_program)


class LeavesDaemonsAndIsSlow(Isolated):
    def misbehave(self, call):
        leave_program(call)
        leave_daemon(call)
        (Path(os.environ["TMPDIR"]) / "left").write_text("x")
        Path(os.environ["PIDS"] + ".folder").write_text(os.environ["TMPDIR"])
        note_pid(os.getpid())
        note_pid(os.getppid())
        Path(os.environ["PIDS"] + ".ready").touch()
        time.sleep(600 if first_time("slow") else 0)


class WritesFromBehind(Isolated):
    """A child goes on writing to the tensors of a case after the worker died."""

    def misbehave(self, call):
        (output,) = call.outputs.values()
        if os.fork() == 0:
            os.setsid()
            while True:
                output.array.fill(7)
        os._exit(5)


def kill_fork_server(*_):
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)


KillsTheForkServerOnce = misbehaving(lambda _: first_time("killed") and kill_fork_server())
KillsTheForkServerAlways = misbehaving(kill_fork_server)
KillsTheForkServerWhileLoading = type("Kills", (Isolated,), {"__init__": kill_fork_server})


class StopsTheForkServerOnce(Isolated):
    """Nobody needs the fork server before the next crash."""

    def misbehave(self, call):
        if first_time("stopped"):
            os.kill(os.getppid(), signal.SIGSTOP)
        elif first_time("crashed"):
            ctypes.string_at(0)


class SpoilsTheForkServer(Isolated):
    """Kills it, and makes the next one fail at its first import."""

    def misbehave(self, call):
        Path(os.environ["SPOILED"], "mluops_gtest.py").write_text("")
        Path(os.environ["SPOILED"], "sitecustomize.py").write_text("import os; os._exit(9)\n")
        kill_fork_server()


class RaisesItsLimit(Isolated):
    def misbehave(self, call):
        try:
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        except (ValueError, OSError):
            call.notes.append("refused")
        else:
            call.notes.append("raised")


class RaisesItsLimitForAMoment(Isolated):
    def misbehave(self, call):
        before = resource.getrlimit(resource.RLIMIT_AS)
        try:
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        except (ValueError, OSError):
            call.notes.append("refused")
            return
        mmap.mmap(-1, 2 << 30).close()
        resource.setrlimit(resource.RLIMIT_AS, before)
        call.notes.append("raised")


class RaisesTheSoftLimit(Isolated):
    def misbehave(self, call):
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
        self.kept = b"x" * (3 << 30)


class KeepsWhatItTook(Isolated):
    """Half of the limit is left to every later case of this worker."""

    def misbehave(self, call):
        self.kept = [*getattr(self, "kept", ()), mmap.mmap(-1, 600 << 20)]


def handler(*_):
    pass


class ChangesEverything(Isolated):
    """What one case changes must not be seen by the next."""

    def run(self, call):
        for name, value in self.state().items():
            call.notes.append(f"{name}={value}")
        return super().run(call)

    def state(self):
        return {
            "folder": os.getcwd(),
            "word": os.environ.get("CHANGED"),
            "home": os.environ.get("HOME"),
            "usr1": signal.getsignal(signal.SIGUSR1) is handler,
            "segv": ctypes.CDLL(None).signal(signal.SIGSEGV, None) == 0,
            "files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            "umask": os.umask(os.umask(0o22)),
            "timer": signal.getitimer(signal.ITIMER_REAL)[0] > 0,
        }

    def misbehave(self, call):
        os.chdir("/")
        os.environ["CHANGED"] = "yes"
        os.environ.pop("HOME", None)
        ctypes.CDLL(None).setenv(b"CHANGED_IN_C", b"yes", 1)
        signal.signal(signal.SIGUSR1, handler)
        signal.setitimer(signal.ITIMER_REAL, 600)
        resource.setrlimit(resource.RLIMIT_NOFILE, (99, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        os.umask(0o77)


class LeavesNoDescriptor(Isolated):
    """Every case opens a file of its own; a victim leaves none for it."""

    def run(self, call):
        with Path(os.devnull).open():
            return super().run(call)

    def misbehave(self, call):
        try:
            while True:
                os.open(os.devnull, os.O_RDONLY)
        except OSError:
            call.notes.append("no descriptor is left")


class LeavesAThread(Isolated):
    def run(self, call):
        call.notes.append(f"threads {threading.active_count()}")
        return super().run(call)

    def misbehave(self, call):
        threading.Thread(target=time.sleep, args=(600,), name="left", daemon=True).start()


class TellsItsProcess(Isolated):
    def run(self, call):
        call.notes.append(f"process {os.getpid()}")
        return super().run(call)
