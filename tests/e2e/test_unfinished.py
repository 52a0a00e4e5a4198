"""A kernel that returns before it has finished is told so, on its own case."""

import sys

import pytest

from tests.e2e.conftest import SUPPORT
from tests.e2e.test_processes import SMOKE, split
from tests.support.native import compile_library, needs_gcc

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


@pytest.fixture(autouse=True)
def _library(request, tmp_path, monkeypatch):
    if "CountsInAThread" in request.node.name:
        library = compile_library(tmp_path / "libunfinished.so", SUPPORT / "unfinished.c", flags=("-pthread", "-O2"))
        monkeypatch.setenv("UNFINISHED_LIBRARY", str(library))


@pytest.mark.parametrize(
    "name",
    ["FinishesLater", pytest.param("CountsInAThread", marks=needs_gcc), "SpoilsAfterwards", "CountsInAChild"],
)
def test_the_guilty_case_is_told(run, name):
    result = run(*SMOKE, "--backend", f"{SUPPORT / 'unfinished_backends.py'}:{name}")
    victims, others = split(result)
    assert result.code == 1
    assert {r["outcome"] for r in others} == {"passed"}
    computing = [r for r in victims if r["expected_status"] == "SUCCESS"]
    assert computing
    assert {r["reason"] for r in computing} == {"the call returned while something still wrote to data_col"}
    assert {r["outcome"] for r in computing} == {"failed"}
