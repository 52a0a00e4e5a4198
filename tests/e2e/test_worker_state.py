"""What a call leaves in its worker is put back, or the worker is replaced; innocent cases do not meet it."""

import sys

import pytest

from tests.e2e.conftest import SUPPORT, backends_in, split
from tests.support.native import compile_library, needs_gcc

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
REPLACED = "; its worker was replaced"
SMOKE = ("--tag", "smoke", "-k", "masked_im2col_forward or voxel_pooling")
backend = backends_in("state_backends")


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("RoundsUpwards", "changed how floats are rounded, flushed to zero or trapped; that was put back"),
        ("RaisesOnErrors", "changed numpy's errstate; that was put back"),
        ("CallsOnErrors", "changed numpy's errstate; that was put back"),
        ("LeavesAPosixTimer", "left a POSIX timer armed" + REPLACED),
        ("LeavesAChildAtItsLine", "left a child process that shares its tensors" + REPLACED),
        ("UsesUpMappings", "left 6"),
        ("ClearsThePath", "removed folders from sys.path; that was put back"),
        ("PatchesNumpy", "replaced numpy.frombuffer; that was put back"),
        ("PatchesImport", "replaced builtins.__import__; that was put back"),
        ("PatchesMsgspec", "replaced msgspec.json.encode; that was put back"),
        ("LeavesABusyThread", "left threads running that use the processor" + REPLACED),
    ],
)
def test_innocent_cases_meet_nothing(run, name, note):
    victims, others = split(run(*SMOKE, "--backend", backend(name)))
    assert {r["outcome"] for r in others} == {"passed"}
    assert all(any(one.startswith(note) for one in r["notes"]) for r in victims)
    assert not [one for r in others for one in r["notes"] if one.startswith(note)]


def test_a_worker_whose_memory_was_written_to_is_replaced(run):
    victims, others = split(run(*SMOKE, "--backend", backend("WritesBehindItsOutput")))
    assert {r["outcome"] for r in victims} == {"memory"}
    assert {r["outcome"] for r in others} == {"passed"}


def test_an_idle_pool_stays(run):
    result = run(*SMOKE, "--backend", backend("KeepsAnIdlePool")).expect_code(0)
    assert len({tuple(r["notes"]) for r in result.results.values()}) == 1


@pytest.mark.parametrize(
    "name", ["FinishesLater", pytest.param("CountsInAThread", marks=needs_gcc), "SpoilsAfterwards", "CountsInAChild"]
)
def test_a_kernel_that_returns_before_it_has_finished_is_told_on_its_own_case(run, name, tmp_path, monkeypatch):
    if name == "CountsInAThread":
        library = compile_library(tmp_path / "libunfinished.so", SUPPORT / "unfinished.c", flags=("-pthread", "-O2"))
        monkeypatch.setenv("UNFINISHED_LIBRARY", str(library))
    result = run(*SMOKE, "--backend", backends_in("unfinished_backends")(name))
    victims, others = split(result)
    assert result.code == 1
    assert {r["outcome"] for r in others} == {"passed"}
    computing = [r for r in victims if r["expected_status"] == "SUCCESS"]
    assert computing
    assert {r["reason"] for r in computing} == {"the call returned while something still wrote to data_col"}
    assert {r["outcome"] for r in computing} == {"failed"}
