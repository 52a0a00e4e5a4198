"""`--backend torch`: a third implementation of every operator, held to the same cases."""

import sys

import pytest

from tests.support.torch_needed import needs_torch

KERNEL = """\
import torch


def run(call, inputs, outputs):
    torch.mul(inputs["x"], call.param("factor"), out=outputs["y"])
"""


# Torch has no operation that lists the points of cells.
WITHOUT = {"roiaware_pool3d_forward"}
# Its NaN have other bits where an operation gives them, or makes them quiet.
OTHER_NAN = {
    "abs/every_nan_bfloat16", "abs/values_nan_inf_half", "abs/values_nan_only_half",
    *(f"moe_dispatch_{way}/nonfinite_{product}" for way in ("backward_data", "forward")
      for product in ("inf_times_zero", "zero_times_inf")),
}  # fmt: skip


def of_torch(result):
    """The results of the operators that have a torch kernel; all others are skipped."""
    others = [one for one in result.results.values() if one["operator"] in WITHOUT]
    assert {one["outcome"] for one in others} <= {"skipped"}
    return {case: one for case, one in result.results.items() if one["operator"] not in WITHOUT}


@pytest.mark.slow
class TestWithTorch:
    pytestmark = needs_torch

    @pytest.mark.slow(seconds=20)
    def test_the_default_set_passes(self, run, catalogue):
        """Bit for bit where a copy is asked for."""
        result = run("--backend", "torch", "--bitwise", "--no-isolate", "--no-elementwise")
        results = of_torch(result)
        assert {case for case, one in results.items() if one["outcome"] != "passed"} == OTHER_NAN
        assert {one["operator"] for one in results.values()} == set(catalogue.operators) - WITHOUT
        assert result.report["backend"]["name"] == "torch"

    @pytest.mark.parametrize("selection", [("--tag", "undefined"), ("--tag", "smoke", "--repeat", "3")])
    def test_undefined_and_repeated_cases_pass(self, run, selection):
        result = run("--backend", "torch", *selection, "--no-isolate", "--no-elementwise").expect_code(0)
        assert {one["outcome"] for one in of_torch(result).values()} == {"passed"}

    def test_a_device_that_is_not_there(self, run):
        run("--backend", "torch:gpu", "--tag", "smoke", "--no-isolate").expect_error(
            4, "torch has no device 'gpu' here; present: cpu"
        )

    def test_an_operator_of_another_root_runs_by_its_torch_kernel(self, run, toy_with):
        result = run("--backend", "torch", "--root", toy_with(torch_kernel=KERNEL), "--no-isolate").expect_code(0)
        assert {r["outcome"] for r in result.results.values()} == {"passed"}

    def test_a_torch_kernel_that_does_not_load_is_told_with_its_file(self, run, toy_with):
        root = toy_with(torch_kernel="import nowhere_at_all\n")
        result = run("--backend", "torch", "--root", root, "--no-isolate").expect_code(1)
        assert {r["outcome"] for r in result.results.values()} == {"error"}
        reason = result.results["scale_by/ramp_2"]["reason"]
        assert f"{root}/generators/scale_by/torch_kernel.py:1: the file does not load: ModuleNotFoundError" in reason


def test_without_torch_the_command_that_installs_it_is_told(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    run("--backend", "torch", "--tag", "smoke", "--no-isolate").expect_error(4, "pip install 'mluops-test[torch]'")
