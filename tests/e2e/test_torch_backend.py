"""`--backend torch`: a third implementation of every operator, held to the same cases."""

import pytest

from tests.support.torch_needed import needs_torch

pytestmark = needs_torch

BACKEND = "mluops_gtest.backends.torch_backend:TorchBackend"


def test_the_default_set_passes(run, catalogue):
    """Bit for bit where a copy is asked for."""
    result = run("--backend", BACKEND, "--bitwise")
    assert result.code == 0, result.out[-3000:]
    assert set(result.report["summary"]) == {"passed"}
    assert {r["operator"] for r in result.results.values()} == set(catalogue.operators)
    assert result.report["backend"]["name"] == "torch"


@pytest.mark.parametrize("selection", [("--tag", "undefined"), ("--tag", "smoke", "--repeat", "3")])
def test_undefined_and_repeated_cases_pass(run, selection):
    result = run("--backend", BACKEND, *selection)
    assert result.code == 0, result.out[-3000:]
    assert set(result.report["summary"]) == {"passed"}
