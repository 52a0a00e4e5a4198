"""What a library does to the floating-point state of its thread decides no verdict in this process."""

import ctypes
import textwrap

import numpy as np
import pytest

import mluops_gtest as mt
from mluops_gtest.base import float_state
from tests.conftest import ROOT
from tests.e2e.conftest import SUPPORT, backends_in
from tests.support.float_state_backends import Flushing, flushes
from tests.support.native import compile_library, needs_gcc

CASE = "indice_convolution_backward_data/tiny_results_float"
CHANGED = "changed how floats are rounded, flushed to zero or trapped; that was put back"

backend = backends_in("float_state_backends")


@pytest.fixture
def library(tmp_path, monkeypatch):
    """Compiled for this test alone: a library that is loaded already is not begun again."""
    path = compile_library(tmp_path / "libflushing.so", SUPPORT / "flushing_library.c")
    monkeypatch.setenv("FLUSHING_LIBRARY", str(path))
    with float_state.own_floats():
        yield path


@pytest.fixture
def flushing_thread(library):
    """The thread of the test flushes."""
    ctypes.CDLL(str(library))
    assert flushes()


class TestALibraryThatFlushes:
    pytestmark = needs_gcc

    def test_judges_right_without_isolation(self, run, library):
        result = run(CASE, "--no-isolate", "--backend", backend("Flushing"))
        assert (result.code, result.results[CASE]["outcome"]) == (1, "failed")
        # It is the library's own state.
        assert "calls flush: True" in result.results[CASE]["notes"]
        assert CHANGED not in result.results[CASE]["notes"]

    def test_judges_an_object_right_and_leaves_the_thread_as_it_was(self, library):
        made = Flushing()
        assert flushes()
        report = mt.run(CASE, backend=made)
        assert [r.outcome.value for r in report.results] == ["failed"]
        assert "calls flush: True" in report.results[0].notes
        assert flushes()

    @pytest.mark.parametrize("count", [8, 3_000_000])
    def test_compares_arrays_right_on_every_thread(self, flushing_thread, count):
        # The same subnormal number everywhere, made of its bits: a thread that flushes could not convert it.
        baseline = np.full(count, 700_000, np.uint32).view(np.float32)
        assert not mt.compare(np.zeros_like(baseline), baseline, {"diff3": 0.0}).passed

    def test_the_fixture_judges_right(self, library, pytester, monkeypatch):
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        pytester.makepyfile(
            textwrap.dedent(f"""
            import ctypes, numpy as np, pytest
            ctypes.CDLL({str(library)!r})

            @pytest.mark.mluops({CASE!r})
            def test_zeros(mluops_case):
                mluops_case.check({{name: np.zeros_like(array) for name, array in mluops_case.expected.items()}})

            @pytest.mark.mluops({CASE!r})
            def test_right(mluops_case):
                mluops_case.check(mluops_case.expected)
            """)
        )
        result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
        result.assert_outcomes(passed=1, failed=1)
        result.stdout.fnmatch_lines(["*CaseFailed: *tiny_results_float*"])

    @pytest.mark.parametrize("where", ["--no-isolate", "--isolate"])
    def test_what_a_call_changes_is_put_back_and_told(self, run, library, where):
        result = run("--tag", "smoke", "-k", "masked_im2col or voxel", where, "--backend", backend("FlushesOnceCalled"))
        victims = [r for r in result.results.values() if r["operator"] == "masked_im2col_forward"]
        assert len(victims) < len(result.results)
        assert result.code == 0
        assert CHANGED in victims[0]["notes"]
        assert all("changed numpy's errstate; that was put back" in r["notes"] for r in victims)
        assert all("flushes: False, errors: warn" in r["notes"] for r in result.results.values())


def test_an_errstate_that_is_set_back_is_no_change(run):
    result = run(
        "--tag", "smoke", "-k", "voxel", "--no-isolate", "--backend", backend("RestoresItsErrors")
    ).expect_code(0)
    assert not [note for r in result.results.values() for note in r["notes"] if "errstate" in note]


def test_a_system_without_such_functions_refuses_foreign_code(run, monkeypatch):
    monkeypatch.setattr(float_state, "_C", None)
    run(CASE, "--no-isolate", "--backend", backend("RestoresItsErrors")).expect_error(2, "Leave out --no-isolate")
    assert run(CASE, "--backend", "numpy").code == 0
    with pytest.raises(mt.HarnessError, match="cannot run in this process"):
        mt.run(CASE, backend=mt.NumpyBackend())
