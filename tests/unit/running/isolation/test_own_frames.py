"""A fault handler's trace shows the backend's frames, and none of the harness."""

from mluops_gtest.running.workers.pool import __file__ as own
from mluops_gtest.running.workers.pool import hide_own_frames

OWN = f'  File "{own}", line 7 in run\n  File "<string>", line 1 in <module>\n'
THEIRS = '  File "/home/me/kernels.py", line 12 in run\n'
MODULES = "\nExtension modules: numpy._core._multiarray_umath (total: 1)\n"
FATAL = "Fatal Python error: Segmentation fault\n\n"
CURRENT = "Current thread 0x00007f70 (most recent call first):\n"
OTHER = "Thread 0x00007f71 [python] (most recent call first):\n"


def test_a_trace_of_ours_alone_goes_and_what_was_printed_stays():
    assert hide_own_frames(f"printed\n{FATAL}{CURRENT}{OWN}{MODULES}") == "printed\n"


def test_frames_of_the_backend_stay_in_order():
    output = f"printed\n{FATAL}{CURRENT}{THEIRS}{OWN}{MODULES}"
    assert hide_own_frames(output) == f"printed\n{FATAL}{CURRENT}{THEIRS}"


def test_threads_without_frames_of_the_backend_go():
    output = f"{FATAL}{OTHER}{OWN}\n{CURRENT}{THEIRS}{OWN}{MODULES}"
    assert hide_own_frames(output) == f"{FATAL}{CURRENT}{THEIRS}"


def test_what_is_printed_behind_a_trace_stays():
    assert hide_own_frames(f"{FATAL}{CURRENT}{OWN}\nfrom a child\n") == "from a child\n"


def test_what_is_no_trace_stays_as_it_is():
    for output in ("", "Fatal Python error: printed by a backend\n", f"{CURRENT}{OWN}"):
        assert hide_own_frames(output) == output
