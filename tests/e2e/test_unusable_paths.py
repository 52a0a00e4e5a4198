"""A path that no file system takes is the user's mistake, told in one sentence, wherever it stands."""

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

LONG = "a" * 300


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("history", "show", "--db", f"{LONG}/history.sqlite"),
        ("generate", "--tag", "smoke", "--out", LONG),
        ("new", "backend", LONG),
        ("run", f"{LONG}/case.pb", "--out", "results"),
        ("run", "--tag", "smoke", "--out", LONG),
    ],
)
def test_a_name_that_is_too_long(tmp_path, arguments):
    done = subprocess.run(
        [sys.executable, "-m", "mluops_gtest", *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode in (2, 5, 74)
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stderr.startswith("error: ")
    assert list(tmp_path.iterdir()) == []
