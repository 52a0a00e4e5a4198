"""A file that was edited within a second of its last load is not mistaken for its compiled form."""

import os
import subprocess
import sys

import pytest

from mluops_gtest.base.files import settled_bytecode
from tests.conftest import ROOT


@pytest.mark.parametrize(("age", "written"), [(0, False), (-5, False), (60, True)])
def test_compiled_files_are_written_of_settled_sources_alone(tmp_path, monkeypatch, age, written):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for name in ("kernel.py", "beside.py"):
        (tmp_path / name).write_text("")
    status = (tmp_path / "beside.py").stat()
    for name, seconds in (("kernel.py", 60), ("beside.py", age)):
        os.utime(tmp_path / name, (status.st_atime, status.st_mtime - seconds))
    with settled_bytecode(tmp_path / "kernel.py"):
        assert sys.dont_write_bytecode is not written
    assert not sys.dont_write_bytecode


@pytest.mark.slow
def test_an_edit_of_the_same_length_counts_at_once(tmp_path):
    """Both loads in processes that write compiled files, within one second."""
    backend = tmp_path / "mine.py"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": str(tmp_path / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    load = "import sys; from mluops_gtest.backends.registry import _load_file; from pathlib import Path; "
    load += "print(_load_file('mine', Path(sys.argv[1])).VALUE)"
    told = []
    for value in (1, 2):
        backend.write_text(f"VALUE = {value}\n")
        done = subprocess.run(
            [sys.executable, "-c", load, backend], env=environment, capture_output=True, text=True, check=True
        )
        told.append(done.stdout.strip())
    assert told == ["1", "2"]
