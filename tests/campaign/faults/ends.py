"""The worker ends, hangs, or is made to look as if it did."""

import ctypes
import faulthandler
import os
import resource
import signal
import sys
import threading
import time

from tests.campaign.faults import fault, faults

# SIGPIPE and SIGXFSZ are ignored by Python, SIGCHLD, SIGCONT, SIGURG and SIGWINCH by the system.
DEADLY = (
    *(
        "SEGV",
        "ABRT",
        "BUS",
        "FPE",
        "ILL",
        "KILL",
        "TERM",
        "HUP",
        "QUIT",
        "ALRM",
        "USR1",
        "USR2",
        "TRAP",
        "SYS",
        "XCPU",
    ),
    *("INT", "VTALRM", "PROF", "IO", "PWR"),
)
STOPPING = ("STOP", "TSTP", "TTIN", "TTOU")
HARMLESS = ("PIPE", "CHLD", "CONT", "URG", "WINCH", "XFSZ")


def _kills_itself(word: str):
    def act(call):
        number = getattr(signal, f"SIG{word}")
        if word in DEADLY and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)  # who starts the campaign with nohup lets every child ignore it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
        time.sleep(0.01)

    return act


for _word in DEADLY:
    # A terminal's Ctrl-C arrives in Python as an exception.
    fault("signals", "crashed", "error", name=f"sig{_word.lower()}")(_kills_itself(_word))
# An orphaned process group ignores SIGTSTP, SIGTTIN and SIGTTOU.
for _word in STOPPING:
    fault("hangs", "timed_out", *(() if _word == "STOP" else ("passed",)), name=f"sig{_word.lower()}")(
        _kills_itself(_word)
    )
for _word in HARMLESS:
    fault("signals", "passed", name=f"sig{_word.lower()}")(_kills_itself(_word))


faults(
    "signals",
    "crashed",
    reads_null=lambda call: ctypes.string_at(0),
    writes_null=lambda call: ctypes.memset(0, 1, 1),
    calls_null=lambda call: ctypes.CFUNCTYPE(None)(0)(),
    kills_its_group=lambda call: os.killpg(0, signal.SIGKILL),
)


@fault("signals", "crashed")
def crashes_without_a_trace(call):
    faulthandler.disable()
    ctypes.string_at(0)


@fault("signals", "crashed")
def crashes_in_a_thread(call):
    thread = threading.Thread(target=ctypes.string_at, args=(0,))
    thread.start()
    thread.join()


@fault("signals", "crashed", "timed_out")
def overflows_the_stack_in_c(call):
    sys.setrecursionlimit(10**9)
    nested = []
    for _ in range(10**6):
        nested = [nested]
    repr(nested)


@fault("signals", "crashed", slow=True)
def runs_out_of_processor_time(call):
    """The system counts in whole seconds."""
    resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
    while True:
        pass


faults(
    "exits",
    "crashed",
    exits_with_0=lambda call: os._exit(0),
    exits_with_3=lambda call: os._exit(3),
    exits_with_70=lambda call: os._exit(70),
    exits_in_c=lambda call: ctypes.CDLL(None).exit(5),
    sys_exit=lambda call: sys.exit("enough"),
    sys_exit_with_0=lambda call: sys.exit(0),
)


@fault("exits", "crashed")
def exits_from_a_thread(call):
    threading.Thread(target=os._exit, args=(4,)).start()
    time.sleep(600)


@fault("exits", "crashed", "error")
def replaces_its_program(call):
    os.execv("/bin/true", ["true"])


@fault("exits", "crashed", "timed_out")
def replaces_its_program_and_sleeps(call):
    os.execv("/bin/sleep", ["sleep", "600"])


faults(
    "hangs",
    "timed_out",
    sleeps=lambda call: time.sleep(600),
    pauses_with_the_interpreter_locked=lambda call: ctypes.PyDLL(None).pause(),
)


@fault("hangs", "timed_out")
def spins(call):
    while True:
        pass


@fault("hangs", "timed_out")
def waits_for_a_lock_that_it_holds(call):
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


@fault("hangs", "timed_out")
def blocks_all_signals_and_sleeps(call):
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if number < signal.SIGRTMIN:
            signal.signal(number, signal.SIG_IGN)
    time.sleep(600)


@fault("hangs", "timed_out")
def swallows_every_exception(call):
    while True:
        try:
            time.sleep(600)
        except BaseException:
            continue


@fault("hangs", "timed_out", "error", "crashed")
def reads_its_input(call):
    sys.stdin.read()
    time.sleep(600)
