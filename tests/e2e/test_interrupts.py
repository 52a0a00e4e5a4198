"""Ctrl-C while commands start: exit code 130 and one word, whatever is being imported."""

import os
import signal
import subprocess
import sys

import pytest

from tests.conftest import ROOT

# As if Ctrl-C were pressed in the middle of that import, by code that may catch what it raises.
INTERRUPTED = """
import os
import signal

try:
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(1000):
        pass
except Exception:
    raise SystemExit("swallowed")
raise ImportError("the interrupt came to nothing")
"""


@pytest.mark.parametrize("module", ["click", "msgspec", "numpy"])
def test_an_interrupt_during_the_first_imports_ends_with_130_and_no_traceback(tmp_path, module):
    (tmp_path / f"{module}.py").write_text(INTERRUPTED)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-m", "mluops_gtest", "run", "voxel_pooling_forward/order_of_axes"],
        capture_output=True, text=True, cwd=tmp_path, env=environment, check=False,
        # Whoever runs the tests may ignore interrupts, which children inherit.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert (done.returncode, done.stderr.strip()) == (130, "interrupted")


def test_ignored_interrupts_stay_ignored(tmp_path):
    (tmp_path / "click.py").write_text(INTERRUPTED.replace("for _", "print('goes on'); raise SystemExit(7)\n    for _"))
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    words = f"trap '' INT; exec {sys.executable} -m mluops_gtest --version"
    done = subprocess.run(
        ["sh", "-c", words], capture_output=True, text=True, cwd=tmp_path, env=environment, check=False
    )
    assert (done.returncode, done.stdout) == (7, "goes on\n")
