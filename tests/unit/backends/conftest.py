"""A toy operator and a shell script as its kernel, behind exec:COMMAND."""

import contextlib

import pytest

from mluops_gtest.backends.exec_backend import ExecBackend
from mluops_gtest.casefiles.writer import CallFolderWriter
from mluops_gtest.catalog.operators import load_operator
from tests.support.shell_programs import SERVE
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
